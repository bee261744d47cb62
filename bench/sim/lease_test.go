package main

import (
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// TestLeaseConfirmedTwice confirms an item by two receipts at once. The first is refused; nobody knows what came of
// the second, so the item may be gone.
func TestLeaseConfirmedTwice(t *testing.T) {
	now := epoch.Add(time.Hour)
	l := newLedger(engine.Settings{Default: engine.DefaultQueueOptions()})
	l.now = func() time.Time { return now }
	tick := func() { now = now.Add(time.Millisecond) }
	n, data := l.putting("q", 50, 0, 0)
	tick()
	l.putEnded(n, confirmed)
	lease := func(receipt uint64) {
		tick()
		f := l.fetch("q", time.Second)
		l.leased(&asker{}, f, handed{data: data, id: receipt}, time.Second, false)
		l.ended(f, nil)
	}
	lease(7)
	first := l.ending(l.pickLease(0), endConfirm, 0)
	lease(8)
	second := l.ending(l.pickLease(0), endConfirm, 0)
	tick()
	l.leaseEnded(first, errNone)
	e := first.lease.entry
	if e.state != leaving {
		t.Errorf("with a confirm under way the item is in state %d, want leaving", e.state)
	}
	l.leaseEnded(second, errUnsure)
	if e.state != maybe {
		t.Errorf("after a confirm without an answer the item is in state %d, want maybe", e.state)
	}
}
