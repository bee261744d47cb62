package engine

import (
	"cmp"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/internal/list"
)

// This file has fetches that wait, and what ends their waits.

// Access says what a fetch does with the item.
type Access uint8

const (
	// Take removes the item for good.
	Take Access = iota
	// OpenRead removes it tentatively, until it is confirmed or aborted.
	OpenRead
	// Peek looks at it and leaves it where it is.
	Peek
	// Lease removes it tentatively, for a time. Its receipt confirms it, or gives it back, from any connection.
	Lease
	// Hold is OpenRead for an item that is collected with others, to be taken for good, or passed to LeaseReads, a
	// moment later. It does not count among the opened reads, and no timeout ends it.
	Hold
)

// Holds reports whether the client that fetched the item holds it, to confirm or abort it.
func (a Access) Holds() bool { return a == OpenRead || a == Hold }

// Waiter is a fetch that waits for an item. Its owner embeds one for as long as it likes, fills in Notify, and hands
// it to Fetch. Until the wait ends the owner must leave it alone.
type Waiter struct {
	Access   Access // this and ClientID are those of the FetchRequest
	ClientID string
	// Notify hears, once, that the wait has ended by itself; not if CancelWait ended it.
	Notify Notifier

	// Read, once Notify has heard, names the item: an open read, also for Take and Peek, that the owner passes to
	// Collect, Confirm, or Abort. If it is zero, Err says why: ErrDeleted, ErrClosed, ErrEmpty after an immediate
	// request, a *NotAdmittedError after a Reload, or an error that wraps ErrBacklog.
	Read ReadRef
	Err  error

	// The shard is set before the waiter is queued; the rest is guarded by its mutex.
	shard     *shard
	q         *queue // nil unless waiting
	immediate bool
	watching  bool // it is among the watchers
	link      list.Link[Waiter]
	short     list.Link[Waiter] // among the immediate ones
	any       *AnyWait          // that it is a part of; nil if it waits for one queue
}

// AnyWait is a wait for an item of any of several queues: a Waiter at each. The first queue that has an item wins it,
// and so the item is the only one. The zero AnyWait waits for nothing. Its owner keeps it for as long as it likes and
// uses it again; until a wait ends it must leave it alone.
//
// What follows holds while it waits:
//
//	A  A goroutine wins it before it takes an item for it, with the shard of the queue locked.
//	B  left counts its waiters at queues that have not been turned away, and FetchAny while that runs.
//	   Taking the last of them out ends the wait.
type AnyWait struct {
	// Notify hears, once, that the wait has ended by itself; not if CancelAny ended it.
	Notify Notifier

	waiters []Waiter
	won     atomic.Bool
	left    atomic.Int32
	ended   *Waiter // who won it, when Notify has heard
}

// win reports whether the wait is w's to end, or, if that is nil, the owner's.
func (a *AnyWait) win(w *Waiter) bool {
	if !a.won.CompareAndSwap(false, true) {
		return false
	}
	a.ended = w
	return true
}

// leftBy reports whether w, which has left its queue without an item, was the last, so that the wait is over.
func (a *AnyWait) leftBy(w *Waiter) bool { return a.left.Add(-1) == 0 && a.win(w) }

// begin makes a wait for n queues, at none of them yet.
func (a *AnyWait) begin(n int) {
	if cap(a.waiters) < n {
		a.waiters = make([]Waiter, n)
	}
	a.waiters = a.waiters[:n]
	for i := range a.waiters {
		a.waiters[i] = Waiter{Notify: a.Notify, any: a}
	}
	a.ended = nil
	a.left.Store(1)
	a.won.Store(false)
}

// Notifier hears that a wait has ended. WaitEnded is called with a shard of the engine locked, by whatever goroutine
// ended the wait. So it hands the news to the waiter's owner and returns, and calls nothing of the engine.
type Notifier interface{ WaitEnded(*Waiter) }

// waiterList is a FIFO of waiters.
type waiterList struct {
	list.List[Waiter]
	immediate *list.List[Waiter] // of them, those that wait for items that are on their way only; nil until there are some
}

func (l *waiterList) pushBack(w *Waiter) {
	l.PushBack(&w.link, w)
	if w.immediate {
		if l.immediate == nil {
			l.immediate = new(list.List[Waiter])
		}
		l.immediate.PushBack(&w.short, w)
	}
}

func (l *waiterList) remove(w *Waiter) {
	l.Remove(&w.link)
	if w.immediate {
		l.immediate.Remove(&w.short)
	}
}

// Watch has w hear, once, when an item of the queue called name may have become visible. It does when it is put,
// delayed or not, when its delay is over, when it is changed, and when it comes back. Watch makes the queue if it
// does not exist. The wait ends with neither an item nor an error then; or with an error, as that of a fetch does.
// CancelWait ends it as well. Watchers take nothing, and hear of items that the queue's waiters get: a watcher looks
// for itself what is there.
//
// Watch returns ErrBadName, ErrTooManyQueues, ErrOutOfMemory, ErrClosed or an error of a withheld queue.
func (e *Engine) Watch(now Time, name []byte, w *Waiter) error {
	defer contain()
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q, _, err := e.findOrCreate(sh, now, name)
	if err != nil {
		return err
	}
	w.Access, w.ClientID, w.Read, w.Err = Peek, "", ReadRef{}, nil
	w.shard, w.q, w.immediate, w.watching = sh, q, false, true
	q.watchers.PushBack(&w.link, w)
	return nil
}

