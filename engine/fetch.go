package engine

import "slices"

// Receiver takes the items of a fetch. Receive reports whether it takes the item: one that is not
// taken stays where it is. It is called before the call it was passed to returns, with a shard of
// the engine locked: it copies what it wants of the item and returns, and calls nothing of the
// engine.
type Receiver interface{ Receive(Item) bool }

// FetchRequest says how to fetch.
type FetchRequest struct {
	Access   Access
	ClientID string  // for queues that admit one client only
	Waiter   *Waiter // waits in line if there is no item; nil: do not wait
	// Immediate has the Waiter wait only for as long as the next item is on its way from disk.
	Immediate bool
}

// Fetched is the outcome of a fetch.
type Fetched struct {
	// Ticket is to be committed before the item may leave, or, if there is none, nothing.
	Ticket Ticket
	// Read names the item of an OpenRead or Hold.
	Read ReadRef
	// Waiting says that there was no item and the Waiter is in line.
	Waiting bool
	// Meter is that of the queue; nil if nothing is measured.
	Meter *Meter
	// Alias says that the name is that of an alias, which is always empty.
	Alias bool

	size int // bytes of the item, if it was taken
}

// Fetch hands the oldest item of the queue called name to r. The queue is made if it does not
// exist. It returns ErrEmpty if there is no item, and ErrComing if the next one is on its way from
// disk, after putting the request's Waiter, if it has one, in line. An alias is always empty, and
// nobody waits for it. It also returns ErrNotTaken, ErrBacklog, a *NotAdmittedError, ErrClosed,
// ErrTooManyQueues, ErrTooManyChildren, ErrOutOfMemory and ErrBadName.
func (e *Engine) Fetch(now Time, name []byte, f FetchRequest, r Receiver) (Fetched, error) {
	defer contain()
	q, made, err := e.lockForFetch(now, name)
	if err != nil {
		return Fetched{Alias: err == ErrEmpty}, err
	}
	meter := e.measured(q)
	got, err := e.fetch(q, now, f, r)
	e.unlockAfterFetch(q.shard, now)
	got.Meter = meter
	got.Ticket = got.Ticket.Merge(made)
	return got, err
}

// maxFetchBytes is how many bytes of items FetchMany hands out with the shard locked; it ends with
// the item that reaches them.
const maxFetchBytes = 64 << 10

// FetchMany is Fetch for up to most items, at least one, whose access Holds. It appends their reads
// to refs, the oldest first, and returns them also with an error, which is why there are not more:
// those of Fetch. It may return fewer without an error, so that others get at the queue in between,
// but then at least one.
func (e *Engine) FetchMany(
	now Time, name []byte, f FetchRequest, most int, r Receiver, refs []ReadRef,
) (Fetched, []ReadRef, error) {
	defer contain()
	q, made, err := e.lockForFetch(now, name)
	if err != nil {
		return Fetched{Alias: err == ErrEmpty}, refs, err
	}
	meter := e.measured(q)
	got, left := Fetched{}, maxFetchBytes
	for begun := len(refs); len(refs)-begun < most && left > 0; {
		if len(refs) > begun && !e.swept(q, now) {
			break // the next call goes on
		}
		if got, err = e.fetch(q, now, f, r); err != nil {
			break
		}
		refs = append(refs, got.Read)
		left -= len(got.Read.r.item.Data)
	}
	e.unlockAfterFetch(q.shard, now)
	return Fetched{Ticket: made, Waiting: got.Waiting, Meter: meter}, refs, err
}

// TakeMany is Fetch for up to most items, at least one, whose Access is Take. It returns how many
// there were, the oldest first, and an error, one of those of Fetch, only if there was none. It may
// return fewer than there are, so that others get at the queue in between. The request's Waiter is
// for the first item only.
func (e *Engine) TakeMany(
	now Time, name []byte, f FetchRequest, most int, r Receiver,
) (n int, got Fetched, err error) {
	defer contain()
	q, made, err := e.lockForFetch(now, name)
	if err != nil {
		return 0, Fetched{Alias: err == ErrEmpty}, err
	}
	meter := e.measured(q)
	if got, err = e.fetch(q, now, f, r); err == nil {
		more, t := e.takeMore(q, now, most-1, maxFetchBytes-got.size, r)
		n, got.Ticket = 1+more, got.Ticket.Merge(t)
	}
	e.unlockAfterFetch(q.shard, now)
	got.Meter = meter
	got.Ticket = got.Ticket.Merge(made)
	return n, got, err
}

// takeMore takes up to most items that are at hand, and ends with the one that reaches so many
// bytes. It returns how many it took. The caller holds the shard's mutex.
func (e *Engine) takeMore(q *queue, now Time, most, bytes int, r Receiver) (n int, t Ticket) {
	for ; n < most && bytes > 0 && e.swept(q, now); n++ {
		it, ok := q.first()
		if !ok || !r.Receive(it) {
			break
		}
		bytes -= len(it.Data)
		t = t.Merge(e.takeFirst(q, it, now))
	}
	return n, t
}

