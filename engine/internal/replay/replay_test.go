package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

const memory = 64 << 20

func newReplay() (*Replay, *item.Pool) {
	p := &item.Pool{Memory: new(atomic.Int64), Arena: item.NewArena(memory), Free: item.NewFreeLists(1, memory)[0]}
	valid := func(name string) error {
		if name == "bad" {
			return errors.New("a bad name")
		}
		return nil
	}
	return New(Options{Pool: p, ValidateName: valid}), p
}

// The records of queue 1, called q.
func name(next uint64) []byte { return record.AppendQueue(nil, 1, next, 1000, "q") }

func puts(from, to uint64) (b []byte) {
	for id := from; id <= to; id++ {
		b = record.AppendPut(b, record.Destination{Queue: 1, Item: id}, body(id))
	}
	return b
}

func body(id uint64) item.Item { return item.Item{ID: id, Data: fmt.Append(nil, "item ", id)} }

func gone(from, to uint64) []byte { return record.AppendRemove(nil, 1, from, uint32(to-from)) }

func keep(id uint64) []byte { return record.AppendKeep(nil, 1, body(id)) }

func change(id uint64, c record.Change) []byte { return record.AppendChange(nil, 1, id, c) }

func spill(number, first, last uint64) []byte {
	state := runs.State{FirstID: first, LastID: last, Count: int64(last - first + 1), Bytes: 1, End: 4096}
	return record.AppendSpill(nil, 1, segment.RunID{Number: number}, state)
}

// describe says what a queue is: its name and next id, its runs, and what is gone. It lists the items of the window
// with their segments, and the items that are kept or changed.
func describe(q *Queue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d", q.Name, q.NextID)
	list := func(what string, n int, all string) {
		if n > 0 {
			fmt.Fprintf(&b, " %s %s", what, strings.TrimSpace(all))
		}
	}
	window := ""
	q.Window.Each(func(it item.Item) bool {
		if string(it.Data) != fmt.Sprint("item ", it.ID) {
			window += "WRONG "
		}
		window += fmt.Sprintf("%d@%d ", it.ID, q.Segments.Of(it.ID))
		return true
	})
	list("window", int(q.Window.Count), window)
	kept := ""
	for _, id := range slices.Sorted(maps.Keys(q.Kept)) {
		kept += fmt.Sprintf("%d@%d ", id, q.Kept[id].Segment)
	}
	list("kept", len(q.Kept), kept)
	changed := ""
	for _, id := range slices.Sorted(maps.Keys(q.Changed)) {
		changed += fmt.Sprintf("%d(%d) ", id, q.Changed[id].Count)
	}
	list("changed", len(q.Changed), changed)
	all := ""
	for _, r := range q.Runs {
		all += fmt.Sprintf("%d:%d-%d ", r.ID.Number, r.State.FirstID, r.State.LastID)
	}
	list("runs", len(q.Runs), all)
	ids := ""
	for _, r := range q.Gone.Ranges() {
		ids += fmt.Sprintf("%d-%d ", r.First, r.Last)
	}
	list("gone", int(q.Gone.RangeCount()), ids)
	return b.String()
}

