package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// This file has leases: items are leased, and their receipts extend the leases, confirm them, or give the items back.

// DefaultLease, as FetchRequest.Lease, stands for the queue's own; see QueueOptions.Lease.
const DefaultLease time.Duration = -1

// Delivery is what there is to know of an item that is being handed out, beside the item.
type Delivery struct {
	// Receipt ends the lease of a fetch whose Access is Lease, from any connection. It is zero for others.
	Receipt uint64
	// Deliveries is how often the item has been delivered, this time included, as far as that counts.
	Deliveries int
	// Due is when the lease lapses; zero without one.
	Due Time
}

// leaseFor returns how long a fetch may keep its item, or why it may not; zero for as long as it likes.
func (q *queue) leaseFor(f *FetchRequest) (time.Duration, error) {
	d := f.Lease
	if d == DefaultLease {
		if d = q.opts.Lease; d == 0 {
			return 0, ErrNoLease
		}
	}
	if d < 0 || d == 0 && f.Access == Lease {
		return 0, ErrBadLease
	}
	return d, nil
}

// describeNext fills in what there is to know of the item to hand out next, which is it, and returns when its
// lease lapses. The request is admitted.
func (e *Engine) describeNext(q *queue, it *Item, f *FetchRequest) (due Time) {
	return e.deliver(q, q.deliveries(it), f)
}

// describeRead is describeNext of the item of a read that a waiter has got. It reports false if the queue has
// no default lease any more.
func (e *Engine) describeRead(r *read, f *FetchRequest) (due Time, ok bool) {
	if f.Lease != 0 {
		if _, err := r.q.leaseFor(f); err != nil {
			return 0, false
		}
	}
	return e.deliver(r.q, r.count, f), true
}

// deliver is describeNext of an item that was delivered so often.
func (e *Engine) deliver(q *queue, count uint16, f *FetchRequest) (due Time) {
	if f.Delivery == nil {
		f.Delivery = new(Delivery)
	}
	*f.Delivery = Delivery{Deliveries: int(count) + 1}
	if d, _ := q.leaseFor(f); d > 0 && f.Access != Peek {
		f.Delivery.Due = e.precise.In(d)
	}
	if f.Access == Lease {
		f.Delivery.Receipt = q.newToken()
	}
	return f.Delivery.Due
}

// leaseFirst leases it, the item to hand out next, until it is due, to the holder of the token.
func (e *Engine) leaseFirst(q *queue, now Time, it *Item, token uint64, due Time) Ticket {
	q.handOut(it, now)
	q.lastGone = it.Added
	q.counters.opens++
	entry := aside.Entry{State: aside.Leased, Due: due, Token: token}
	r, ok := q.readyNow(it)
	if ok {
		if entry.Count = q.aside.Get(r).Count; entry.Count > 0 {
			q.counters.redelivered++
		}
		e.changeAside(q, r, entry)
		return e.sayAside(q, r)
	}
	if back := q.returned.First(); back != nil {
		if back.count > 0 {
			q.counters.redelivered++
		}
		q.returned.remove(back)
		return e.leaseRead(q, back, entry)
	}
	r = e.setAside(q, it, q.segmentOf(it.ID), entry)
	q.window.Pop(&q.shard.pool, it)
	if q.backlog != nil {
		e.popped(q)
	}
	return e.sayAside(q, r)
}

// leaseRead leases the item of a read that is in no list any more.
func (e *Engine) leaseRead(q *queue, r *read, entry aside.Entry) Ticket {
	entry.Count = r.count
	ref := e.setAside(q, &r.item, r.pinned, entry)
	q.shard.freeRead(r)
	return e.sayAside(q, ref)
}

// hold gives an open read a lease, which ends when it is due. A read has one at most.
func (e *Engine) hold(q *queue, r *read, due Time) {
	r.deadline = due
	q.itemsAside().held.Set(r, int64(due), &r.leaseAt)
	e.setAlarm(q)
}

