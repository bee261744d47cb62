package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// This file has fetches, also from the first of several queues that has an item, and the ends of open reads.

// Receiver takes the items of a fetch. Receive reports whether it takes the item: one that is not taken stays where it
// is. It is called before the call it was passed to returns, with a shard of the engine locked. So it copies what it
// wants of the item and returns, and calls nothing of the engine.
type Receiver interface{ Receive(Item) bool }

// FetchRequest says how to fetch.
type FetchRequest struct {
	Access   Access
	ClientID string  // for queues that admit one client only
	Waiter   *Waiter // waits at the queue if there is no item; nil: do not wait
	// Immediate has the Waiter wait only for as long as the next item is on its way from disk.
	Immediate bool
	// Lease is for how long a Lease, or an OpenRead unless it is zero, may keep the item; then it comes
	// back by itself. DefaultLease stands for what the queue's options say.
	Lease time.Duration
	// Holder counts the lease of a Lease; nil: nobody does.
	Holder *Holder
	// Delivery, unless nil, is set before each call of the Receiver to what there is to know of the item.
	Delivery *Delivery
}

// Fetched is the outcome of a fetch.
type Fetched struct {
	// Count is how many items were handed out.
	Count int
	// Ticket is to be committed before the reply may leave: the items, or that there is none. It covers the puts of
	// the items, and their removal if the access is Take.
	Ticket Ticket
	// Read names the item of an OpenRead or Hold, the last one of several.
	Read ReadRef
	// Waiting says that there was no item and the Waiter waits at the queue.
	Waiting bool
	// Meter is that of the queue; nil if nothing is measured.
	Meter *Meter
	// Alias says that the name is an alias: it is always empty.
	Alias bool
	// ManyLeft says that many items are left: a consumer of the queue catches up.
	ManyLeft bool
}

// Fetch hands the oldest item of the queue called name to r. The queue is made if it does not exist. It returns
// ErrEmpty if there is no item, and ErrComing if the next one is on its way from disk. Before that it adds the
// request's Waiter, if it has one, to the queue's waiters. An alias is always empty, and nobody waits for it. It also
// returns ErrNotTaken, ErrBacklog, a *NotAdmittedError, ErrClosed, ErrTooManyQueues, ErrTooManyChildren, ErrOutOfMemory
// and ErrBadName.
func (e *Engine) Fetch(now Time, name []byte, f FetchRequest, r Receiver) (got Fetched, err error) {
	err = e.FetchMany(now, name, &f, 1, r, nil, &got)
	return got, err
}

// maxFetchBytes is how many bytes of items FetchMany hands out with the shard locked; it ends with
// the item that reaches them.
const maxFetchBytes = 64 << 10

// FetchMany is Fetch for up to most items, at least one, the oldest first. It appends the reads of those that stay open
// to refs, unless that is nil, and sets got, which is zero, to the outcome. It may return fewer without an error, so
// that others get at the queue in between, but then at least one. It keeps none of f, refs and got.
//
// If the access Holds, an error says why there are no more items, even when there are some. The Waiter then waits for
// the next one. If the access is Take, the error and the Waiter are for the first item alone. A Peek is for one item.
func (e *Engine) FetchMany(
	now Time, name []byte, f *FetchRequest, most int, r Receiver, refs *[]ReadRef, got *Fetched,
) error {
	defer contain()
	q, made, err := e.lockForFetch(now, name)
	if err != nil {
		got.Alias = err == ErrEmpty
		return err
	}
	got.Ticket, got.Meter = made, e.measured(q)
	if err = e.admitFetch(q, f); err == nil {
		err = e.handOver(q, now, f, most, r, refs, got)
		got.ManyLeft = q.hasMany()
	}
	e.unlock(q.shard, now)
	return err
}

// manyItems is how many items in a queue's window count as many.
const manyItems = 1024

// hasMany reports whether the queue holds many items, or more than fit into its memory. The caller holds the shard's
// mutex.
func (q *queue) hasMany() bool {
	return q.window.Count > manyItems || q.backlog != nil && q.backlog.inReadBehind
}

