package main

import (
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// TestLeaseBesideDelete leases an item that was put while its queue is deleted. The reply to the lease comes behind
// that to the delete, so the receipt may be refused.
func TestLeaseBesideDelete(t *testing.T) {
	now := epoch.Add(time.Hour)
	l := newLedger(engine.Settings{Default: engine.DefaultQueueOptions()})
	l.now = func() time.Time { return now }
	tick := func() { now = now.Add(time.Millisecond) }
	deleting := l.beginClearing("q", true)
	tick()
	n, data := l.putting("q", 50, 0, 0)
	f := l.fetch("q", time.Second)
	tick()
	l.putEnded(n, confirmed)
	l.endClearing(deleting, true)
	tick()
	l.leased(&asker{}, f, handed{data: data, id: uint64(7)}, time.Second, true)
	tick()
	x := l.ending(l.pickLease(0), endExtend, time.Second)
	l.leaseEnded(x, errNone)
	if len(l.problems) > 0 {
		t.Errorf("broken laws: %v, want none", l.problems)
	}
}

// TestFlushOfLapsedLease flushes a queue whose item expired while a lease of the process before held it. The lease has
// lapsed, so the item is aside, and a flush may remove it there: it need not go where expired items go.
func TestFlushOfLapsedLease(t *testing.T) {
	now := epoch.Add(time.Hour)
	options := engine.DefaultQueueOptions()
	options.MaxAge, options.ExpireTo = time.Second, "dead"
	l := newLedger(engine.Settings{Default: options})
	l.now = func() time.Time { return now }
	tick := func() { now = now.Add(10 * time.Millisecond) }
	n, data := l.putting("q", 50, 0, 0)
	tick()
	l.putEnded(n, confirmed)
	tick()
	f := l.fetch("q", 2*time.Second)
	tick()
	l.leased(&asker{}, f, handed{data: data, id: uint64(7)}, 2*time.Second, true)
	l.ended(f, nil)
	e := l.items[n].in[0]
	e.touched = time.Time{} // another process knows nothing of it
	now = now.Add(time.Minute)
	l.endClearing(l.beginClearing("q", false), true)
	if e.moving || e.state != maybe {
		t.Errorf("the item is on its way to another queue: %t, in state %d, want false, and %d", e.moving, e.state, maybe)
	}
	e.state, e.lease, e.hidden = here, nil, now.Add(time.Second) // that process gave it back with a delay
	l.endClearing(l.beginClearing("q", false), true)
	if e.moving || e.state != maybe {
		t.Errorf("a delayed item is on its way to another queue: %t, in state %d, want false, and %d", e.moving, e.state, maybe)
	}
	e.state, e.hidden, e.blurred = here, time.Time{}, now.Add(time.Second) // and a power cut may have left that
	l.endClearing(l.beginClearing("q", false), true)
	if e.moving || e.state != maybe {
		t.Errorf("an item that may be delayed is on its way to another queue: %t, in state %d", e.moving, e.state)
	}
}