// attended reports whether anybody is to hear of items that become visible.
func (q *queue) attended() bool { return q.waiters.First() != nil || q.watchers.First() != nil }

// endWait takes w from its queue's waiters and notifies its owner.
func (q *queue) endWait(w *Waiter, ref ReadRef, err error) {
	q.takeOut(w)
	w.Read, w.Err = ref, err
	if w.any != nil && ref.IsZero() && !w.any.leftBy(w) {
		return // the others still wait
	}
	w.Notify.WaitEnded(w)
}

// takeOut takes w from the waiters, or from the watchers.
func (q *queue) takeOut(w *Waiter) {
	if w.watching {
		q.watchers.Remove(&w.link)
	} else {
		if q.asked == w {
			q.asked = w.link.Next()
		}
		q.waiters.remove(w)
	}
	w.q, w.watching = nil, false
}

// endFirst ends one of the waits with nothing, because of err, and reports whether there was one.
func (q *queue) endFirst(err error) bool {
	w := cmp.Or(q.waiters.First(), q.watchers.First())
	if w == nil {
		return false
	}
	q.endWait(w, ReadRef{}, err)
	return true
}

// endRefused looks at the next serveBatch waits from q.asked on, and ends those of clients that the queue's options do not
// admit. It reports whether there are more.
func (q *queue) endRefused() (more bool) {
	for n := 0; n < serveBatch && q.asked != nil; n++ {
		w := q.asked
		q.asked = w.link.Next()
		q.refuses(w)
	}
	return q.asked != nil
}

// refuses ends the wait of w if the queue's options do not admit its client, and reports whether they do not.
func (q *queue) refuses(w *Waiter) bool {
	err := q.admitConsumer(w.ClientID)
	if err == nil || w.Access == Peek {
		return false
	}
	q.endWait(w, ReadRef{}, err)
	return true
}

// endImmediate ends up to n of the waits for items that were on their way and did not come, and reports whether there are
// more.
func (q *queue) endImmediate(n int) (more bool) {
	l := q.waiters.immediate
	for ; l != nil && l.Len() > 0 && n > 0; n-- {
		w := l.First()
		q.counters.misses++
		q.endWait(w, ReadRef{}, ErrEmpty)
	}
	return l != nil && l.Len() > 0
}

// failure is why the next item cannot come from the backlog; nil if it can, or is at hand.
func (q *queue) failure() error {
	if b := q.backlog; b == nil || b.failed == nil || !q.coming() || q.atHand() {
		return nil
	}
	return q.backlog.failed
}

// openFirst moves the item to hand out next, which is it, to the open reads.
func (e *Engine) openFirst(q *queue, now Time, it *Item, access Access) *read {
	sh := q.shard
	r := e.takeNext(q, it)
	if r.state == readReturned {
		sh.lastRead++
		r.id = sh.lastRead
	}
	if r.count > 0 {
		q.counters.redelivered++
	}
	q.handOut(&r.item, now)
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

// serveBatch is how many waits serveWaiters ends at most. Then the background goes on, and fetches wait.
const serveBatch = 512

// serveWaiters has watchers hear that items may be there, and hands them to waiters while there are both (I4). The
// caller holds the shard's mutex.
func (e *Engine) serveWaiters(q *queue, now Time) {
	q.hearing, q.heard = q.watchers.Len(), nil
	e.serveMore(q, now)
}

// serveMore is what of serveWaiters is left. A watcher that watches again meanwhile has looked, and hears nothing.
func (e *Engine) serveMore(q *queue, now Time) {
	left := serveBatch
	for ; left > 0 && q.hearing > 0 && q.watchers.First() != nil; left-- {
		q.hearing--
		w := q.watchers.First()
		q.endWait(w, ReadRef{}, q.heard)
	}
	var shown *read
	for q.waiters.First() != nil && !q.headBusy() {
		if left--; left < 0 || q.mayExpire() && !e.swept(q, now) {
			e.sweepLater(q)
			return
		}
		var it Item
		ok, w := q.first(&it), q.waiters.First()
		if !ok {
			if err := q.failure(); err != nil {
				q.endWait(w, ReadRef{}, err)
				continue
			}
			if !q.coming() && !e.hiddenComing(q) && q.endImmediate(left) {
				e.sweepLater(q)
			}
			return
		}
		if q.opts.DequeueClientID != "" && q.refuses(w) { // Reload has not come to it yet
			continue
		}
		if w.any != nil && !w.any.win(w) { // another queue has served it
			q.takeOut(w)
			continue
		}
		q.counters.hits++
		var r *read
		if w.Access == Peek {
			shown = q.shard.show(q, &it, shown)
			r = shown
		} else {
			r = e.openFirst(q, now, &it, w.Access)
		}
		q.endWait(w, ReadRef{r, r.id}, nil)
	}
	if q.hearing > 0 && q.watchers.First() != nil {
		e.sweepLater(q)
	}
}