// TestReplay reads records, each in a segment of its own, and says what the queue is.
func TestReplay(t *testing.T) {
	for _, tt := range []struct {
		name    string
		records [][]byte
		want    string
	}{
		{"puts", [][]byte{name(1), puts(1, 2)}, "q:3 window 1@2 2@2"},
		{"a name behind the puts", [][]byte{puts(5, 6), name(9)}, "q:9 window 5@1 6@1"},
		{"removes at the head", [][]byte{name(1), puts(1, 3), gone(1, 2)}, "q:4 window 3@2 gone 1-2"},
		{"a remove in the middle", [][]byte{name(1), puts(1, 3), gone(2, 2)}, "q:4 window 1@2 3@2 gone 2-2"},
		{"a keep", [][]byte{name(3), keep(2)}, "q:3 kept 2@2"},
		{"a keep that is removed", [][]byte{name(3), keep(2), gone(2, 2)}, "q:3 gone 2-2"},
		{"a spill empties the window", [][]byte{name(1), puts(1, 3), spill(7, 1, 2)}, "q:4 window 3@2 runs 7:1-2"},
		{"an item before the run was open", [][]byte{name(1), puts(1, 3), spill(7, 2, 3)}, "q:4 kept 1@2 runs 7:2-3"},
		{"a run grows", [][]byte{name(1), spill(7, 1, 2), spill(7, 1, 5)}, "q:6 runs 7:1-5"},
		{"a changed item stays behind", [][]byte{name(1), puts(1, 2), change(1, record.Change{Count: 3}), spill(7, 1, 2)},
			"q:3 kept 1@2 changed 1(3) runs 7:1-2"},
		{"a change of an item that is gone", [][]byte{name(1), puts(1, 1), gone(1, 1), change(1, record.Change{Count: 1})},
			"q:2 gone 1-1"},
		{"a flush", [][]byte{name(1), puts(1, 4), record.AppendFlush(nil, 1, 4, []uint64{2})},
			"q:5 window 2@2 4@2 gone 1-1 3-3"},
		{"deleted", [][]byte{name(1), puts(1, 1), record.AppendDelete(nil, 1)}, ""},
	} {
		r, p := newReplay()
		for i, b := range tt.records {
			if err := r.Frame(segment.Frame{Payload: b, Segment: uint64(i + 1)}); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		got := ""
		for _, q := range r.Queues() {
			q.Compact(p, memory)
			got += describe(q)
			if q.Window.Clear(p); q.Oldest != 1 || q.Created != 1000 {
				t.Errorf("%s: oldest segment %d, created at %d", tt.name, q.Oldest, q.Created)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if n := p.Memory.Load(); n != 0 {
			t.Errorf("%s: %d bytes of memory are left", tt.name, n)
		}
	}
}

// TestReplayRefuses reads records that make no sense together. The error says where.
func TestReplayRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		good []byte
		bad  []byte
		want string
	}{
		{"an item twice", puts(1, 2), puts(2, 2), "item 2 is put twice, or out of order"},
		{"another name", name(1), record.AppendQueue(nil, 1, 1, 0, "p"), `is named "p", but was "q"`},
		{"a bad name", nil, record.AppendQueue(nil, 1, 1, 0, "bad"), "a bad name"},
		{"a next without a put", name(1), record.AppendNext(nil, item.Item{}), "a record continues a put"},
		{"a keep of no item", nil, keep(0), "out of range"},
	} {
		r, _ := newReplay()
		err := r.Frame(segment.Frame{Payload: slices.Concat(tt.good, tt.bad), Path: "x", Offset: 64, Segment: 1})
		var damage *segment.CorruptionError
		if !errors.As(err, &damage) || !strings.Contains(damage.Reason, tt.want) ||
			damage.Offset != int64(64+segment.FrameHeaderSize+len(tt.good)) {
			t.Errorf("%s: %v, want %q at the record", tt.name, err, tt.want)
		}
	}
}

// TestLastNumbers: deleted queues, and runs that no item needs, have had their numbers.
func TestLastNumbers(t *testing.T) {
	r, _ := newReplay()
	b := slices.Concat(name(1), spill(9, 1, 2), record.AppendDelete(nil, 77))
	if err := r.Frame(segment.Frame{Payload: b, Segment: 1}); err != nil {
		t.Fatal(err)
	}
	if queue, run := r.LastNumbers(); queue != 77 || run != 9 {
		t.Errorf("LastNumbers = %d, %d, want 77, 9", queue, run)
	}
}

// TestTakeChanged takes items that are changed from the window and from those kept, and misses one.
func TestTakeChanged(t *testing.T) {
	r, p := newReplay()
	changes := slices.Concat(change(1, record.Change{Count: 1}), change(2, record.Change{Count: 2}))
	for i, b := range [][]byte{name(1), puts(2, 3), keep(1), changes} {
		if err := r.Frame(segment.Frame{Payload: b, Segment: uint64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	q := r.Queues()[0]
	var taken []string
	err := q.TakeChanged(p, memory, func(it item.Item, seg uint64, c record.Change) {
		taken = append(taken, fmt.Sprintf("%s@%d(%d)", it.Data, seg, c.Count))
	})
	slices.Sort(taken)
	if want := []string{"item 1@3(1)", "item 2@2(2)"}; err != nil || !slices.Equal(taken, want) {
		t.Errorf("taken are %q, %v, want %q", taken, err, want)
	}
	if got, want := describe(q), "q:4 window 3@2 changed 1(1) 2(2)"; got != want {
		t.Errorf("left is %s, want %s", got, want)
	}
	q.Changed = map[uint64]record.Change{5: {}}
	if err := q.TakeChanged(p, memory, func(item.Item, uint64, record.Change) {}); err == nil {
		t.Error("no error, although the image of a changed item is missing")
	}
	if q.Window.Clear(p); p.Memory.Load() != 0 {
		t.Errorf("%d bytes of memory are left", p.Memory.Load())
	}
}

// TestMergeKept puts kept items among those of a window, whose segments then fall and rise.
func TestMergeKept(t *testing.T) {
	r, p := newReplay()
	for i, b := range [][]byte{name(1), puts(2, 2), puts(4, 5), keep(1), keep(3), keep(5), keep(6)} {
		if err := r.Frame(segment.Frame{Payload: b, Segment: uint64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	q := r.Queues()[0]
	q.MergeKept(p, &q.Window, slices.Sorted(maps.Keys(q.Kept)), memory)
	q.Kept = nil
	if got, want := describe(q), "q:7 window 1@2 2@2 3@3 4@3 5@6 6@7"; got != want {
		t.Errorf("merged: %s, want %s", got, want)
	}
	q.Window.Clear(p)
}
