package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/nap"
)

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
	if n > 0 && q.attended() {
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
// how long nothing will be.
func (e *Engine) wakeQueues() time.Duration {
	for {
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