// lockForFetch locks the shard of the queue called name. It returns the queue, which has no expired item at its head
// unless it is being swept, and the ticket of its making. With an error nothing is locked; it is ErrEmpty for an alias
// only.
func (e *Engine) lockForFetch(now Time, name []byte) (*queue, Ticket, error) {
	s := e.settings.Load()
	if len(s.Aliases) > 0 {
		if _, ok := s.Aliases[string(name)]; ok {
			return nil, Ticket{}, ErrEmpty
		}
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	q, made, err := e.findOrCreate(sh, now, name)
	if err == nil {
		e.wakeUp(q, now)
	}
	for n := 1; err == nil && !q.headBusy() && q.mayExpire() && !e.swept(q, now); n++ { // let others in between batches
		if n == maxSweeps {
			e.sweepLater(q)
			break
		}
		e.unlock(sh, now)
		sh.mu.Lock()
		var t Ticket
		q, t, err = e.findOrCreate(sh, now, name) // another one if it was deleted meanwhile
		made = made.Merge(t)
	}
	if err != nil {
		sh.mu.Unlock()
		return nil, Ticket{}, err
	}
	return q, made, nil
}

// admitFetch returns why a fetch gets nothing of q, whatever there is, or nil.
func (e *Engine) admitFetch(q *queue, f *FetchRequest) error {
	if e.closed.Load() {
		return ErrClosed
	}
	if f.Access == Peek {
		return nil
	}
	if f.Access == Lease || f.Lease != 0 {
		if _, err := q.leaseFor(f); err != nil {
			return err
		}
		if f.Access == Lease && !e.LeaseRoom() {
			return ErrOutOfMemory
		}
	}
	return q.admitConsumer(f.ClientID)
}

// handOver hands up to most items of q to r, and adds their reads to refs, unless that is nil. It adds the rest of the
// outcome to got. The caller holds the shard's mutex, and q has no expired item at its head unless it is being swept.
func (e *Engine) handOver(
	q *queue, now Time, f *FetchRequest, most int, r Receiver, refs *[]ReadRef, got *Fetched,
) (err error) {
	newest := uint64(0) // of the items that stay
	for left := maxFetchBytes; ; {
		var it Item
		if ok := q.first(&it); !ok || q.headBusy() {
			if got.Count == 0 || f.Access.Holds() { // of those that take, the outcome is that of the first
				got.Waiting, err = e.miss(q, f)
			}
			break
		}
		var due Time
		if f.Lease != 0 || f.Delivery != nil {
			due = e.describeNext(q, &it, f)
		}
		if !r.Receive(it) {
			if got.Count == 0 || f.Access.Holds() {
				err = ErrNotTaken
			}
			break
		}
		q.counters.hits++
		switch f.Access {
		case Take:
			got.Ticket = got.Ticket.Merge(e.takeFirst(q, &it, now))
		case Peek:
			newest, most = it.ID, 1
		case OpenRead, Hold:
			newest = max(newest, it.ID)
			read := e.openFirst(q, now, &it, f.Access)
			if got.Read = (ReadRef{read, read.id}); refs != nil {
				*refs = append(*refs, got.Read)
			}
			if due != 0 {
				e.hold(q, read, due)
			}
		case Lease:
			got.Ticket = got.Ticket.Merge(e.leaseFirst(q, now, &it, f.Delivery.Receipt, due))
			q.countFor(f.Delivery.Receipt, f.Holder, now)
		}
		got.Count++
		left -= len(it.Data)
		if got.Count >= most || left <= 0 || q.mayExpire() && !e.swept(q, now) {
			break // the next call goes on
		}
	}
	if newest > 0 {
		got.Ticket = got.Ticket.Merge(q.putTicket(newest))
	}
	return err
}

// takeFirst removes the item to hand out next, which is it, and has been handed out.
func (e *Engine) takeFirst(q *queue, it *Item, now Time) Ticket {
	if (q.aside != nil || q.returned.First() != nil) && q.deliveries(it) > 0 {
		q.counters.redelivered++
	}
	q.handOut(it, now)
	t := q.remove(e.journal, it.ID, len(it.Data))
	e.drop(q, it)
	return t
}

// miss is a fetch from q when it has no item at hand. It adds the Waiter, if there is one, to the queue's waiters, and
// returns why there is no item.
func (e *Engine) miss(q *queue, f *FetchRequest) (waiting bool, err error) {
	err = ErrComing
	switch {
	case q.headBusy():
	case q.coming() && q.backlog.failed != nil:
		return false, q.backlog.failed
	case q.coming():
		e.wantFill(q)
	case e.hiddenComing(q):
		e.wantRead(q)
	default:
		err = ErrEmpty
		q.counters.misses++
	}
	w := f.Waiter
	if w == nil || f.Immediate && err == ErrEmpty {
		return false, err
	}
	w.shard, w.q, w.Read, w.Err = q.shard, q, ReadRef{}, nil
	w.Access, w.immediate, w.ClientID = f.Access, f.Immediate, f.ClientID
	q.waiters.pushBack(w)
	return true, err
}

// CancelWait takes w from its queue's waiters. It reports false if the wait has already ended: then w.Notify has heard
// of it, or is hearing of it.
func (e *Engine) CancelWait(w *Waiter) bool {
	defer contain()
	if w.shard == nil {
		return false
	}
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if w.q == nil {
		return false
	}
	w.q.takeOut(w)
	return true
}

// Collect completes a wait whose Read is ref. It hands the item to r. Then it does what the waiting request asked for:
// it removes the item for good, leases it, leaves it open, or forgets the copy. The ticket is that of a fetch. It
// reports false if the read has ended by itself, or r did not take the item, which is then back at the head.
func (e *Engine) Collect(now Time, ref ReadRef, f FetchRequest, r Receiver) (Ticket, bool) {
	defer contain()
	if ref.IsZero() {
		return Ticket{}, false
	}
	sh := ref.r.shard
	sh.mu.Lock()
	if !ref.live() {
		sh.mu.Unlock()
		return Ticket{}, false
	}
	var due Time
	taken := true
	if f.Lease != 0 || f.Delivery != nil {
		due, taken = e.describeRead(ref.r, &f)
	}
	if !taken || !r.Receive(ref.r.item) {
		sh.mu.Unlock()
		e.Return(now, []ReadRef{ref}, Return{How: Release}) // it was never delivered
		return Ticket{}, false
	}
	q := ref.r.q
	t := q.putTicket(ref.r.item.ID)
	switch {
	case f.Access == Lease:
		q.open.remove(ref.r)
		q.counters.opens++
		t = t.Merge(e.leaseRead(q, ref.r, aside.Entry{State: aside.Leased, Due: due, Token: f.Delivery.Receipt}))
		q.countFor(f.Delivery.Receipt, f.Holder, now)
	case !f.Access.Holds():
		t = t.Merge(e.end(ref.r, now))
	case due != 0:
		e.hold(q, ref.r, due)
	}
	sh.mu.Unlock()
	return t, true
}

// Confirm ends an open read: its item is gone for good, once Commit of the ticket has returned nil. It reports false if
// the read has ended by itself. A caller that takes this for a confirm as well commits the ticket too. The queue of the
// read may have been deleted, and the delete may not be durable yet.
func (e *Engine) Confirm(now Time, ref ReadRef) (Ticket, bool) {
	defer contain()
	if ref.IsZero() {
		return Ticket{}, false
	}
	sh := ref.r.shard
	sh.mu.Lock()
	t, ended := e.confirm(now, ref)
	sh.mu.Unlock()
	return t, ended
}

// ConfirmAll ends open reads of one queue: their items are gone for good, once Commit of the ticket
// has returned nil. It returns how many there were that had not ended by themselves; see Confirm.
func (e *Engine) ConfirmAll(now Time, refs []ReadRef) (t Ticket, ended int) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return t, 0
	}
	sh := refs[0].r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, ref := range refs {
		u, ok := e.confirm(now, ref)
		if t = t.Merge(u); ok {
			ended++
		}
	}
	return t, ended
}