// ExtendRead has the lease of an open read end d from now, however long it was. It returns when that is,
// and false if the read has ended or has no lease.
func (e *Engine) ExtendRead(now Time, ref ReadRef, d time.Duration) (due Time, ok bool) {
	defer contain()
	if ref.IsZero() || d <= 0 {
		return 0, false
	}
	sh := ref.r.shard
	sh.mu.Lock()
	defer e.unlock(sh, now)
	if ref.live() {
		e.wakeUp(ref.r.q, now)
	}
	r := ref.r
	if !ref.live() || r.leaseAt == 0 {
		return 0, false
	}
	r.deadline = e.precise.In(d)
	r.q.aside.held.Set(r, int64(r.deadline), &r.leaseAt)
	e.setAlarm(r.q)
	return r.deadline, true
}

// StillOpen removes from refs, which are reads of one queue, those that have ended, and returns the others in
// their order.
func (e *Engine) StillOpen(now Time, refs []ReadRef) []ReadRef {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return refs[:0]
	}
	open := refs[:0]
	for piece := range slices.Chunk(refs, holdersBatch) {
		open = e.stillOpen(now, piece, open)
	}
	return open
}

// stillOpen is StillOpen of a piece. It appends to open.
func (e *Engine) stillOpen(now Time, refs, open []ReadRef) []ReadRef {
	sh := refs[0].r.shard
	sh.mu.Lock()
	defer e.unlock(sh, now)
	for i, woken := 0, false; i < len(refs); i++ {
		switch ref := refs[i]; {
		case !ref.live():
		case woken:
			open = append(open, ref)
		default:
			e.wakeUp(ref.r.q, now)
			woken, i = true, i-1 // it may have lapsed
		}
	}
	return open
}

// lockLeased locks the shard of the queue called name and returns the item that a receipt holds. With an error nothing
// is locked. A lease that has lapsed is found only if lapsed is set, and as long as nobody has taken the item.
func (e *Engine) lockLeased(now Time, name []byte, receipt uint64, lapsed bool) (q *queue, r aside.Ref, err error) {
	if e.closed.Load() {
		return nil, 0, ErrClosed
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	if q, err = e.findLeases(sh, now, name); err == nil {
		var ok bool
		if r, ok = q.findLease(receipt, lapsed); ok {
			return q, r, nil
		}
		err = ErrNotHeld
	}
	e.unlock(sh, now)
	return nil, 0, err
}

// findLeases returns the queue called name, which has something aside, with what is due moved; or why nothing
// of it is held. The caller holds the shard's mutex.
func (e *Engine) findLeases(sh *shard, now Time, name []byte) (*queue, error) {
	q := sh.called(name)
	if q == nil {
		if withheld := e.withheld.refusal(string(name)); withheld != nil {
			return nil, withheld
		}
		return nil, ErrNotHeld
	}
	if q.aside == nil {
		return nil, ErrNotHeld
	}
	e.wake(q, now)
	return q, nil
}

// findLease returns the item that a receipt holds. A lease that has lapsed is found only if lapsed is set.
func (q *queue) findLease(receipt uint64, lapsed bool) (r aside.Ref, ok bool) {
	r, ok = q.aside.FindToken(receipt)
	return r, ok && (lapsed || q.aside.Get(r).State == aside.Leased)
}

// ConfirmLease ends a lease: its item is gone for good, once Commit of the ticket has returned nil. If the
// lease has lapsed, that works as long as nobody else has taken the item. It returns ErrNotHeld for a
// receipt that holds nothing, ErrClosed, or an error that wraps ErrWithheld.
func (e *Engine) ConfirmLease(now Time, name []byte, receipt uint64) (Ticket, error) {
	defer contain()
	q, r, err := e.lockLeased(now, name, receipt, true)
	if err != nil {
		return Ticket{}, err
	}
	it := q.aside.Item(r)
	t := q.remove(e.journal, it.ID, len(it.Data))
	q.leaves(&it)
	q.dropAside(r)
	e.unlock(q.shard, now)
	return t, nil
}

// ExtendLease has a lease that has not lapsed end d from now, however long it was. It returns when that
// is, what the reply must wait for, and an error: ErrBadLease, or one of those of ConfirmLease.
func (e *Engine) ExtendLease(now Time, name []byte, receipt uint64, d time.Duration) (due Time, t Ticket, err error) {
	defer contain()
	if d <= 0 {
		return 0, Ticket{}, ErrBadLease
	}
	q, r, err := e.lockLeased(now, name, receipt, false)
	if err != nil {
		return 0, Ticket{}, err
	}
	entry := q.aside.Get(r)
	entry.Due = e.precise.In(d)
	e.changeAside(q, r, entry)
	t = e.sayAside(q, r)
	e.unlock(q.shard, now)
	return entry.Due, t, nil
}

// ReturnLease ends a lease that has not lapsed by giving its item back: in its place, or after a delay, or
// to the dead-letter queue. It returns what the reply must wait for, and ErrDelayTooLong, or one of the
// errors of ConfirmLease.
func (e *Engine) ReturnLease(now Time, name []byte, receipt uint64, how Return) (Ticket, error) {
	defer contain()
	q, r, err := e.lockLeased(now, name, receipt, false)
	if err != nil {
		return Ticket{}, err
	}
	if err = q.admitDelay(how.Delay); err != nil {
		e.unlock(q.shard, now)
		return Ticket{}, err
	}
	t := e.returnLeased(q, r, how)
	e.serveWaiters(q, now)
	return t.Merge(e.unlockReturned(q.shard, q, now, how)), nil
}

// LeaseReads turns open reads of one queue into leases that end d from now, or with the queue's open-read
// timeout if that is earlier. It appends their receipts to dst, in the order of refs. The receipt of a read
// that has ended by itself holds nothing. The leases count for h, unless it is nil. The ticket is what a
// reply with the receipts must wait for.
func (e *Engine) LeaseReads(now Time, refs []ReadRef, d time.Duration, h *Holder, dst []uint64) (t Ticket, _ []uint64) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return t, dst
	}
	sh := refs[0].r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var due Time
	for _, ref := range refs {
		if !ref.live() {
			dst = append(dst, sh.tokens.Next())
			continue
		}
		r, q := ref.r, ref.r.q
		if due == 0 {
			if most := q.opts.OpenReadTimeout; most > 0 {
				d = min(d, most)
			}
			due = e.precise.In(d)
		}
		if r.held {
			q.counters.opens++
		}
		token, taken := q.newToken(), r.opened
		q.open.remove(r)
		t = t.Merge(e.leaseRead(q, r, aside.Entry{State: aside.Leased, Due: due, Token: token}))
		q.countFor(token, h, taken)
		dst = append(dst, token)
	}
	return t, dst
}

