package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/nap"
	"github.com/kestrelmq/kestrel/engine/internal/queuename"
)

// ReturnKind says why an item comes back.
type ReturnKind uint8

const (
	// Lost items come back because their connection, or their lease, has ended: that counts as a delivery.
	Lost ReturnKind = iota
	// Abort gives an item back after a delivery that counts.
	Abort
	// Release gives an item back as if it had not been delivered.
	Release
	// Reject sends an item to the dead-letter queue.
	Reject
)

// Return says how an item comes back.
type Return struct {
	How ReturnKind
	// Delay hides the item for so long. Delayed says that it was asked for, also if it is zero; otherwise
	// an Abort has the delay that QueueOptions.RedeliveryDelay says.
	Delay   time.Duration
	Delayed bool
}

// delayAfter is for how long an item is hidden that comes back after count deliveries that count.
func (q *queue) delayAfter(how Return, count uint16) time.Duration {
	if how.Delayed || how.How != Abort {
		return how.Delay
	}
	return q.opts.RedeliveryDelay.after(max(int(count), 1))
}

// counted returns the count of an item that comes back.
func (how Return) counted(count uint16) uint16 {
	if how.How == Release || count == aside.MaxCount {
		return count
	}
	return count + 1
}

// isExhausted reports whether an item that comes back belongs into the dead-letter queue.
func (q *queue) isExhausted(how Return, count uint16) bool {
	most := q.opts.MaxDeliveries
	exhausted := how.How != Release && most > 0 && int64(count) >= most
	return (exhausted || how.How == Reject) && q.deadLetters() != ""
}

// deadLetters is the name of the queue that takes what this one gives up; "" if there is none.
func (q *queue) deadLetters() string {
	if q.opts.DeadLetterQueue != "" {
		if q.opts.DeadLetterQueue == q.name {
			return ""
		}
		return q.opts.DeadLetterQueue
	}
	return queuename.DeadLetters(q.name)
}

// returnLeased ends a lease. The caller holds the shard's mutex, serves the waiters, and ends with unlock.
func (e *Engine) returnLeased(q *queue, r aside.Ref, how Return) Ticket {
	entry := q.aside.Get(r)
	entry.Count = how.counted(entry.Count)
	q.counters.returns++
	if q.isExhausted(how, entry.Count) {
		dead := q.takeAside(r)
		dead.count = entry.Count
		e.bury(q, dead, how)
		return Ticket{}
	}
	entry.State, entry.Due = aside.Ready, 0
	if how.How != Lost {
		entry.Token = 0 // that of a lease that lapses confirms the item until somebody takes it
	}
	if d := q.delayAfter(how, entry.Count); d > 0 {
		entry.State, entry.Due = aside.Delayed, e.precise.In(d)
	}
	e.changeAside(q, r, entry)
	return e.sayAside(q, r)
}

// bury sends the item of a read, which is in no list, to the dead-letter queue. The caller finishes the moves.
func (e *Engine) bury(q *queue, r *read, how Return) {
	q.leaves(&r.item)
	r.to(readMoving)
	r.target, r.dead = q.deadLetters(), TooOften
	if how.How == Reject {
		r.dead = Rejected
	}
	if d := q.delayAfter(how, r.count); d > 0 {
		r.again = e.precise.In(d)
	}
	q.moving.pushBack(r)
	q.pickUpMoves()
}

// returnDead gives an item back that its dead-letter queue cannot take, with the deliveries that it had. It goes to the
// head, to its place if that is further back, or aside if it is delayed. The caller holds the shard's mutex.
func (e *Engine) returnDead(q *queue, r *read, now Time) {
	r.target, r.dead = "", 0
	q.shard.lastRead++
	r.id = q.shard.lastRead // nobody waits any more for it to arrive
	if key := r.item.Key(); key != nil {
		if _, taken := q.ofKey(key, now); !taken {
			q.noteKey(&r.item)
		}
	}
	switch again := r.again; {
	case again > e.precise.Now():
		ref := e.setAside(q, &r.item, r.pinned, aside.Entry{State: aside.Delayed, Due: again, Count: r.count})
		e.hideMany(q)
		q.shard.freeRead(r)
		e.sayAside(q, ref)
	case r.item.ID < q.headID():
		r.again = 0
		if !q.opts.KeepJournal || q.entering {
			r.lieIn(0) // letGo may have passed what came back before
		}
		r.to(readReturned)
		q.returned.pushFront(r)
		e.sayCount(q, r)
	default: // it was leased before a start, with items in front of it
		ref := e.setAside(q, &r.item, r.pinned, aside.Entry{State: aside.Ready, Count: r.count})
		q.shard.freeRead(r)
		e.sayAside(q, ref)
	}
	e.serveWaiters(q, now)
}