// confirm is Confirm. The caller holds the shard's mutex.
func (e *Engine) confirm(now Time, ref ReadRef) (t Ticket, ended bool) {
	if !ref.live() {
		return ref.r.shard.deleted, false
	}
	if ref.r.q.opts.Trace {
		e.trace("confirm", ref.r)
	}
	return e.end(ref.r, now), true
}

// end removes the item of an open read for good, or forgets a copied one.
func (e *Engine) end(r *read, now Time) Ticket {
	var t Ticket
	if r.state == readOpen {
		r.q.open.remove(r)
		r.q.leaves(&r.item)
		t = r.q.remove(e.journal, r.item.ID, len(r.item.Data))
	}
	r.shard.freeRead(r)
	return t
}

// abortBatch is how many reads Return ends at most before the shard is unlocked for a moment.
const abortBatch = 1024

// Return ends open reads of one queue by giving their items back, in the order in which they were opened. The oldest
// comes to the head, or to the first waiter, unless it is delayed or goes to the dead-letter queue. It returns what
// the reply must wait for, how many reads there were that had not ended by themselves, and ErrDelayTooLong, having
// ended none.
//
// It brings many back in pieces, newest first, and unlocks the shard between them. A fetch from the queue waits
// meanwhile, so no client sees a part of them.
func (e *Engine) Return(now Time, refs []ReadRef, how Return) (t Ticket, ended int, err error) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return t, 0, nil
	}
	p := returning{how: how}
	for len(refs) > 0 && err == nil {
		refs, err = e.returnPiece(now, refs, &p)
	}
	return p.ticket, p.ended, err
}

