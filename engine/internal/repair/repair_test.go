package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// The engine's tests damage directories that it has written, everywhere. These have a journal of a few
// records, and a replay that knows no more than it needs.

// puts is a replay of puts, removals and names.
type puts struct {
	s      *Salvage
	pool   item.Pool
	queues map[uint64]*Queue
	last   uint64
}

func newPuts(_ *journal.Dirs, s *Salvage) Replay {
	const memory = 64 << 20
	return &puts{s: s, queues: make(map[uint64]*Queue), pool: item.Pool{
		Memory: new(atomic.Int64), Arena: item.NewArena(memory), Free: item.NewFreeLists(1, memory)[0],
	}}
}

func (p *puts) Frame(f segment.Frame) error {
	for b := f.Payload; len(b) > 0; {
		rec, n, err := record.Parse(b)
		if err != nil {
			return err
		}
		b = b[n:]
		q := p.queues[rec.Queue]
		if q == nil {
			q = &Queue{Number: rec.Queue, NextID: 1, Kept: make(map[uint64]item.Item), Window: &item.Window{}}
			p.queues[rec.Queue], p.last = q, max(p.last, rec.Queue)
		}
		switch rec.Kind {
		case record.KindQueue:
			p.s.Follow(&q.Traces, q.NextID, rec.NextID)
			q.Name, q.Named, q.Created, q.NextID = string(rec.Name), true, rec.Created, rec.NextID
		case record.KindPut:
			p.s.Follow(&q.Traces, q.NextID, rec.ID)
			rec.Item.ID = rec.ID
			q.Window.Push(&p.pool, &rec.Item, 1<<20)
			q.NextID = rec.ID + 1
		case record.KindRemove:
			q.Gone = q.Gone.Add(idset.Between(rec.ID, rec.ID+uint64(rec.More)))
			for q.Window.Count > 0 && q.Gone.Has(q.Window.FirstID) {
				var first item.Item
				q.Window.First(&first)
				q.Window.Pop(&p.pool, &first)
			}
		default:
			return fmt.Errorf("record of kind %d", rec.Kind)
		}
	}
	return nil
}

func (p *puts) Queues() (all []*Queue) {
	for n := range p.last + 1 {
		if q := p.queues[n]; q != nil {
			all = append(all, q)
		}
	}
	return all
}

// place is a directory of a file system in memory.
func place(t *testing.T, fsys *segmenttest.FS) Place {
	return Place{
		FS: fsys, Dir: "data", Runs: "data/backlog", Log: segment.Options{FS: fsys, SegmentSize: 4096},
		Report: func(what string, err error) {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		},
		Expect: func(int64) {}, Read: func(int64) {},
	}
}

