package engine

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
)

// Which names one item of a queue: by its key, if Key is not nil, and otherwise by its id.
type Which struct {
	ID  uint64
	Key []byte
}

// LookRequest says which item to look at.
type LookRequest struct {
	Which
	// Wait has Look wait for the disk, if the item is there alone; otherwise it returns ErrComing.
	Wait bool
	// Delivery, unless nil, is set before the call of the Receiver to what there is to know of the item. That is when
	// it is due, if it is delayed or leased, and how often it was delivered. It has no Receipt.
	Delivery *Delivery
}

// Look hands one item of the queue called name to r, wherever it is, and leaves it there. The item may leave the
// process once the ticket is committed. It returns ErrNoSuchItem, ErrComing, ErrNotTaken, ErrClosed, or an
// error that wraps ErrBadKey, ErrBacklog or ErrWithheld.
func (e *Engine) Look(now Time, name []byte, l LookRequest, r Receiver) (Ticket, error) {
	defer contain()
	var read diskItem
	for {
		t, q, id, err := e.look(now, name, &l, read, r)
		if err != ErrComing || !l.Wait {
			return t, err
		}
		if read, err = e.spool.readItem(q, id); err != nil {
			return Ticket{}, err
		}
	}
}

// look is Look at an item whose image is in memory, or is read. With ErrComing it returns which item is to be read.
func (e *Engine) look(
	now Time, name []byte, l *LookRequest, read diskItem, r Receiver,
) (t Ticket, q *queue, id uint64, err error) {
	q, at, err := e.lockItem(now, name, l.Which)
	if err != nil {
		return t, nil, 0, err
	}
	defer e.unlock(q.shard, now)
	if !at.know(read) {
		return t, q, at.it.ID, ErrComing
	}
	if q.expired(&at.it, now) {
		return t, nil, 0, ErrNoSuchItem
	}
	if l.Delivery != nil {
		*l.Delivery = q.describe(&at)
	}
	if !r.Receive(at.it) {
		return t, nil, 0, ErrNotTaken
	}
	return q.putTicket(at.it.ID), nil, 0, nil
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
				it = diskItem{e.Item.Clone(), hiddenEntry(e), true}
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

// runOf returns the run that holds an item which is on disk.
func (b *backlog) runOf(id uint64) (newest *run) {
	for _, r := range b.runs {
		if r.written.Contains(id) && (newest == nil || r.ID.Number > newest.ID.Number) {
			newest = r
		}
	}
	return newest
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

// lockItem locks the shard of the queue called name. It returns that queue, if there is one, and where the item is that
// which names. Items that have expired or are due have been looked at. With an error nothing is locked.
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