// returning is a Return under way.
type returning struct {
	how    Return
	queue  *queue // whose aborting counts this Return; nil: it does not yet
	ticket Ticket
	ended  int
}

// returnPiece ends the newest of refs, of which there is one at least, and returns the others.
func (e *Engine) returnPiece(now Time, refs []ReadRef, p *returning) (rest []ReadRef, err error) {
	from := max(len(refs)-abortBatch, 0)
	sh, q := refs[0].r.shard, p.queue
	sh.mu.Lock()
	for i := len(refs) - 1; i >= from; i-- {
		ref := refs[i]
		if !ref.live() {
			continue
		}
		if q == nil {
			q = ref.r.q
			if err = q.admitDelay(p.how.Delay); err != nil {
				break
			}
		}
		p.ticket = p.ticket.Merge(e.giveBack(ref.r, p.how))
		p.ended++
	}
	switch {
	case err != nil:
	case from > 0 && p.queue == nil && q != nil:
		p.queue = q
		q.aborting++
	case from == 0 && p.queue != nil:
		p.queue.aborting--
	}
	if q != nil {
		e.serveWaiters(q, now)
	}
	p.ticket = p.ticket.Merge(e.unlockReturned(sh, q, now, p.how))
	return refs[:from], err
}

// Abort is Return of one read that is Lost. It reports false if the read has ended by itself.
func (e *Engine) Abort(now Time, ref ReadRef) bool {
	defer contain()
	_, ended, _ := e.Return(now, []ReadRef{ref}, Return{How: Lost})
	return ended == 1
}

// AbortAll is Return of reads that are Lost. It returns how many there were that had not ended by themselves.
func (e *Engine) AbortAll(now Time, refs []ReadRef) (ended int) {
	defer contain()
	_, ended, _ = e.Return(now, refs, Return{How: Lost})
	return ended
}

// AbortFirst is AbortAll for a caller that has no time for many reads. It brings the newest back, and returns how many
// there were. It also returns a function that brings back the others, or nil if there are none. Any goroutine may call
// that function, and one must. Until that has returned, a fetch from the queue waits.
func (e *Engine) AbortFirst(now Time, refs []ReadRef) (ended int, others func() int) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return 0, nil
	}
	p := &returning{how: Return{How: Lost}}
	refs, _ = e.returnPiece(now, refs, p) // there is no delay to be refused
	if len(refs) == 0 {
		return p.ended, nil
	}
	first := p.ended
	return first, func() (ended int) {
		defer contain()
		for len(refs) > 0 {
			refs, _ = e.returnPiece(Now(), refs, p)
		}
		return p.ended - first
	}
}

