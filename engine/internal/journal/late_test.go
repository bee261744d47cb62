package journal

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// refusing is a committer that refuses batches as long as err is set, and keeps those that it takes.
type refusing struct {
	err   error
	taken []byte
}

func (c *refusing) AppendAs(_ segment.Version, buf []byte) (segment.Appended, []byte, error) {
	if c.err == nil {
		c.taken = append(c.taken, buf[segment.FrameHeaderSize:]...)
	}
	return segment.Appended{}, buf, c.err
}

func (c *refusing) Sync() (at segment.Position, err error) { return at, nil }

// TestLateFrames tests that what is recorded of a large item with its queue locked copies nothing of it until it is
// written. It is written as what records copy at once, also when the first writes fail, and its memory counts until then.
func TestLateFrames(t *testing.T) {
	it := item.Item{ID: 5, Data: bytes.Repeat([]byte("large"), item.MaxChunkSize/4), Flags: 7, Added: 1}
	keyed := it.With(nil, []byte("key"), "origin", item.Rejected)
	delayed := record.Change{Due: 1 << 40, Count: 3}
	to, over := []record.Destination{{Queue: 1, Item: 8}, {Queue: 2, Item: 9}}, []record.Destination{{Queue: 3, Item: 5}, {Queue: 4, Item: 6}}
	from := record.Destination{Queue: 9, Item: 10}
	kept := func(queue, id uint64, it item.Item, c record.Change) []byte {
		it.ID = id
		return record.AppendChange(record.AppendKeep(nil, queue, it), queue, id, c)
	}
	for _, tt := range []struct {
		name   string
		record func(*Journal) LSN
		want   []byte
		images int
	}{
		{"kept", func(j *Journal) LSN { j.Keep(new(Removal), 1, it); return j.End() }, record.AppendKeep(nil, 1, it), 1},
		{"changed", func(j *Journal) LSN {
			lsn, _ := j.KeepChanged(new(Removal), 1, keyed, delayed)
			return lsn
		}, kept(1, 5, keyed, delayed), 1},
		{"overwrites two, put to two", func(j *Journal) LSN {
			lsn, _ := j.PutExtra(slices.Clone(to), slices.Clone(over), keyed, delayed, from)
			return lsn
		}, slices.Concat(
			record.AppendFanout(nil, to, keyed), record.AppendChange(nil, 1, 8, delayed), record.AppendChange(nil, 2, 9, delayed),
			kept(3, 5, keyed, delayed), kept(4, 6, keyed, delayed), record.AppendRemove(nil, 9, 10, 0)), 3},
		{"overwrites two", func(j *Journal) LSN {
			lsn, _ := j.PutExtra(nil, slices.Clone(over), keyed, record.Change{}, record.Destination{})
			return lsn
		}, slices.Concat(kept(3, 5, keyed, record.Change{}), kept(4, 6, keyed, record.Change{})), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var memory atomic.Int64
			log := &refusing{err: syscall.ENOSPC}
			j := newTest(t, segmenttest.New(), func(o *Options) {
				o.Account = func(n int64) { memory.Add(n) }
				o.Committer = func(*segment.Log) Committer { return log }
			})
			put(j, 1, "before")
			before := slices.Clone(j.active[segment.FrameHeaderSize:])
			end := j.End()
			lsn := tt.record(j)
			images := 0
			for _, f := range j.ended {
				for _, p := range f.pieces {
					if p.large != nil && &p.large.Data[0] != &it.Data[0] && &p.large.Data[0] != &keyed.Data[0] {
						t.Error("the frame has a copy of the item")
					}
					if p.large != nil {
						images++
					}
				}
			}
			if images != tt.images || len(j.active) > segment.FrameHeaderSize {
				t.Errorf("frames name %d items, want %d; %d bytes are in the buffer", images, tt.images, len(j.active))
			}
			if n := int(lsn - end); n != len(tt.want) || memory.Load() < int64(n) {
				t.Errorf("%d bytes are recorded, and %d counted, want %d", n, memory.Load(), len(tt.want))
			}
			put(j, 2, "after")
			after := slices.Clone(j.active[segment.FrameHeaderSize:])
			if got := gathered(t, j); !bytes.Equal(got, slices.Concat(before, tt.want, after)) {
				t.Errorf("%q are recorded", words(t, got))
			}
			for range 2 {
				if err := j.Write(j.End()); !errors.Is(err, ErrFull) || len(log.taken) > 0 {
					t.Errorf("Write = %v, want %v", err, ErrFull)
				}
			}
			log.err = nil
			if err := j.Write(j.End()); err != nil || !bytes.Equal(log.taken, slices.Concat(before, tt.want, after)) {
				t.Errorf("Write = %v, and %q are written", err, words(t, log.taken))
			}
			if memory.Load() != 0 {
				t.Errorf("%d bytes are counted for nothing", memory.Load())
			}
		})
	}
}

// TestLateFramesAreBounded tests that a large item that takes the place of many others needs no frame that the log does
// not take. It would refuse that for ever, and all that is behind it.
func TestLateFramesAreBounded(t *testing.T) {
	var memory atomic.Int64
	j := newTest(t, segmenttest.New(), func(o *Options) { o.Account = func(n int64) { memory.Add(n) } })
	it := item.Item{Data: make([]byte, 16<<20)}.With(nil, []byte("key"), "", 0)
	over := make([]record.Destination, 1+segment.MaxPayloadSize>>24)
	for i := range over {
		over[i] = record.Destination{Queue: uint64(i + 1), Item: 1}
	}
	end := j.End()
	lsn, _ := j.PutExtra(nil, over, it, record.Change{}, record.Destination{})
	images, sum := 0, 0
	for _, f := range j.ended {
		n := f.len() - segment.FrameHeaderSize
		if sum += n; n > segment.MaxPayloadSize {
			t.Errorf("a frame has %d bytes, the log takes %d", n, segment.MaxPayloadSize)
		}
		for _, p := range f.pieces {
			if p.large != nil {
				images++
			}
		}
	}
	if images != len(over) || sum != int(lsn-end) {
		t.Errorf("%d items and %d bytes are recorded, want %d and %d", images, sum, len(over), lsn-end)
	}
	if j.ended = j.forget(j.ended); memory.Load() != 0 {
		t.Errorf("%d bytes are counted for nothing", memory.Load())
	}
}