// giveBack brings the item of an open read back: to the head of its queue, aside if it is delayed, or to the
// dead-letter queue. The caller holds the shard's mutex, serves the queue's waiters afterwards, and ends with unlock.
func (e *Engine) giveBack(r *read, how Return) (t Ticket) {
	q := r.q
	if r.state == readCopied {
		q.shard.freeRead(r)
		return t
	}
	if q.opts.Trace {
		e.trace("abort", r)
	}
	q.unhold(r)
	q.open.remove(r)
	q.counters.returns++
	if r.held && how.How == Lost {
		how.How = Release // it was never delivered
	}
	before := r.count
	r.count = how.counted(before)
	// The identity ends here: a ref that somebody still has must not reach the next opening.
	q.shard.lastRead++
	r.id = q.shard.lastRead
	if q.isExhausted(how, r.count) {
		e.bury(q, r, how)
		return t
	}
	if d := q.delayAfter(how, r.count); d > 0 {
		ref := e.setAside(q, &r.item, r.pinned, aside.Entry{State: aside.Delayed, Due: e.precise.In(d), Count: r.count})
		e.hideMany(q)
		q.shard.freeRead(r)
		return e.sayAside(q, ref)
	}
	r.to(readReturned)
	q.returned.pushFront(r)
	if r.count != before && (q.opts.MaxDeliveries > 0 || r.changed) {
		t = e.sayCount(q, r)
	}
	return t
}

// wakeBatch is how many queues are woken before others may have the processor.
const wakeBatch = 64

// dueBatch is how many items that are due are moved at most before the shard is unlocked.
const dueBatch = 128

// wake moves items of q that are due, up to dueBatch: what was delayed is ready, and leases lapse. It reports whether
// there are more. The caller holds the shard's mutex, and releases it by unlock; the waiters are served here.
func (e *Engine) wake(q *queue, now Time) (more bool) {
	s, at, n := q.aside, e.precise.Now(), 0
	if s.hidden.Disk().Count > 0 {
		e.readSoon(q)
	}
	for ; n < dueBatch; n++ {
		r, due, ok := s.FirstDue()
		if !ok || due >= at {
			break
		}
		entry := s.Get(r)
		if entry.State == aside.Leased {
			e.returnLeased(q, r, Return{How: Lost})
			continue
		}
		entry.State, entry.Due = aside.Ready, 0
		e.changeAside(q, r, entry)
	}
	for ; n < dueBatch; n++ {
		r, lapses := s.held.First()
		if r == nil || Time(lapses) >= at {
			break
		}
		e.giveBack(r, Return{How: Lost})
	}
	if n > 0 {
		e.serveWaiters(q, now)
	}
	return n == dueBatch
}

// wakeUp is wake for an operation that begins, of which most are on queues without anything aside.
func (e *Engine) wakeUp(q *queue, now Time) {
	if q.aside != nil {
		e.wake(q, now)
	}
}

// wakeQueues moves what is due in any queue, a batch of one after a batch of another, until nothing is. It returns for
// how long nothing will be. Now and then it lets others have the processor.
func (e *Engine) wakeQueues() time.Duration {
	for passed := 1; ; passed++ {
		if passed%wakeBatch == 0 {
			e.opts.yield()
		}
		at, part := e.precise()
		q, wait := e.alarm.Take(at)
		if q == nil {
			return wait - part
		}
		now := e.spool.now()
		q.shard.mu.Lock()
		q.aside.at = 0
		if !q.deleted {
			if e.wake(q, now); q.aside.at == 0 {
				if at := e.nextDue(q); at != 0 { // what else is due must not come before other queues
					e.setAlarmAt(q, max(at, e.precise.Now()-1))
				}
			}
		}
		e.unlock(q.shard, now)
	}
}

// runAlarm is the goroutine of the alarm. It sleeps the last part of a millisecond by a clock that is more precise than
// timers: nothing becomes due before that is over.
func (e *Engine) runAlarm() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var napper nap.Napper
	defer napper.Close()
	if e.opts.FS != nil {
		napper.Close() // a simulation has a clock of its own
	}
	for {
		select {
		case <-e.stop:
			return
		case <-e.alarm.Sooner():
		case <-timer.C:
		}
		wait := e.ringAlarm()
		for wait <= nap.Longest && !e.closed.Load() && napper.Nap(wait) {
			wait = e.ringAlarm()
		}
		if wait > nap.Longest && napper.Works() {
			wait -= nap.Longest
		}
		timer.Reset(wait)
	}
}

// ringAlarm moves what is due in any queue, and writes what the journal is to say of that. It returns for how long nothing
// will be due.
func (e *Engine) ringAlarm() time.Duration {
	wait := e.wakeQueues()
	began := time.Now()
	e.writeLeftOver()
	return wait - time.Since(began)
}
