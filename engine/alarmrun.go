package engine

import (
	"time"
)

// wakeQueues moves what is due in any queue, a batch of one after a batch of another, until nothing is,
// and returns how long that will be so.
func (e *Engine) wakeQueues() time.Duration {
	for {
		q, wait := e.alarm.take(e.steady())
		if q == nil {
			return wait
		}
		now := e.spool.now()
		q.shard.mu.Lock()
		q.aside.at = 0
		if !q.deleted {
			if e.wake(q, now); q.aside.at == 0 {
				if at := q.nextDue(); at != 0 { // what else is due must not come before other queues
					e.ring(q, max(at, e.steady()-1))
				}
			}
		}
		e.unlock(q.shard, now)
	}
}

// runAlarm is the goroutine of the alarm.
func (e *Engine) runAlarm() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-e.alarm.sooner:
		case <-timer.C:
		}
		wait := e.wakeQueues()
		e.writeLeftOver()
		timer.Reset(wait)
	}
}