// takeFirst removes the item to hand out next, which is it, and has been handed out.
func (e *Engine) takeFirst(q *queue, it Item, now Time) Ticket {
	q.counters.hits++
	q.handOut(it, now)
	t := q.remove(e.journal, it.ID)
	e.drop(q, it)
	return t
}

// lockForFetch locks the shard of the queue called name and returns the queue, which has no expired
// item at its head unless it is being swept, and the ticket of its making. With an error nothing is locked; it is ErrEmpty
// for an alias only.
func (e *Engine) lockForFetch(now Time, name []byte) (*queue, Ticket, error) {
	s := e.settings.Load()
	if len(s.Aliases) > 0 {
		if _, ok := s.Aliases[string(name)]; ok {
			return nil, Ticket{}, ErrEmpty
		}
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	q, made, err := e.find(sh, now, name)
	for n := 1; err == nil && !q.sweeping && !e.swept(q, now); n++ { // let others in between batches
		if n == maxSweeps {
			e.sweepLater(q)
			break
		}
		moves := sh.takeMoves()
		sh.mu.Unlock()
		e.finishMoves(now, moves)
		sh.mu.Lock()
		var t Ticket
		q, t, err = e.find(sh, now, name) // another one if it was deleted meanwhile
		made = made.Merge(t)
	}
	if err != nil {
		sh.mu.Unlock()
		return nil, Ticket{}, err
	}
	return q, made, nil
}

// unlockAfterFetch unlocks sh, and ends the moves that the sweep before the fetch began.
func (e *Engine) unlockAfterFetch(sh *shard, now Time) {
	moves := sh.takeMoves()
	sh.mu.Unlock()
	if moves != nil {
		e.finishMoves(now, moves)
	}
}

// fetch is Fetch on a queue without expired items at its head. The caller holds the shard's mutex.
func (e *Engine) fetch(q *queue, now Time, f FetchRequest, r Receiver) (Fetched, error) {
	if e.closed.Load() {
		return Fetched{}, ErrClosed
	}
	if f.Access != Peek {
		if err := q.admitDequeue(f.ClientID); err != nil {
			return Fetched{}, err
		}
	}
	it, ok := q.first()
	if !ok || q.sweeping {
		return e.miss(q, f)
	}
	if !r.Receive(it) {
		return Fetched{}, ErrNotTaken
	}
	if f.Access == Take {
		return Fetched{Ticket: e.takeFirst(q, it, now), size: len(it.Data)}, nil
	}
	q.counters.hits++
	if f.Access == Peek {
		return Fetched{}, nil
	}
	if f.Access == OpenRead {
		q.counters.opens++
	}
	read := e.openFirst(q, now, it)
	read.held = f.Access == Hold
	return Fetched{Read: ReadRef{read, read.id}}, nil
}

// miss is fetch on a queue that has no item at hand.
func (e *Engine) miss(q *queue, f FetchRequest) (Fetched, error) {
	err, coming := ErrEmpty, q.coming() || q.sweeping
	switch {
	case q.sweeping:
		err = ErrComing
	case coming && q.backlog.failed != nil:
		return Fetched{}, q.backlog.failed
	case coming:
		err = ErrComing
		e.wantFill(q)
	default:
		q.counters.misses++
	}
	w := f.Waiter
	if w == nil || f.Immediate && !coming {
		return Fetched{}, err
	}
	w.shard, w.q, w.Read, w.Err = q.shard, q, ReadRef{}, nil
	w.Access, w.immediate, w.ClientID = f.Access, f.Immediate, f.ClientID
	q.waiters.pushBack(w)
	return Fetched{Waiting: true}, err
}

// openFirst moves the item to hand out next, which is it, to the open reads.
func (e *Engine) openFirst(q *queue, now Time, it Item) *read {
	sh := q.shard
	r := q.returned.head
	if r != nil {
		q.returned.remove(r)
		sh.lastRead++
		r.id = sh.lastRead
	} else {
		r = sh.newRead(q, it, q.segmentOf(it.ID))
		q.window.Pop(&sh.pool, it)
		if q.backlog != nil {
			e.popped(q)
		}
	}
	q.handOut(r.item, now)
	q.lastGone = r.item.Added
	r.opened = now
	r.to(readOpen)
	q.open.pushBack(r)
	if q.opts.OpenReadTimeout > 0 {
		sh.timed[q] = struct{}{}
	}
	if q.opts.Trace {
		e.trace("open", r)
	}
	return r
}

// serve hands items to waiters while there are both (I4). The caller holds the shard's mutex.
func (e *Engine) serve(q *queue, now Time) {
	for q.waiters.head != nil && !q.sweeping {
		if !e.swept(q, now) {
			e.sweepLater(q)
			return
		}
		it, ok := q.first()
		if !ok {
			if !q.coming() {
				q.endImmediate()
			}
			return
		}
		w := q.waiters.head
		q.counters.hits++
		var r *read
		if w.Access == Peek {
			r = q.shard.newRead(q, it, 0)
			r.to(readCopied)
		} else {
			if w.Access == OpenRead {
				q.counters.opens++
			}
			r = e.openFirst(q, now, it)
			r.held = w.Access == Hold
		}
		q.endWait(w, ReadRef{r, r.id})
	}
}

// CancelWait takes w out of its line. It reports false if the wait has already ended: w.Notify was
// told, or is being told.
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
	w.q.waiters.remove(w)
	w.q = nil
	return true
}

