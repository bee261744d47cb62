package engine

import (
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
)

// This file looks at one item in the middle of a queue, changes it, or removes it.

// Which names one item of a queue: by its key, if Key is not nil, and otherwise by its id.
type Which struct {
	ID  uint64
	Key []byte
}

// LookRequest says which item to look at, or to change.
type LookRequest struct {
	Which
	// Wait has the call wait for the disk, if the item is there alone; otherwise it returns ErrComing.
	Wait     bool
	ClientID string // who removes or changes the item
	// Remove has Look remove the item that r has taken, as Remove does.
	Remove bool
	// Delivery, unless nil, is set before the call of the Receiver to what there is to know of the item. That is when
	// it is due, if it is delayed or leased, and how often it was delivered. It has no Receipt.
	Delivery *Delivery

	queue  *queue // of the item coming
	coming uint64 // its id
	read   diskItem
}

// Look hands one item of the queue called name to r, wherever it is, and leaves it there unless l says Remove. The item
// may leave the process once the ticket is committed. It returns ErrNoSuchItem, ErrComing, ErrNotTaken, ErrClosed, an
// error that wraps ErrBadKey, ErrBacklog or ErrWithheld, or one of Remove. After ErrComing, Await and Look with l again.
func (e *Engine) Look(now Time, name []byte, l *LookRequest, r Receiver) (t Ticket, err error) {
	defer contain()
	return e.untilItComes(l, func() (Ticket, error) { return e.look(now, name, l, r) })
}

// untilItComes calls f, and again after each wait for an item on disk, if l says Wait.
func (e *Engine) untilItComes(l *LookRequest, f func() (Ticket, error)) (t Ticket, err error) {
	for {
		if t, err = f(); err != ErrComing || !l.Wait {
			return t, err
		}
		if err = e.Await(l); err != nil {
			return t, err
		}
	}
}

// Await waits for an item that Look or Change has found coming.
func (e *Engine) Await(l *LookRequest) (err error) {
	defer contain()
	l.read, err = e.spool.readItem(l.queue, l.coming)
	return err
}

// awaits reports whether the item at a spot of q has to be awaited. One of a queue before, of that name, is another.
func (l *LookRequest) awaits(q *queue, at *spot) bool {
	if l.queue == q && at.know(l.read) || !at.isUnknown() {
		return false
	}
	l.queue, l.coming = q, at.it.ID
	return true
}

// look is Look at an item whose image is in memory, or is read, or if r is nil need not be known.
func (e *Engine) look(now Time, name []byte, l *LookRequest, r Receiver) (t Ticket, err error) {
	q, at, err := e.lockItem(now, name, l.Which)
	if err != nil && q != nil && l.Remove { // who has removed the item may wait still for that to be durable
		return e.ticketSoFar(q), err
	} else if err != nil {
		return t, err
	}
	defer e.unlock(q.shard, now)
	if l.Remove {
		if err = q.admitConsumer(l.ClientID); err == nil && q.heldNow(&at) {
			err = ErrHeld
		}
	}
	switch {
	case err != nil:
		return t, err
	case r == nil:
	case l.awaits(q, &at):
		return t, ErrComing
	case q.expired(&at.it, now):
		return t, ErrNoSuchItem
	default:
		if l.Delivery != nil {
			*l.Delivery = q.describe(&at)
		}
		if !r.Receive(at.it) {
			return t, ErrNotTaken
		}
		t = q.putTicket(at.it.ID)
	}
	if l.Remove {
		if l.Key != nil {
			q.keys.Forget(l.Key, at.it.ID)
		}
		t = t.Merge(e.removeAt(q, &at))
		e.serveWaiters(q, now) // they may have waited for this item only
	}
	return t, nil
}

// Remove removes one item of the queue called name for good, wherever it is, unless a client holds it. It never
// waits for the disk. It returns ErrNoSuchItem, ErrHeld, a *NotAdmittedError, ErrClosed, or an error that wraps
// ErrBadKey or ErrWithheld. If the item is on disk only, the queue's Bytes counts it until reading passes its place.
// With ErrNoSuchItem the ticket is that of what has become of the queue's items so far.
func (e *Engine) Remove(now Time, name []byte, clientID string, which Which) (Ticket, error) {
	defer contain()
	return e.Look(now, name, &LookRequest{Which: which, Remove: true, ClientID: clientID}, nil)
}

// removeAt removes the item at a spot for good.
func (e *Engine) removeAt(q *queue, at *spot) Ticket {
	size := len(at.it.Data)
	if at.isUnknown() {
		size = -1
	}
	t := q.remove(e.journal, at.it.ID, size)
	q.leaves(&at.it)
	e.cut(q, at)
	return t
}

