package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/segment"
)

// replay rebuilds the queues from the journal. Records of a queue may come before its name does:
// the segment that had the name may have been dropped, after a checkpoint rewrote it in a later one.
type replay struct {
	e      *Engine
	queues map[uint64]*replayed
	pool   item.Pool // of windows while they belong to no shard
	// last is where the last put of the frame went, if to one queue; else zero.
	last    record.Destination
	segment uint64 // of the frame
	// salvage takes note of what is missing, if the journal is read although it is damaged.
	salvage *repair.Salvage
}

// replayed is one queue during replay. The queue in it becomes the live one: of a hundred thousand
// queues, a start should not make two each.
type replayed struct {
	*queue
	named bool
	gone  idset.Set // removed items, ascending, apart from each other
	runs  []*run
	kept  map[uint64]keptItem
	// changed is what the journal says last of items that it has the image of, and no run has.
	changed map[uint64]record.Change
	memory  int64         // bytes of items that the queue may hold in memory
	oldest  uint64        // segment of the first record that names the queue
	traces  repair.Traces // of gaps in a damaged journal
}

// replayMemory is the memory, in bytes of items, that chunks of a queue are sized for before its
// options are known.
const replayMemory = 128 << 20

func newReplay(e *Engine) *replay {
	r := &replay{e: e, queues: make(map[uint64]*replayed)}
	r.pool = item.Pool{Memory: &e.memory, Arena: e.arena, Free: item.NewFreeLists(1, e.opts.MemoryLimit)[0]}
	return r
}

