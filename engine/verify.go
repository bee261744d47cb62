package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/audit"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/queuename"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment"
)

// Verify checks the invariants of every queue and returns the first one that is broken. It looks at
// every item, one queue at a time, and reads all of the journal; it is meant for tests.
func (e *Engine) Verify() (err error) {
	defer contain()
	e.spool.writeMu.Lock() // nothing is being written to runs
	defer e.spool.writeMu.Unlock()
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if err == nil && !q.deleted {
			err = e.verifyQueue(q)
		}
	})
	for i := range e.shards {
		if err == nil {
			err = e.shards[i].verifyPins()
		}
	}
	if err == nil {
		err = e.verifyRuns()
	}
	return err
}

// verifyPins checks I6 as far as reads go.
func (sh *shard) verifyPins() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var want trim.Pins
	for _, q := range sh.queues {
		for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
			for r := list.First(); r != nil; r = r.link.Next() {
				if r.pinned != 0 && !q.opts.KeepJournal && !q.crossing {
					return fmt.Errorf("I6: queue %q is not in the journal, but item %d in segment %d",
						q.name, r.item.ID, r.pinned)
				}
				want.Of(r.pinned).Add(1, int64(len(r.item.Data))+keepOverhead)
			}
		}
		if q.aside != nil {
			for r := range aside.Ref(q.aside.Len()) {
				want.Of(q.aside.Segment(r)).Add(1, pinSize(len(q.aside.Item(r).Data)))
			}
		}
	}
	counted := slices.Collect(sh.pins.All)
	for p := range want.All { // rubbish is still counted
		i := slices.IndexFunc(counted, func(o trim.Pin) bool { return o.Segment == p.Segment })
		if i < 0 || counted[i].Reads < p.Reads || counted[i].Bytes < p.Bytes {
			return fmt.Errorf("I6: reads pin %v, counted are %v", slices.Collect(want.All), counted)
		}
	}
	return nil
}

// verifyQueue checks the invariants of q.
func (e *Engine) verifyQueue(q *queue) error {
	broken := func(format string, args ...any) error {
		return fmt.Errorf("queue %q: %s", q.name, fmt.Sprintf(format, args...))
	}
	seen := make(map[uint64]string) // I1
	for _, list := range []struct {
		name  string
		state readState
		*readList
	}{
		{"returned", readReturned, &q.returned},
		{"open", readOpen, &q.open},
		{"moving", readMoving, &q.moving},
	} {
		var count, bytes int64
		for r := list.First(); r != nil; r = r.link.Next() {
			if where := seen[r.item.ID]; where != "" {
				return broken("I1: item %d is in %s and in %s", r.item.ID, where, list.name)
			}
			seen[r.item.ID] = list.name
			if r.state != list.state || r.q != q || r.id == 0 || list.find(r.item.ID) != r {
				return broken("read of item %d in %s: state %d, id %d", r.item.ID, list.name, r.state, r.id)
			}
			count++
			bytes += int64(len(r.item.Data))
		}
		if count != list.Len() || bytes != list.bytes {
			return broken("%s counts %d items of %d bytes, has %d of %d", list.name, list.Len(), list.bytes, count, bytes)
		}
		if n := list.byID; n == nil && count > fewReads || n != nil && int64(n.Len()) != count {
			return broken("%d items in %s are found by their ids as if they were few, or others are", count, list.name)
		}
	}
	if err := e.verifyAside(q, seen, broken); err != nil {
		return err
	}
	if err := q.verifyWindow(seen, broken); err != nil {
		return err
	}
	if q.backlog != nil {
		if err := q.backlog.verify(q, seen, broken); err != nil {
			return err
		}
	}
	var it Item
	if q.first(&it) && q.waiters.First() != nil && !q.headBusy() { // I4
		return broken("I4: %d wait, and item %d is there", q.waiters.Len(), it.ID)
	}
	if parent, ok := queuename.Parent(q.name); ok { // I5
		for _, child := range q.shard.families[parent].children {
			if child == q {
				return nil
			}
		}
		return broken("I5: not among the children of %q", parent)
	}
	if q.family != q.shard.families[q.name] {
		return broken("I5: has another family than its name")
	}
	return nil
}

