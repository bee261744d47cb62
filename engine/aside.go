package engine

import (
	"iter"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/internal/alarm"
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/list"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// asideItems has the items of a queue that are neither in line nor in a read. They are delayed, leased, or due again
// and before their turn. A queue that has never used one of these has none. The mutex of the queue's shard guards it.
//
// If the journal has the queue, it has the image of every item of which it says how it stands. So an item from a run
// is rewritten. Then a start does not take it from a run whose range names it: the change record says so (B6). Items
// that were open when the process before ended may be ready in a run.
type asideItems struct {
	aside.Set
	hidden  hiddenRuns      // delayed items on disk
	held    list.Heap[read] // open reads with a lease that a connection holds, by when it lapses
	holders holders         // nil until a lease counts for a client
	at      Time            // when the alarm rings for the queue; zero: never
	place   alarm.Place     // in the alarm
}

// noteTaken notes that an item goes to a read, or aside, or from one to another, and whether a flush leaves it there.
func (q *queue) noteTaken(id uint64, stays bool) {
	if len(q.walks)+len(q.flushes) > 0 {
		q.announceTaken(id, stays)
	}
}

// announceTaken has the walks and flushes that are under way hear of it.
func (q *queue) announceTaken(id uint64, stays bool) {
	for _, live := range q.walks {
		live.Add(id)
	}
	for _, s := range q.flushes {
		s.Note(id, stays)
	}
}

// itemsAside returns the items aside of q, and makes the structure for them if there is none.
func (q *queue) itemsAside() *asideItems {
	if q.aside == nil {
		q.aside = &asideItems{Set: aside.Set{Memory: q.shard.pool.Memory, Warm: &q.shard.warm}}
		q.aside.hidden.Memory = q.shard.pool.Memory
	}
	return q.aside
}

// asideIDs yields the ids of all items aside, in no order.
func (q *queue) asideIDs() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if q.aside == nil {
			return
		}
		for r := range aside.Ref(q.aside.Len()) {
			if !q.aside.IsDropped(r) && !yield(q.aside.ID(r)) {
				return
			}
		}
	}
}

// firstReady sets it to the item aside to hand out next, and reports whether it comes before those in line.
func (q *queue) firstReady(it *Item) bool {
	r, ok := q.aside.FirstReady()
	if !ok || q.aside.ID(r) >= q.headID() {
		return false
	}
	*it = q.aside.Item(r)
	return true
}

// pinSize is how many bytes of the journal it takes to rewrite an item aside whose body has n, at most, about.
func pinSize(n int) int64 { return int64(n) + keepOverhead + record.MaxChangeSize }

// setAside takes in an item, which is nowhere else. No segment of the journal before segment holds it.
func (e *Engine) setAside(q *queue, it *Item, segment uint64, entry aside.Entry) aside.Ref {
	s := q.itemsAside()
	leased := s.Tally(aside.Leased)
	if !q.opts.KeepJournal || q.entering {
		segment = 0
	}
	q.noteTaken(it.ID, entry.State == aside.Leased)
	q.shard.pins.Of(segment).Add(1, pinSize(len(it.Data)))
	r := s.Add(it, segment, entry)
	q.noteLeased(leased)
	e.setAlarm(q)
	return r
}

// Standing is what there is to know of an item that is not plainly in line. It has until when the item is delayed or
// leased, its receipt, and how many deliveries have ended and count. The zero Standing is that of all others.
type Standing = record.Change

// entryOf is the entry of an item aside that stands so.
func entryOf(s Standing) aside.Entry {
	entry := aside.Entry{State: aside.Ready, Due: s.Due, Token: s.Token, Count: s.Count}
	switch {
	case s.Due != 0 && s.Token != 0:
		entry.State = aside.Leased
	case s.Due != 0:
		entry.State = aside.Delayed
	}
	return entry
}

// changeAside replaces what there is to know of an item aside.
func (e *Engine) changeAside(q *queue, r aside.Ref, entry aside.Entry) {
	leased := q.aside.Tally(aside.Leased)
	if q.aside.holders != nil && entry.State != aside.Leased {
		q.aside.holders.letGo(q.shard, q.aside.Get(r).Token)
	}
	q.noteTaken(q.aside.ID(r), entry.State == aside.Leased)
	q.aside.Change(r, entry)
	q.noteLeased(leased)
	e.setAlarm(q)
}

// countFor has a lease count for h, unless that is nil: the one with that token, taken at that time.
func (q *queue) countFor(token uint64, h *Holder, taken Time) {
	if h == nil {
		return
	}
	s := q.itemsAside()
	if s.holders == nil {
		s.holders = make(holders)
	}
	s.holders[token] = counted{h, taken}
	q.shard.pool.Memory.Add(holderSize)
	h.add(1)
}

// noteLeased takes what is leased in q into the sum of all queues: it was so much before.
func (q *queue) noteLeased(before item.Tally) {
	if now := q.aside.Tally(aside.Leased); now != before {
		q.shard.leased.Add((now.Count-before.Count)*leaseSize + now.Bytes - before.Bytes)
	}
}

// lieIn notes that no segment of the journal before that one holds an item aside.
func (q *queue) lieIn(r aside.Ref, segment uint64) {
	size := pinSize(len(q.aside.Item(r).Data))
	if !q.opts.KeepJournal || q.entering {
		segment = 0
	}
	q.shard.pins.Of(q.aside.Segment(r)).Add(-1, -size)
	q.aside.LieIn(r, segment)
	q.shard.pins.Of(segment).Add(1, size)
}

