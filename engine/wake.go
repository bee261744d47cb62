package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// dueBatch is how many items that are due are moved at most before the shard is unlocked.
const dueBatch = 128

// wake moves items of q that are due, up to dueBatch: what was delayed is ready, and leases lapse. It
// reports whether there are more. The caller holds the shard's mutex, and finishes the moves; those who
// wait are served here.
func (e *Engine) wake(q *queue, now Time) (more bool) {
	s, at, n := q.aside, e.steady(), 0
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
		r := s.held.first()
		if r == nil || r.deadline >= at {
			break
		}
		e.giveBack(r, Return{How: Lost})
	}
	if n > 0 && q.waiters.First() != nil {
		e.serve(q, now)
	}
	return n == dueBatch
}

// wakeUp is wake for an operation that begins, of which most are on queues without anything aside.
func (e *Engine) wakeUp(q *queue, now Time) {
	if q.aside != nil {
		e.wake(q, now)
	}
}