// AnyReceiver takes an item of one of several queues. From says, by its place among the names, which queue the
// next item is of.
type AnyReceiver interface {
	Receiver
	From(i int)
}

// FetchAny is Fetch from the first of several queues, at most MaxAny of different names, that has an item at hand. If
// there is no item, the wait a, which is not nil, joins the waiters of the queues; the Waiter of f is not used. It
// returns the place of the queue, among the names, that the item is of. A queue that cannot be fetched from is passed
// over, and if there is no item its error is returned. Otherwise the error is that of Fetch; ErrComing stands for any
// of the queues.
func (e *Engine) FetchAny(
	now Time, names [][]byte, f FetchRequest, a *AnyWait, r AnyReceiver,
) (got Fetched, which int, err error) {
	defer contain()
	a.begin(len(names))
	var refused error
	err = ErrEmpty
	made := Ticket{}
	for i, name := range names {
		f.Waiter = &a.waiters[i]
		r.From(i)
		one, over, failed := e.fetchFor(now, name, &f, r)
		made = made.Merge(one.Ticket)
		one.Ticket = made
		switch {
		case over:
			return Fetched{Ticket: made, Waiting: true, Meter: one.Meter}, 0, ErrEmpty
		case failed == nil, failed == ErrNotTaken:
			e.leaveQueues(a)
			return one, i, failed
		case failed == ErrComing:
			err = ErrComing
		case failed != ErrEmpty && refused == nil:
			refused = failed
		}
		if got.Meter == nil {
			got.Meter = one.Meter
		}
		got.Alias = one.Alias && (i == 0 || got.Alias)
	}
	got.Ticket = made
	switch {
	case refused != nil && a.win(nil):
		e.leaveQueues(a)
		return got, 0, refused
	case refused == nil && a.left.Add(-1) == 0 && a.win(nil):
		return got, 0, err
	}
	got.Waiting = true
	return got, 0, err
}

// MaxAny is how many queues FetchAny may be asked for.
const MaxAny = 16

// fetchFor is Fetch for the Waiter of f, which is one of several. Over says that another queue has served it.
func (e *Engine) fetchFor(now Time, name []byte, f *FetchRequest, r Receiver) (got Fetched, over bool, err error) {
	q, made, err := e.lockForFetch(now, name)
	if err != nil {
		got.Alias = err == ErrEmpty
		return got, false, err
	}
	got.Ticket, got.Meter = made, e.measured(q)
	if err = e.admitFetch(q, f); err == nil {
		a := f.Waiter.any
		a.left.Add(1)
		if q.atHand() && !q.headBusy() && !a.win(nil) {
			over = true
		} else if err = e.handOver(q, now, f, 1, r, nil, &got); !got.Waiting {
			a.left.Add(-1)
		}
	}
	e.unlock(q.shard, now)
	return got, over, err
}

// leaveQueues takes what is left of a wait that is over from the waiters of its queues.
func (e *Engine) leaveQueues(a *AnyWait) {
	for i := range a.waiters {
		w := &a.waiters[i]
		if w.shard == nil {
			continue
		}
		w.shard.mu.Lock()
		if w.q != nil {
			w.q.takeOut(w)
		}
		w.shard.mu.Unlock()
	}
}

// CancelAny ends a wait of FetchAny. It reports false if the wait has already ended: then Notify has heard of
// it, or is hearing of it.
func (e *Engine) CancelAny(a *AnyWait) bool {
	defer contain()
	if !a.win(nil) {
		return false
	}
	e.leaveQueues(a)
	return true
}

// EndAny returns how a wait of FetchAny has ended, once Notify has heard. That is the place of the queue among the
// names, and what the Read and the Err of a Waiter are.
func (e *Engine) EndAny(a *AnyWait) (which int, ref ReadRef, err error) {
	defer contain()
	e.leaveQueues(a)
	for i := range a.waiters {
		if w := &a.waiters[i]; w == a.ended {
			return i, w.Read, w.Err
		}
	}
	return 0, ReadRef{}, ErrEmpty
}