// leaseAt is an item that is leased.
type leaseAt struct{ id, token uint64 }

// leasedBy finds the items of q that receipts hold, in the order of their ids. The result is valid as long as
// the caller holds the shard's mutex.
func (q *queue) leasedBy(receipts []uint64, lapsed bool) []leaseAt {
	found := q.shard.found[:0]
	for _, receipt := range receipts {
		if r, ok := q.findLease(receipt, lapsed); ok {
			found = append(found, leaseAt{q.aside.ID(r), receipt})
		}
	}
	slices.SortFunc(found, func(a, b leaseAt) int { return cmp.Compare(a.id, b.id) })
	found = slices.Compact(found) // a receipt may be there twice
	q.shard.found = found
	return found
}

// leaseBatch is how many leases are ended at most before the shard is unlocked for a moment: half a millisecond of work.
const leaseBatch = 128

// ConfirmLeases is ConfirmLease of several receipts of one queue. It passes over those that hold nothing, and
// returns how many did hold an item. It unlocks the shard between pieces of many.
func (e *Engine) ConfirmLeases(now Time, name []byte, receipts []uint64) (t Ticket, ended int, err error) {
	defer contain()
	sh := e.shardOf(name)
	for piece := range slices.Chunk(receipts, leaseBatch) {
		if e.closed.Load() {
			return t, ended, ErrClosed
		}
		sh.mu.Lock()
		q, err := e.findLeases(sh, now, name)
		if err == nil {
			for _, at := range q.leasedBy(piece, true) {
				r, _ := q.aside.FindToken(at.token)
				it := q.aside.Item(r)
				t = t.Merge(q.remove(e.journal, at.id, len(it.Data)))
				q.leaves(&it)
				q.dropAside(r)
				ended++
			}
		}
		e.unlock(sh, now)
		if err != nil && err != ErrNotHeld {
			return t, ended, err
		}
	}
	return t, ended, nil
}