// verifyAside checks what is aside, and I1, I6 and I7 as far as it goes.
func (e *Engine) verifyAside(q *queue, seen map[uint64]string, broken func(string, ...any) error) error {
	if q.aside == nil {
		return nil
	}
	if err := q.aside.Verify(); err != nil {
		return broken("%v", err)
	}
	for r := range aside.Ref(q.aside.Len()) {
		id := q.aside.ID(r)
		if q.aside.IsDropped(r) {
			continue
		}
		if where := seen[id]; where != "" {
			return broken("I1: item %d is aside and in %s", id, where)
		}
		seen[id] = "aside"
		entry, inJournal := q.aside.Get(r), q.aside.Segment(r) != 0
		switch {
		case id >= q.nextID:
			return broken("item %d aside is not below the next id %d", id, q.nextID)
		case q.crossing, e.journal.Failing(): // a move that failed begins anew, with what the old journal still has
		case inJournal && !q.opts.KeepJournal,
			!inJournal && q.opts.KeepJournal && entry.State != aside.Restored && q.livesInRun(id) == nil:
			return broken("I6: the journal has item %d aside, %+v = %v", id, entry, inJournal)
		case entry.Token != 0 && q.livesInRun(id) != nil:
			return broken("H5: item %d lives in a hidden run, which does not say %+v", id, entry)
		}
	}
	if err := q.aside.hidden.VerifyPlaces(seen, q.nextID); err != nil {
		return broken("%v", err)
	}
	leases := 0
	for r := q.open.First(); r != nil; r = r.link.Next() {
		if (r.leaseAt == 0) != (r.deadline == 0) {
			return broken("item %d is leased until %d, and in place %d", r.item.ID, r.deadline, r.leaseAt)
		}
		leases += min(r.leaseAt, 1)
	}
	if leases != q.aside.held.Len() {
		return broken("%d open reads have a lease, and %d are known", leases, q.aside.held.Len())
	}
	if at := e.nextDue(q); at != 0 && (q.aside.at == 0 || q.aside.at > at) {
		return broken("I7: something is due at %d, the alarm rings at %d", at, q.aside.at)
	}
	return nil
}

// verifyWindow checks the window, and I1, I2 and I6 as far as it goes.
func (q *queue) verifyWindow(seen map[uint64]string, broken func(string, ...any) error) error {
	w := &q.window
	err := w.Verify()
	if err != nil {
		return broken("%v", err)
	}
	w.Each(func(it Item) bool {
		switch where := seen[it.ID]; {
		case where != "":
			err = broken("I1: item %d is in the window and in %s", it.ID, where)
		case it.ID >= q.nextID:
			err = broken("item %d is not below the next id %d", it.ID, q.nextID)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if !q.opts.KeepJournal {
		return nil
	}
	parts := []*item.Window{w}
	if q.backlog != nil {
		parts = append(parts, &q.backlog.leaving, &q.backlog.recent)
	}
	for _, part := range parts {
		part.Each(func(it Item) bool {
			if it.ID > q.spilledTo && !q.segments.Covers(it.ID) {
				err = broken("I6: no segment is known for item %d", it.ID)
			}
			return err == nil
		})
	}
	return err
}

// verify checks B1 to B3, and B4 as far as the ids of runs show.
func (b *backlog) verify(q *queue, seen map[uint64]string, broken func(string, ...any) error) error {
	var leaving, bytes int64
	last := q.window.EndID()
	if b.onDisk > 0 {
		last = max(last, b.nextID-1)
	}
	for _, part := range [...]*item.Window{&b.leaving, &b.recent} {
		var err error
		part.Each(func(it Item) bool {
			if it.ID <= last {
				err = broken("B3: item %d follows item %d", it.ID, last)
			}
			last = it.ID
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	b.leaving.Each(func(it Item) bool {
		leaving++
		bytes += int64(len(it.Data))
		return true
	})
	switch {
	case leaving+b.writing+b.onDisk != b.count || bytes > b.bytes:
		return broken("B1: %d items leave, %d are being written, %d on disk, counted are %d",
			leaving, b.writing, b.onDisk, b.count)
	case b.onDisk > 0 && b.next.Run == nil || b.count == 0 && b.bytes != 0:
		return broken("B1: %d items on disk, %d of %d bytes behind, next is %+v",
			b.onDisk, b.count, b.bytes, b.next)
	case !b.inReadBehind && (b.count != 0 || b.recent.Count != 0):
		return broken("B2: %d items behind and %d recent, but not in read-behind", b.count, b.recent.Count)
	case b.marks != nil && q.marksLiving(seen) != 0:
		return broken("B7: item %d lives, and a file says that it is gone", q.marksLiving(seen))
	case b.inReadBehind && b.count == 0:
		return broken("B2: in read-behind with nothing behind")
	case !slices.IsSortedFunc(b.runs, func(r, before *run) int { return cmp.Compare(r.written.FirstID, before.written.LastID+1) }):
		return broken("B3: the ids of a run do not follow those of the run before")
	}
	if b.onDisk > 0 && !slices.Contains(b.runs, b.next.Run) && b.next.ID <= b.next.Run.written.LastID {
		return broken("B4: the next run is not among the %d runs", len(b.runs))
	}
	if w := &q.window; w.Count > 0 && b.inReadBehind &&
		(w.LastID() > q.writtenTo || !b.contains(w.FirstID)) {
		return broken("B4: items %d to %d in the window, but runs end at %d", w.FirstID, w.LastID(), q.writtenTo)
	}
	return nil
}

// verifyRuns checks B6 against all that the journal says now, written or not. Nothing is checked while the journal
// fails, or is dropped from under the reader, as that of an engine with background work may be.
func (e *Engine) verifyRuns() error {
	e.spool.recordMu.Lock() // nobody records or removes runs
	defer e.spool.recordMu.Unlock()
	a := audit.New()
	err := e.journal.Inspect(func() error {
		visit := func(f segment.Frame) error { return a.Frame(f.Payload) }
		_, _, err := segment.Scan(e.fs, e.journals.Current(), visit)
		return err
	}, a.Frame)
	if err != nil || e.journal.Failing() {
		return nil
	}
	return a.Check(e.fs, e.spool.dir.Path, e.withheld.has)
}
