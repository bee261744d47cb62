package replay

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/segment"
)

// Options say what a Replay needs.
type Options struct {
	// Pool has the chunks of the queues' windows.
	Pool *item.Pool
	// ValidateName returns why a queue cannot have a name, or nil.
	ValidateName func(string) error
	// Salvage takes note of what is missing, if the journal is read although it is damaged; nil if not.
	Salvage *repair.Salvage
}

// Replay makes queues of a journal. One goroutine at a time uses it.
type Replay struct {
	o      Options
	queues map[uint64]*Queue
	// last is where the last put of the frame went, if to one queue; else zero.
	last    record.Destination
	segment uint64 // of the frame
	// The highest numbers that a record names: of a queue, and of a run.
	lastQueue, lastRun uint64
}

// New returns a Replay that has read nothing yet.
func New(o Options) *Replay { return &Replay{o: o, queues: make(map[uint64]*Queue)} }

// LastNumbers returns the highest number of a queue, and of a run, that any record names. No other queue or run may
// ever have it.
func (r *Replay) LastNumbers() (queue, run uint64) { return r.lastQueue, r.lastRun }

// Queues returns the queues in the order of their numbers, in which they were made. The Replay forgets them.
func (r *Replay) Queues() []*Queue {
	all := make([]*Queue, 0, len(r.queues))
	for _, number := range slices.Sorted(maps.Keys(r.queues)) {
		all = append(all, r.queues[number])
	}
	r.queues = nil
	return all
}

// NamedTwice returns the names that more than one queue has.
func NamedTwice(all []*Queue) map[string]bool {
	seen, twice := make(map[string]bool, len(all)), make(map[string]bool)
	for _, q := range all {
		if q.Named {
			twice[q.Name] = twice[q.Name] || seen[q.Name]
			seen[q.Name] = true
		}
	}
	return twice
}

// Frame takes in one frame of the journal. It returns a *segment.CorruptionError for a record that makes no sense
// behind those before it.
func (r *Replay) Frame(f segment.Frame) error {
	r.last, r.segment = record.Destination{}, f.Segment
	for b, off := f.Payload, 0; off < len(b); {
		rec, size, err := record.Parse(b[off:])
		if err == nil {
			err = r.record(&rec, f.Segment)
		}
		if err != nil {
			at := f.Offset + segment.FrameHeaderSize + int64(off)
			return &segment.CorruptionError{Path: f.Path, Offset: at, Reason: err.Error()}
		}
		off += size
	}
	return nil
}

func (r *Replay) record(rec *record.Record, seg uint64) error {
	switch rec.Kind {
	case record.KindPut:
		r.last = record.Destination{Queue: rec.Queue, Item: rec.ID}
		return r.put(r.last, rec.Item, seg)
	case record.KindNext:
		if r.last.Item == 0 {
			return errors.New("a record continues a put to one queue, and none precedes it")
		}
		r.last.Item++
		return r.put(r.last, rec.Item, seg)
	case record.KindFanout:
		return r.fanout(rec, seg)
	case record.KindPuts:
		return r.puts(rec, seg)
	case record.KindRemove:
		if rec.ID >= math.MaxUint64-uint64(rec.More) {
			return fmt.Errorf("a record removes %d items from item %d on, past the largest id", uint64(rec.More)+1, rec.ID)
		}
		r.queue(rec.Queue).remove(r.o.Pool, idset.Between(rec.ID, rec.ID+uint64(rec.More)))
	case record.KindFlush:
		return r.flush(r.queue(rec.Queue), rec)
	case record.KindDelete:
		q := r.queue(rec.Queue)
		q.Window.Clear(r.o.Pool)
		delete(r.queues, rec.Queue)
	case record.KindQueue:
		return r.name(rec)
	case record.KindKeep:
		return r.keep(rec, seg)
	case record.KindChange:
		return r.change(rec)
	case record.KindSpill:
		q := r.queue(rec.Queue)
		r.o.Salvage.Reach(&q.Traces, q.NextID, rec.Spill.FirstID)
		r.lastRun = max(r.lastRun, rec.Run.Number)
		q.spilled(r.o.Pool, rec.Run, rec.Spill, r.o.Salvage.Rescue(&q.Traces, rec.Run))
	case record.KindMarks:
		r.queue(rec.Queue).Marked = rec.Marks
		r.lastRun = max(r.lastRun, rec.Marks.Run.Number)
	case record.KindHidden:
		return r.hidden(r.queue(rec.Queue), rec)
	}
	return nil
}