// ReturnLeases is ReturnLease of several receipts of one queue. It passes over those that hold nothing, and
// returns how many did hold an item. It brings many back in pieces, and unlocks the shard between them.
// A fetch from the queue waits meanwhile, so no client sees a part of them.
func (e *Engine) ReturnLeases(now Time, name []byte, receipts []uint64, how Return) (t Ticket, ended int, err error) {
	defer contain()
	p := returning{how: how}
	for first := true; first || len(receipts) > 0; first = false {
		receipts, err = e.returnLeases(now, name, receipts, &p)
	}
	if err == ErrNotHeld {
		err = nil
	}
	return p.ticket, p.ended, err
}

// returnLeases gives back what the first of receipts hold, and returns the others; none with an error.
func (e *Engine) returnLeases(now Time, name []byte, receipts []uint64, p *returning) (rest []uint64, err error) {
	sh := e.shardOf(name)
	sh.mu.Lock()
	q, err := e.findLeases(sh, now, name)
	switch {
	case e.closed.Load():
		err = ErrClosed
	case err == nil:
		err = q.admitDelay(p.how.Delay)
	}
	if err == nil {
		piece := receipts[:min(len(receipts), leaseBatch)]
		rest = receipts[len(piece):]
		for _, at := range q.leasedBy(piece, false) {
			r, _ := q.aside.FindToken(at.token)
			p.ticket = p.ticket.Merge(e.returnLeased(q, r, p.how))
			p.ended++
		}
	}
	if len(rest) > 0 && p.queue == nil {
		p.queue = q
		q.aborting++
	} else if len(rest) == 0 && p.queue != nil {
		p.queue.aborting--
		e.serveWaiters(p.queue, now)
		p.queue = nil
	}
	if q != nil {
		e.serveWaiters(q, now)
	}
	p.ticket = p.ticket.Merge(e.unlockReturned(sh, q, now, p.how))
	return rest, err
}

// holdersBatch is how many leases, or open reads, are looked at with a shard locked.
const holdersBatch = 1024

// OldestOpen returns when the read was opened that is the first of refs to be still open; zero if all have ended. refs
// are reads of one queue, in the order in which they were opened.
func (e *Engine) OldestOpen(refs []ReadRef) Time {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return 0
	}
	sh := refs[0].r.shard
	for piece := range slices.Chunk(refs, holdersBatch) {
		if at := sh.firstOpen(piece); at > 0 {
			return at
		}
	}
	return 0
}

// firstOpen is OldestOpen of a piece.
func (sh *shard) firstOpen(refs []ReadRef) Time {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, ref := range refs {
		if ref.live() && ref.r.state == readOpen {
			return ref.r.opened
		}
	}
	return 0
}

// Client is who takes leases, as far as that is known.
type Client struct {
	Connection uint64 // its number; zero: leases of several connections count together
	Peer       string
	Protocol   string
	ClientID   string
	User       string
}

// Held is what one client has leased of a queue.
type Held struct {
	Client
	Leases int
	Oldest Time // when the first of them was taken
}

// Holders returns the clients that have leases on the queue called name, in no order: those that count for a Holder.
// The clients may have gone. It looks at every lease, some at a time.
func (e *Engine) Holders(name []byte) []Held {
	defer contain()
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q == nil || q.aside == nil {
		return nil
	}
	byHolder := make(map[*Holder]*Held)
	seen := 0
	for _, l := range q.aside.holders { // the map may change while the shard is unlocked, as range allows
		h := byHolder[l.holder]
		if h == nil {
			h = &Held{Client: l.holder.Client, Oldest: l.taken}
			byHolder[l.holder] = h
		}
		h.Leases++
		h.Oldest = min(h.Oldest, l.taken)
		if seen++; seen%holdersBatch == 0 {
			sh.mu.Unlock()
			sh.mu.Lock()
			if q.deleted || q.aside == nil {
				break
			}
		}
	}
	list := make([]Held, 0, len(byHolder))
	for _, h := range byHolder {
		list = append(list, *h)
	}
	return list
}