// Collect completes a wait whose Read is ref: it hands the item to r and, by the access the wait
// was for, removes it for good, leaves it open, or forgets the copy. It reports false if the read
// has ended by itself, or r did not take the item, which is then back at the head.
func (e *Engine) Collect(now Time, ref ReadRef, access Access, r Receiver) (Ticket, bool) {
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
	if !r.Receive(ref.r.item) {
		sh.mu.Unlock()
		e.Abort(now, ref)
		return Ticket{}, false
	}
	defer sh.mu.Unlock()
	if access.Holds() {
		return Ticket{}, true
	}
	return e.end(ref.r, now), true
}

// Confirm ends an open read: its item is gone for good, once Commit of the ticket has returned nil.
// It reports false, and nothing is to be committed, if the read has ended by itself.
func (e *Engine) Confirm(now Time, ref ReadRef) (Ticket, bool) {
	defer contain()
	if ref.IsZero() {
		return Ticket{}, false
	}
	sh := ref.r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !ref.live() {
		return Ticket{}, false
	}
	if ref.r.q.opts.Trace {
		e.trace("confirm", ref.r)
	}
	return e.end(ref.r, now), true
}

// ConfirmAll ends open reads of one queue: their items are gone for good, once Commit of the ticket
// has returned nil. Reads that have ended by themselves are passed over.
func (e *Engine) ConfirmAll(now Time, refs []ReadRef) (t Ticket) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return t
	}
	sh := refs[0].r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, ref := range refs {
		if !ref.live() {
			continue
		}
		if ref.r.q.opts.Trace {
			e.trace("confirm", ref.r)
		}
		t = t.Merge(e.end(ref.r, now))
	}
	return t
}

// Keep leaves reads that were fetched with Hold open, in the order given: from now on they count
// among the opened reads, and the queue's open-read timeout is for them too. They are of one queue.
// Reads that have ended by themselves are passed over.
func (e *Engine) Keep(now Time, refs []ReadRef) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return
	}
	sh := refs[0].r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, ref := range refs {
		if !ref.live() {
			continue
		}
		r, q := ref.r, ref.r.q
		r.held, r.opened = false, now
		q.open.remove(r) // the list is in the order of opened
		q.open.pushBack(r)
		q.counters.opens++
	}
}

// end removes the item of an open read for good, or forgets a copied one.
func (e *Engine) end(r *read, now Time) Ticket {
	var t Ticket
	if r.state == readOpen {
		r.q.open.remove(r)
		t = r.q.remove(e.journal, r.item.ID)
	}
	r.shard.freeRead(r)
	return t
}

// Abort ends an open read by bringing its item back to the head of the queue, or to the first in
// line. It reports false if the read has ended by itself.
func (e *Engine) Abort(now Time, ref ReadRef) bool { return e.AbortAll(now, []ReadRef{ref}) == 1 }

// AbortAll ends open reads of one queue, given in the order in which they were opened, by bringing
// their items back in that order: the oldest comes to the head, or to the first in line. It returns
// how many there were that had not ended by themselves.
func (e *Engine) AbortAll(now Time, refs []ReadRef) (ended int) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return 0
	}
	sh := refs[0].r.shard
	sh.mu.Lock()
	var q *queue
	for _, ref := range slices.Backward(refs) {
		if ref.live() {
			q = ref.r.q
			e.giveBack(ref.r)
			ended++
		}
	}
	if q != nil {
		e.serve(q, now)
	}
	moves := sh.takeMoves()
	sh.mu.Unlock()
	if moves != nil {
		e.finishMoves(now, moves)
	}
	return ended
}

// giveBack brings the item of an open read back to the head of its queue. The caller holds the
// shard's mutex, and serves the queue's waiters afterwards.
func (e *Engine) giveBack(r *read) {
	q := r.q
	if r.state == readCopied {
		q.shard.freeRead(r)
		return
	}
	if q.opts.Trace {
		e.trace("abort", r)
	}
	q.open.remove(r)
	r.to(readReturned)
	q.returned.pushFront(r)
	q.counters.returns++
	// The identity ends here: a ref that somebody still has must not reach the next opening.
	q.shard.lastRead++
	r.id = q.shard.lastRead
}