// write makes a journal with a frame for each of the encoders.
func write(t *testing.T, fsys *segmenttest.FS, frames ...func([]byte) []byte) {
	t.Helper()
	log, _, err := segment.Open("data/journal", place(t, fsys).Log, func(segment.Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, encode := range frames {
		if _, _, err := log.Append(encode(make([]byte, segment.FrameHeaderSize, 1024))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func name(queue, nextID uint64, name string) func([]byte) []byte {
	return func(b []byte) []byte { return record.AppendQueue(b, queue, nextID, 1000, name) }
}

func put(queue, id uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		it := item.Item{Data: fmt.Appendf(nil, "item %d", id), Added: 2000}
		return record.AppendPut(b, record.Destination{Queue: queue, Item: id}, it)
	}
}

func remove(queue, id uint64) func([]byte) []byte {
	return func(b []byte) []byte { return record.AppendRemove(b, queue, id, 0) }
}

// damage flips a bit in each frame of the journal that lost picks by its place among them, from 0 on.
func damage(t *testing.T, fsys *segmenttest.FS, lost ...int) {
	t.Helper()
	var offsets []int64
	path := ""
	_, _, err := segment.Scan(fsys, "data/journal", func(f segment.Frame) error {
		offsets, path = append(offsets, f.Offset), f.Path
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range lost {
		if err := fsys.FlipBit(path, offsets[i]+segment.FrameHeaderSize+2, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// held are the items of the journal that counts, as queue and id, and the names of queues.
func held(t *testing.T, fsys *segmenttest.FS) string {
	t.Helper()
	d, err := Examine(place(t, fsys), newPuts)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !d.Sound() {
		t.Errorf("gaps %+v, tear %+v are left", d.Gaps, d.Tear)
	}
	var all []string
	for _, q := range d.queues {
		var ids []uint64
		q.Window.Each(func(it item.Item) bool {
			ids = append(ids, it.ID)
			return true
		})
		all = append(all, fmt.Sprintf("%s %v next %d", q.Name, ids, q.NextID))
	}
	return strings.Join(all, "; ")
}

// TestRepair loses frames of a journal, and has the rest saved.
func TestRepair(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lost   []int // frames: 0 is the name of q, 1 to 5 are puts, 6 removes item 1, 7 names r, 8 puts to r
		losses []Loss
		left   string
	}{
		{"nothing", nil, nil, "q [2 3 4 5] next 6; r [1] next 2"},
		{"puts", []int{2, 3}, []Loss{
			{Queue: "q", FirstID: 2, LastID: 3, Items: 2, AtMost: true, Bytes: -1},
		}, "q [4 5] next 6; r [1] next 2"},
		{"the last put", []int{5}, nil, "q [2 3 4] next 5; r [1] next 2"},
		{"the removal", []int{6}, nil, "q [1 2 3 4 5] next 6; r [1] next 2"},
		{"a name", []int{7}, nil, "q [2 3 4 5] next 6; recovered-2 [1] next 2"},
		{"all of a queue", []int{7, 8}, nil, "q [2 3 4 5] next 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := segmenttest.New()
			write(t, fsys, name(1, 1, "q"), put(1, 1), put(1, 2), put(1, 3), put(1, 4), put(1, 5), remove(1, 1),
				name(2, 1, "r"), put(2, 1), name(3, 1, "end"))
			damage(t, fsys, tt.lost...)
			d, err := Examine(place(t, fsys), newPuts)
			if err != nil {
				t.Fatal(err)
			}
			if d.Sound() != (tt.lost == nil) || !slices.Equal(d.Losses, tt.losses) {
				t.Errorf("sound %t, losses %+v, want %+v", d.Sound(), d.Losses, tt.losses)
			}
			if !d.Sound() {
				if err := d.Repair(); err != nil {
					t.Fatal(err)
				}
				if files, err := fsys.List(d.Saved + "/journal"); err != nil || len(files) == 0 {
					t.Errorf("saved %q, %v", files, err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if got, want := held(t, fsys), tt.left+"; end [] next 1"; got != want {
				t.Errorf("afterwards %s, want %s", got, want)
			}
		})
	}
}

// TestExamineNothing has no directory to examine, and no lock.
func TestExamineNothing(t *testing.T) {
	if _, err := Examine(place(t, segmenttest.New()), newPuts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Examine = %v, want that there is no directory", err)
	}
}

// TestExamineProgress tests that Examine says how much there is to read, and counts all that it reads of it.
func TestExamineProgress(t *testing.T) {
	fsys := segmenttest.New()
	write(t, fsys, name(1, 1, "q"), put(1, 1), put(1, 2))
	var expected, read int64
	p := place(t, fsys)
	p.Expect = func(n int64) { expected += n }
	p.Read = func(n int64) { read += n }
	d, err := Examine(p, newPuts)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	segments, err := segment.List(fsys, "data/journal")
	if err != nil || len(segments) != 1 {
		t.Fatalf("%d segments: %v", len(segments), err)
	}
	if want := 3 * segments[0].Size; expected != want || read != want {
		t.Errorf("read %d of %d bytes, want all of %d", read, expected, want)
	}
}