// frame takes in one frame of the journal.
func (r *replay) frame(f segment.Frame) error {
	r.last, r.segment = record.Destination{}, f.Segment
	if p := r.e.opts.Progress; p != nil {
		p.at(f)
	}
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

func (r *replay) record(rec *record.Record, seg uint64) error {
	switch rec.Kind {
	case record.KindPut:
		r.last = record.Destination{Queue: rec.Queue, Item: rec.ID}
		return r.put(r.last, rec.Item, seg)
	case record.KindNext:
		if r.last.Item == 0 {
			return errors.New("no put to one queue comes before a next record")
		}
		r.last.Item++
		return r.put(r.last, rec.Item, seg)
	case record.KindFanout:
		return r.fanout(rec, seg)
	case record.KindRun:
		return r.run(rec, seg)
	case record.KindRemove:
		if rec.ID >= math.MaxUint64-uint64(rec.More) {
			return fmt.Errorf("remove of %d items from item %d on", uint64(rec.More)+1, rec.ID)
		}
		r.queue(rec.Queue).remove(&r.pool, idset.Between(rec.ID, rec.ID+uint64(rec.More)))
	case record.KindFlush:
		return r.flush(r.queue(rec.Queue), rec)
	case record.KindDelete:
		q := r.queue(rec.Queue)
		q.window.Clear(&r.pool)
		delete(r.queues, rec.Queue)
	case record.KindQueue:
		return r.name(rec)
	case record.KindKeep:
		return r.keep(rec, seg)
	case record.KindChange:
		return r.change(rec)
	case record.KindSpill:
		q := r.queue(rec.Queue)
		r.salvage.Reach(&q.traces, q.nextID, rec.Spill.FirstID)
		r.e.spool.isTaken(rec.Run.Number)
		q.spilled(&r.pool, rec.Run, rec.Spill, r.salvage.Rescue(&q.traces, rec.Run))
	}
	return nil
}

func (r *replay) keep(rec *record.Record, seg uint64) error {
	if rec.ID == 0 || rec.ID == math.MaxUint64 {
		return fmt.Errorf("queue %d: item id %d is out of range", rec.Queue, rec.ID)
	}
	q := r.queue(rec.Queue)
	r.salvage.Reach(&q.traces, q.nextID, rec.ID)
	q.nextID = max(q.nextID, rec.ID+1)
	rec.Item.ID = rec.ID
	q.keep(rec.Item, seg)
	return nil
}

// change notes what an item is that is not in line, unless it is gone.
func (r *replay) change(rec *record.Record) error {
	if rec.ID == 0 || rec.ID == math.MaxUint64 {
		return fmt.Errorf("queue %d: item id %d is out of range", rec.Queue, rec.ID)
	}
	q := r.queue(rec.Queue)
	r.salvage.Reach(&q.traces, q.nextID, rec.ID) // it may have been put, and the record have been dropped since it is gone
	q.nextID = max(q.nextID, rec.ID+1)
	if q.gone.Has(rec.ID) {
		return nil
	}
	if q.changed == nil {
		q.changed = make(map[uint64]record.Change)
	}
	q.changed[rec.ID] = rec.Change
	return nil
}

// queue returns the queue with that number, which need not have a name yet.
func (r *replay) queue(number uint64) *replayed {
	q := r.queues[number]
	if q == nil {
		q = &replayed{queue: &queue{number: number, nextID: 1}, memory: replayMemory, oldest: r.segment}
		r.queues[number] = q
		r.e.lastNumber.Store(max(r.e.lastNumber.Load(), number))
	}
	return q
}

func (r *replay) name(rec *record.Record) error {
	name := string(rec.Name)
	if err := ValidateName(name); err != nil {
		return err
	}
	q := r.queue(rec.Queue)
	if q.named && q.name != name {
		return fmt.Errorf("queue %d is named %q, but was %q", rec.Queue, name, q.name)
	}
	if rec.NextID < q.nextID {
		return fmt.Errorf("queue %q: next item id is %d, but item %d was put",
			name, rec.NextID, q.nextID-1)
	}
	r.salvage.Follow(&q.traces, q.nextID, rec.NextID)
	q.name, q.named, q.created, q.nextID = name, true, rec.Created, rec.NextID
	return nil
}

func (r *replay) fanout(rec *record.Record, seg uint64) error {
	r.last = record.Destination{}
	for list := rec.List; len(list) > 0; {
		if err := r.put(record.Destination{Queue: list.Next(), Item: list.Next()}, rec.Item, seg); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) run(rec *record.Record, seg uint64) error {
	r.last = record.Destination{Queue: rec.Queue, Item: rec.ID}
	for b := rec.Images; ; r.last.Item++ {
		it, n, _ := item.ParseImage(b)
		if err := r.put(r.last, it, seg); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

func (r *replay) put(d record.Destination, it Item, seg uint64) error {
	q := r.queue(d.Queue)
	if d.Item < q.nextID {
		return fmt.Errorf("queue %d: item %d was put before", d.Queue, d.Item)
	}
	if d.Item == math.MaxUint64 {
		return fmt.Errorf("queue %d: item id %d is out of range", d.Queue, d.Item)
	}
	r.salvage.Follow(&q.traces, q.nextID, d.Item)
	it.ID = d.Item
	q.nextID = it.ID + 1
	q.mark(seg, it.ID)
	q.window.Push(&r.pool, it, q.memory)
	q.counters.replayed++
	return nil
}

// remove takes the items of ids out of the window: at once those at its head, at the end of the
// replay those behind items that stay. What is gone is remembered: it may turn out to be in a run.
func (q *replayed) remove(p *item.Pool, ids idset.Range) {
	q.gone = q.gone.Add(ids)
	if len(q.kept) > 0 {
		forget(q.kept, ids)
	}
	if len(q.changed) > 0 {
		forget(q.changed, ids)
	}
	for q.window.Count > 0 && q.gone.Has(q.window.FirstID) {
		q.window.Pop(p, q.window.First())
	}
}

func (r *replay) flush(q *replayed, rec *record.Record) error {
	var except []uint64
	for list := rec.List; len(list) > 0; {
		id := list.Next()
		if id >= rec.Limit {
			return fmt.Errorf("flush of items below %d leaves item %d", rec.Limit, id)
		}
		except = append(except, id)
	}
	if rec.Limit > 1 {
		for _, ids := range idset.Between(1, rec.Limit-1).Minus(idset.Of(except)) {
			q.remove(&r.pool, ids)
		}
	}
	return nil
}

// finish puts the queues into the engine's shards and returns the number of queues and items.
func (r *replay) finish() (queues int, items int64, err error) {
	numbers := slices.Sorted(maps.Keys(r.queues)) // as they were made
	twice := r.namedTwice(numbers)
	for _, number := range numbers {
		q := r.queues[number]
		delete(r.queues, number)
		if !q.named {
			if n := q.unnamed(); n > 0 {
				return 0, 0, r.corrupt("queue %d has %d items but no name", number, n)
			}
			continue // deleted, and all that is left are removes
		}
		sh := r.e.shardOf([]byte(q.name))
		if twice[q.name] {
			r.withhold(q, r.corrupt("queue %q exists twice", q.name))
			continue
		}
		live, err := r.bringBack(q, sh)
		if err != nil && withholds(err) {
			r.withhold(q, err)
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("queue %q: %w", q.name, err)
		}
		sh.add(live)
		queues++
		items += live.items() + live.leased()
	}
	r.e.queueCount.Store(int64(queues))
	r.e.created.Store(int64(queues))
	return queues, items, nil
}

// namedTwice returns the names that more than one queue has.
func (r *replay) namedTwice(numbers []uint64) map[string]bool {
	seen, twice := make(map[string]bool, len(numbers)), make(map[string]bool)
	for _, number := range numbers {
		if q := r.queues[number]; q.named {
			twice[q.name] = twice[q.name] || seen[q.name]
			seen[q.name] = true
		}
	}
	return twice
}

// bringBack makes a live queue of a replayed one.
func (r *replay) bringBack(q *replayed, sh *shard) (*queue, error) {
	live := q.queue
	live.shard, live.opts = sh, r.e.settings.Load().shared(q.name)
	live.spilledTo = 0 // restore says what of it is left
	q.memory = live.opts.MaxMemorySize
	q.compact(&r.pool)
	if len(q.changed) > 0 {
		if err := r.setAside(live, q); err != nil {
			return nil, err
		}
	}
	live.spilled = len(q.runs) > 0
	if len(q.runs) > 0 || len(q.kept) > 0 {
		if err := r.restore(live, q); err != nil {
			return nil, err
		}
	}
	live.counters.replayed = live.items() + live.leased()
	live.trimSegments()
	r.e.shrink(live)
	return live, nil
}

// setAside moves the items that are not in line from the window, and from those kept, to the sideline.
func (r *replay) setAside(live *queue, q *replayed) error {
	add := func(it Item, segment uint64) {
		c := q.changed[it.ID]
		entry := aside.Entry{State: aside.Ready, Due: c.Due, Token: c.Token, Count: c.Count}
		switch {
		case c.Due != 0 && c.Token != 0:
			entry.State = aside.Leased
		case c.Due != 0:
			entry.State = aside.Delayed
		}
		r.e.setAside(live, it, segment, entry)
	}
	for id := range q.changed {
		if it, ok := q.kept[id]; ok {
			add(it.Item, it.segment)
		}
	}
	var left item.Window
	q.window.Each(func(it Item) bool {
		if _, ok := q.changed[it.ID]; !ok {
			left.Push(&r.pool, it, q.memory)
		} else if _, twice := q.kept[it.ID]; !twice {
			add(it, q.markOf(it.ID))
		}
		return true
	})
	q.window.Clear(&r.pool)
	q.window = left
	for id := range q.changed {
		delete(q.kept, id)
		if _, ok := live.side().Find(id); !ok {
			return r.corrupt("queue %q: item %d is changed, but its image is not in the journal", q.name, id)
		}
	}
	return nil
}

// unnamed is how many items a queue has of which no name is known.
func (q *replayed) unnamed() (n int64) {
	n = q.window.Count + int64(len(q.kept))
	for _, run := range q.runs {
		s := run.recorded
		n += int64(s.LastID - s.FirstID + 1 - q.gone.Count(s.IDs()))
	}
	return n
}

// corrupt is the error of a journal whose records do not fit together.
func (r *replay) corrupt(format string, args ...any) error {
	return &segment.CorruptionError{
		Path: r.e.journals.Current(), Reason: fmt.Sprintf(format, args...),
	}
}

// compact rebuilds the window without the items that are gone, if there are any: those that were
// removed in their order have left it already.
func (q *replayed) compact(p *item.Pool) {
	if len(q.gone) == 0 || q.window.Count > 0 && q.gone.Count(idset.Between(q.window.FirstID, q.nextID-1)) == 0 {
		return
	}
	var kept item.Window
	gone := q.gone
	q.window.Each(func(it Item) bool {
		for len(gone) > 0 && gone[0].Last < it.ID {
			gone = gone[1:]
		}
		if len(gone) == 0 || it.ID < gone[0].First {
			kept.Push(p, it, q.memory)
		}
		return true
	})
	q.window.Clear(p)
	q.window = kept
}
