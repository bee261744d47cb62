package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// Changes says what a Change sets anew of an item.
type Changes struct {
	SetExpiry bool // to Expiry, an instant; zero: never
	Expiry    Time
	SetDelay  bool // the item is hidden for Delay from now on; zero: it is visible
	Delay     time.Duration
}

// Change sets the expiry, the delay, or both of one item of the queue called name. A delayed item keeps its place in
// line, and comes back to it when the delay is over. Change returns the errors of Remove, ErrHeld only if it sets
// the delay, and ErrDelayTooLong. If the item is on disk only, Change needs its body: it reads that if wait is set, and
// else returns ErrComing.
func (e *Engine) Change(now Time, name []byte, clientID string, which Which, to Changes, wait bool) (Ticket, error) {
	defer contain()
	var read diskItem
	for {
		t, q, id, err := e.change(now, name, clientID, which, to, read)
		if err != ErrComing || !wait {
			return t, err
		}
		if read, err = e.spool.readItem(q, id); err != nil {
			return Ticket{}, err
		}
	}
}

// change is Change of an item whose image is in memory, or was read from disk before. With ErrComing it returns which
// item the caller must read.
func (e *Engine) change(
	now Time, name []byte, clientID string, which Which, to Changes, read diskItem,
) (t Ticket, q *queue, id uint64, err error) {
	q, at, err := e.lockItem(now, name, which)
	if err != nil {
		return t, nil, 0, err
	}
	defer e.unlock(q.shard, now)
	if err := q.admitConsumer(clientID); err != nil {
		return t, nil, 0, err
	}
	if to.SetDelay {
		if err := q.admitDelay(to.Delay); err != nil {
			return t, nil, 0, err
		}
		if q.heldNow(&at) {
			return t, nil, 0, ErrHeld
		}
	}
	if !at.know(read) {
		return t, q, at.it.ID, ErrComing
	}
	if q.expired(&at.it, now) {
		return t, nil, 0, ErrNoSuchItem
	}
	t = e.changeAt(q, &at, to)
	if q.attended() {
		e.serveWaiters(q, now)
	}
	return t, nil, 0, nil
}

// changeAt is change of the item at a spot, which is in memory. The caller serves the waiters.
func (e *Engine) changeAt(q *queue, at *spot, to Changes) Ticket {
	it := at.it
	if !it.HasOwnMemory() { // it is about to be cut
		it = it.WithStored(append(q.shard.scratch[:0], it.Stored()...))
		q.shard.scratch = smallScratch(it.Stored())
	}
	if to.SetExpiry {
		it.Expiry = to.Expiry
	}
	if at.where == isOpen && !to.SetDelay { // it stays with its holder
		at.read.item.Expiry = it.Expiry
		at.read.changed = true // a run may have it as it was
		if q.inJournal() {
			e.keepRead(q, at.read)
		}
		return e.ticketOf(q)
	}
	entry, lease := aside.Entry{State: aside.Ready}, counted{}
	switch at.where {
	case isAside:
		entry = q.aside.Get(at.ref)
		lease = q.aside.holders[entry.Token]
		if entry.State == aside.Restored {
			entry.State = aside.Ready
		}
	case isHidden:
		entry = at.entry
	case isBack, isOpen:
		entry.Count = at.read.count
	}
	if to.SetDelay {
		entry.State, entry.Due, entry.Token, lease = aside.Ready, 0, 0, counted{}
		if to.Delay > 0 {
			entry.State, entry.Due = aside.Delayed, e.precise.In(to.Delay)
		}
	}
	e.cut(q, at)
	q.removal.Rewritten(it.ID)
	changed := e.setAside(q, &it, 0, entry)
	q.countFor(entry.Token, lease.holder, lease.taken)
	return e.sayAside(q, changed)
}
