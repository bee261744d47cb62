package engine

import "github.com/kestrelmq/kestrel/engine/internal/list"

// Access says what a fetch does with the item.
type Access uint8

const (
	// Take removes the item for good.
	Take Access = iota
	// OpenRead removes it tentatively, until it is confirmed or aborted.
	OpenRead
	// Peek looks at it and leaves it where it is.
	Peek
	// Lease removes it tentatively, for a time, and gives a receipt that confirms it, or gives it back,
	// from any connection.
	Lease
	// Hold is OpenRead for an item that is collected with others, to be taken for good, or passed
	// to Keep, a moment later: it does not count among the opened reads, and no timeout ends it.
	Hold
)

// Holds reports whether the item stays with whoever fetched it, to be confirmed or aborted.
func (a Access) Holds() bool { return a == OpenRead || a == Hold }

// Waiter is a fetch that waits for an item. Its owner embeds one for as long as it likes, fills in
// Notify, and hands it to Fetch; until the wait ends it must leave it alone.
type Waiter struct {
	Access   Access // this and ClientID are those of the FetchRequest
	ClientID string
	// Notify hears, once, that the wait has ended by itself; not if CancelWait ended it.
	Notify Notifier

	// Read, once Notify has heard, names the item: an open read, also for Take and Peek, that the
	// owner passes to Collect, Confirm, or Abort. If it is zero, Err says why: ErrDeleted,
	// ErrClosed, ErrEmpty after an immediate request, a *NotAdmittedError after a Reload, or an
	// error that wraps ErrBacklog.
	Read ReadRef
	Err  error

	// The shard is set before the waiter is queued; the rest is guarded by its mutex.
	shard     *shard
	q         *queue // nil unless waiting
	immediate bool
	link      list.Link[Waiter]
}

// Notifier hears that a wait has ended. WaitEnded is called with a shard of the engine locked, by
// whatever goroutine ended the wait: it hands the news to the waiter's owner and returns, and calls
// nothing of the engine.
type Notifier interface{ WaitEnded(*Waiter) }

// waiterList is a FIFO of waiters.
type waiterList struct {
	list.List[Waiter]
	immediate int // how many wait for items that are on their way only
}

func (l *waiterList) pushBack(w *Waiter) {
	l.PushBack(&w.link, w)
	if w.immediate {
		l.immediate++
	}
}

func (l *waiterList) remove(w *Waiter) {
	l.Remove(&w.link)
	if w.immediate {
		l.immediate--
	}
}

// endWait takes w out of its queue's line and notifies its owner.
func (q *queue) endWait(w *Waiter, ref ReadRef) {
	q.waiters.remove(w)
	w.q, w.Read = nil, ref
	w.Notify.WaitEnded(w)
}

// endWaits ends every wait with nothing, because of err.
func (q *queue) endWaits(err error) {
	for q.waiters.First() != nil {
		q.waiters.First().Err = err
		q.endWait(q.waiters.First(), ReadRef{})
	}
}

// endRefused ends the waits of clients that the queue's options do not admit.
func (q *queue) endRefused() {
	for w := q.waiters.First(); w != nil; {
		next := w.link.Next()
		if err := q.admitDequeue(w.ClientID); err != nil && w.Access != Peek {
			w.Err = err
			q.endWait(w, ReadRef{})
		}
		w = next
	}
}

// endImmediate ends the waits of those who wait for items that were on their way and did not come.
func (q *queue) endImmediate() {
	for w := q.waiters.First(); w != nil && q.waiters.immediate > 0; {
		next := w.link.Next()
		if w.immediate {
			q.counters.misses++
			w.Err = ErrEmpty
			q.endWait(w, ReadRef{})
		}
		w = next
	}
}

// openFirst moves the item to hand out next, which is it, to the open reads.
func (e *Engine) openFirst(q *queue, now Time, it Item, access Access) *read {
	sh := q.shard
	r := e.takeNext(q, it)
	if r.state == readReturned {
		sh.lastRead++
		r.id = sh.lastRead
	}
	if r.count > 0 {
		q.counters.redelivered++
	}
	q.handOut(r.item, now)
	q.lastGone = r.item.Added
	r.opened, r.held = now, access == Hold
	if access == OpenRead {
		q.counters.opens++
	}
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
	for q.waiters.First() != nil && !q.unsettled() {
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
		w := q.waiters.First()
		q.counters.hits++
		var r *read
		if w.Access == Peek {
			r = q.shard.newRead(q, it, 0)
			r.to(readCopied)
		} else {
			r = e.openFirst(q, now, it, w.Access)
		}
		q.endWait(w, ReadRef{r, r.id})
	}
}