// dropAside takes an item out.
func (q *queue) dropAside(r aside.Ref) {
	leased := q.aside.Tally(aside.Leased)
	if q.aside.holders != nil {
		q.aside.holders.letGo(q.shard, q.aside.Get(r).Token)
	}
	segment := q.aside.Segment(r)
	q.shard.pins.Of(segment).Add(-1, -pinSize(q.aside.Remove(r)))
	q.noteLeased(leased)
}

// takeAside moves an item aside to a read in state free.
func (q *queue) takeAside(r aside.Ref) *read {
	it := q.aside.Item(r)
	read := q.shard.newRead(q, &it, q.aside.Segment(r))
	entry := q.aside.Get(r)
	read.count, read.changed = entry.Count, entry.State != aside.Restored
	q.dropAside(r)
	return read
}

// asideQueued is what there is of items aside that count as queued: all but those that are leased.
func (q *queue) asideQueued() (t item.Tally) {
	t = q.aside.Tally(aside.Delayed)
	t.Add(q.aside.Tally(aside.Ready), 1)
	t.Add(q.aside.Tally(aside.Restored), 1)
	t.Add(q.aside.hidden.Disk(), 1)
	return t
}

// leased is how many items have a lease.
func (q *queue) leased() int64 {
	if q.aside == nil {
		return 0
	}
	return q.aside.Tally(aside.Leased).Count + int64(q.aside.held.Len())
}

// newToken draws a token that no other item of q has, and nobody can guess.
func (q *queue) newToken() uint64 {
	for s := q.itemsAside(); ; {
		token := q.shard.tokens.Next()
		if _, taken := s.FindToken(token); !taken {
			return token
		}
	}
}

// unhold forgets the lease of a read, if it has one.
func (q *queue) unhold(r *read) {
	if r.leaseAt > 0 {
		q.aside.held.Remove(&r.leaseAt)
	}
	r.deadline = 0
}

// readyNow finds it, the item to hand out next, if it is aside.
func (q *queue) readyNow(it *Item) (r aside.Ref, ok bool) {
	if q.aside == nil || q.returned.First() != nil {
		return 0, false
	}
	r, ok = q.aside.FirstReady()
	return r, ok && q.aside.ID(r) == it.ID
}

// nextDue is when something of q is due, or to be read back because it soon is; zero for never.
func (e *Engine) nextDue(q *queue) (at Time) {
	_, at, _ = q.aside.FirstDue()
	if r, lapses := q.aside.held.First(); r != nil && (at == 0 || Time(lapses) < at) {
		at = Time(lapses)
	}
	if soon := e.hiddenSoon(q); soon != 0 && (at == 0 || soon < at) {
		at = soon
	}
	return at
}

// setAlarm has the alarm ring for q when something is due, unless it rings earlier. The caller holds the shard's mutex.
func (e *Engine) setAlarm(q *queue) {
	if at := e.nextDue(q); at != 0 && (q.aside.at == 0 || at < q.aside.at) && !q.deleted {
		e.setAlarmAt(q, at)
	}
}

// setAlarmAt has the alarm ring for q at an instant and at no other.
func (e *Engine) setAlarmAt(q *queue, at Time) {
	q.aside.at = at
	e.alarm.Set(q, at, &q.aside.place)
}

// clearAlarm has the alarm forget q, which is deleted. The caller holds the shard's mutex.
func (e *Engine) clearAlarm(q *queue) {
	if q.aside != nil {
		e.alarm.Clear(&q.aside.place)
		q.aside.at = 0
	}
}

// deliveries is how often the item to hand out next, which is it, was delivered, as far as that counts.
func (q *queue) deliveries(it *Item) uint16 {
	if r := q.returned.First(); r != nil {
		return r.count
	}
	if r, ok := q.readyNow(it); ok {
		return q.aside.Get(r).Count
	}
	return 0
}

// Holder counts the leases of one client on the queues that it is used for, no matter who ends them. The zero
// Holder counts none. It must not be copied. Its methods may be called from any goroutine.
type Holder struct {
	Client Client // for operators; it does not change once the Holder is used
	leases atomic.Int64
	of     *Holder // counts them as well; nil: nobody does
}

// NewHolder returns a Holder of a client whose leases count for of as well, unless that is nil.
func NewHolder(of *Holder, client Client) *Holder { return &Holder{Client: client, of: of} }

func (h *Holder) add(n int64) {
	for ; h != nil; h = h.of {
		h.leases.Add(n)
	}
}

// Leases is how many of the leases that have been counted have not ended. Those of a deleted queue end a
// little later than the queue.
func (h *Holder) Leases() int { return int(h.leases.Load()) }

// holders are the clients that leases count for, by their tokens.
type holders map[uint64]counted

// counted is a lease that counts for somebody.
type counted struct {
	holder *Holder
	taken  Time
}

// holderSize is how many bytes an entry of holders takes, about.
const holderSize = 56

// letGo has the lease with a token, which has ended, count for nobody.
func (hs holders) letGo(sh *shard, token uint64) {
	if l, ok := hs[token]; ok {
		delete(hs, token)
		sh.pool.Memory.Add(-holderSize)
		l.holder.add(-1)
	}
}

const (
	// leaseSize is how many bytes a lease takes beside the body of its item, about.
	leaseSize = 128
	// leasedShare is the part of the memory limit that leased items may take when memory is short.
	leasedShare = 4
)

// LeaseRoom reports whether more items may be leased. Past the memory limit they may not while what is leased takes one
// part in leasedShare of it. A lease outlives its connection, so nothing else bounds how many there are. If less is
// leased there may be more, or consumers could not empty the queues.
func (e *Engine) LeaseRoom() bool {
	defer contain()
	return e.MemoryLeft() > 0 || e.leased.Load() < e.opts.MemoryLimit/leasedShare
}