// describe is what there is to know of the item at a spot that nobody gets.
func (q *queue) describe(at *spot) (d Delivery) {
	switch at.where {
	case isAside:
		entry := q.aside.Get(at.ref)
		d.Deliveries, d.Due = int(entry.Count), entry.Due
	case isHidden:
		d.Deliveries, d.Due = int(at.entry.Count), at.entry.Due
	case isBack, isOpen:
		d.Deliveries, d.Due = int(at.read.count), at.read.deadline
	}
	if q.heldNow(at) {
		d.Deliveries++ // the one under way
	}
	return d
}

// readItem reads an item that is on disk alone. If it is there no more, it returns no item; the caller looks again. It
// waits for the disk.
func (s *spool) readItem(q *queue, id uint64) (it diskItem, err error) {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	if s.closed {
		return it, ErrClosed
	}
	q.shard.mu.Lock()
	b := q.backlog
	switch q.locate(id).where {
	case isOnDisk:
	case isHidden:
		run := q.aside.hidden.OnDisk(id)
		next := run.Next()
		q.shard.mu.Unlock()
		err := s.eachIn(run, next, func(e hidden.Entry) bool {
			if e.ID == id {
				it = diskItem{e.Item.Clone(), hiddenEntry(e), run}
			}
			return it.ID == 0
		})
		if err != nil {
			q.shard.mu.Lock()
			defer q.shard.mu.Unlock()
			if q.aside.hidden.OnDisk(id) != run { // it has moved, and the file may be gone
				return diskItem{}, nil
			}
		}
		return it, err
	default:
		q.shard.mu.Unlock()
		return it, nil
	}
	r := b.runOf(id)
	end := r.written.End
	q.shard.mu.Unlock()
	if it.Item, err = s.reader.Item(r.File, &r.places, end, id); err != nil {
		return it, fmt.Errorf("%w: %w", ErrBacklog, err)
	}
	return it, nil
}

// Find returns the id of the item of a key in the queue called name, if there is one. It never waits for the disk:
// whether an item there has expired it does not know.
func (e *Engine) Find(now Time, name, key []byte) (id uint64, ok bool) {
	defer contain()
	q, at, err := e.lockItem(now, name, Which{Key: key})
	if err != nil {
		return 0, false
	}
	e.unlock(q.shard, now)
	return at.it.ID, true
}

// lockItem locks the shard of the queue called name. It returns that queue, if there is one, and where the item called
// which is. Items that have expired or are due have been looked at. With an error nothing is locked.
func (e *Engine) lockItem(now Time, name []byte, which Which) (q *queue, at spot, err error) {
	if e.closed.Load() {
		return nil, at, ErrClosed
	}
	if which.Key != nil {
		if err = ValidateKey(which.Key); err != nil {
			return nil, at, err
		}
	}
	sh, q := e.lockQueue(name)
	err = ErrNoSuchItem
	if q == nil {
		if withheld := e.withheld.refusal(string(name)); withheld != nil {
			err = withheld
		}
		e.unlock(sh, now)
		return nil, at, err
	}
	e.wakeUp(q, now)
	if which.Key != nil {
		at, _ = q.ofKey(which.Key, now)
	} else {
		at = q.locate(which.ID)
	}
	if at.where == nowhere || !at.isUnknown() && q.expired(&at.it, now) {
		e.unlock(sh, now)
		return q, at, ErrNoSuchItem
	}
	return q, at, nil
}

// Changes says what a Change sets anew of an item.
type Changes struct {
	SetExpiry bool // to Expiry, an instant; zero: never
	Expiry    Time
	SetDelay  bool // the item is hidden for Delay from now on; zero: it is visible
	Delay     time.Duration
}

// Change sets the expiry, the delay, or both of one item of the queue called name. A delayed item keeps its place in
// line, and comes back to it when the delay is over. Change returns the errors of Remove, ErrHeld only if it sets
// the delay, and ErrDelayTooLong. If the item is on disk only, Change needs its body: it waits for that, or returns
// ErrComing, as Look does.
func (e *Engine) Change(now Time, name []byte, l *LookRequest, to Changes) (t Ticket, err error) {
	defer contain()
	return e.untilItComes(l, func() (Ticket, error) { return e.change(now, name, l, to) })
}

// change is Change of an item whose image is in memory, or is read.
func (e *Engine) change(now Time, name []byte, l *LookRequest, to Changes) (t Ticket, err error) {
	q, at, err := e.lockItem(now, name, l.Which)
	if err != nil {
		return t, err
	}
	defer e.unlock(q.shard, now)
	if err := q.admitConsumer(l.ClientID); err != nil {
		return t, err
	}
	if to.SetDelay {
		if err := q.admitDelay(to.Delay); err != nil {
			return t, err
		}
		if q.heldNow(&at) {
			return t, ErrHeld
		}
	}
	if l.awaits(q, &at) {
		return t, ErrComing
	}
	if q.expired(&at.it, now) {
		return t, ErrNoSuchItem
	}
	t = e.changeAt(q, &at, to)
	e.serveWaiters(q, now)
	return t, nil
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
	changed := e.setAside(q, &it, 0, entry)
	q.countFor(entry.Token, lease.holder, lease.taken)
	return e.sayAside(q, changed)
}