func (r *Replay) keep(rec *record.Record, seg uint64) error {
	if rec.ID == 0 || rec.ID == math.MaxUint64 {
		return fmt.Errorf("queue %d: item id %d is out of range", rec.Queue, rec.ID)
	}
	q := r.queue(rec.Queue)
	r.o.Salvage.Reach(&q.Traces, q.NextID, rec.ID)
	q.NextID = max(q.NextID, rec.ID+1)
	rec.Item.ID = rec.ID
	q.keep(rec.Item, seg)
	q.leaveHidden(rec.ID)
	return nil
}

// change notes what an item is that is not in line, unless it is gone.
func (r *Replay) change(rec *record.Record) error {
	if rec.ID == 0 || rec.ID == math.MaxUint64 {
		return fmt.Errorf("queue %d: item id %d is out of range", rec.Queue, rec.ID)
	}
	q := r.queue(rec.Queue)
	r.o.Salvage.Reach(&q.Traces, q.NextID, rec.ID) // it may have been put, and the record have been dropped since it is gone
	q.NextID = max(q.NextID, rec.ID+1)
	if q.Gone.Has(rec.ID) {
		return nil
	}
	if q.Changed == nil {
		q.Changed = make(map[uint64]record.Change)
	}
	q.Changed[rec.ID] = rec.Change
	return nil
}

// queue returns the queue with that number, which need not have a name yet.
func (r *Replay) queue(number uint64) *Queue {
	q := r.queues[number]
	if q == nil {
		q = &Queue{Number: number, NextID: 1, Oldest: r.segment}
		r.queues[number] = q
		r.lastQueue = max(r.lastQueue, number)
	}
	return q
}

func (r *Replay) name(rec *record.Record) error {
	name := string(rec.Name)
	if err := r.o.ValidateName(name); err != nil {
		return err
	}
	q := r.queue(rec.Queue)
	if q.Named && q.Name != name {
		return fmt.Errorf("queue %d is named %q, but was %q", rec.Queue, name, q.Name)
	}
	if rec.NextID < q.NextID {
		return fmt.Errorf("queue %q: next item id is %d, but item %d was put",
			name, rec.NextID, q.NextID-1)
	}
	r.o.Salvage.Follow(&q.Traces, q.NextID, rec.NextID)
	q.Name, q.Named, q.Created, q.NextID = name, true, rec.Created, rec.NextID
	return nil
}

func (r *Replay) fanout(rec *record.Record, seg uint64) error {
	r.last = record.Destination{}
	for list := rec.List; len(list) > 0; {
		if err := r.put(record.Destination{Queue: list.Next(), Item: list.Next()}, rec.Item, seg); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replay) puts(rec *record.Record, seg uint64) error {
	r.last = record.Destination{Queue: rec.Queue, Item: rec.ID}
	for b := rec.Images; ; r.last.Item++ {
		it, n := item.ParseImage(b)
		if err := r.put(r.last, it, seg); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

func (r *Replay) put(d record.Destination, it item.Item, seg uint64) error {
	q := r.queue(d.Queue)
	if d.Item < q.NextID {
		return fmt.Errorf("queue %d: item %d is put twice, or out of order", d.Queue, d.Item)
	}
	if d.Item == math.MaxUint64 {
		return fmt.Errorf("queue %d: item id %d is out of range", d.Queue, d.Item)
	}
	r.o.Salvage.Follow(&q.Traces, q.NextID, d.Item)
	it.ID = d.Item
	q.NextID = it.ID + 1
	q.noteSegment(seg, it.ID)
	q.Keys = q.Keys || it.HasKey()
	q.Window.Push(r.o.Pool, &it, WindowMemory)
	return nil
}

func (r *Replay) flush(q *Queue, rec *record.Record) error {
	var except []uint64
	for list := rec.List; len(list) > 0; {
		id := list.Next()
		if id >= rec.Limit {
			return fmt.Errorf("a flush of all items below %d leaves item %d", rec.Limit, id)
		}
		except = append(except, id)
	}
	if rec.Limit > 1 {
		for _, ids := range idset.Between(1, rec.Limit-1).Minus(idset.Of(except)) {
			q.remove(r.o.Pool, ids)
		}
	}
	return nil
}
