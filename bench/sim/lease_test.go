package main

import (
	"testing"
	"time"
)

// TestLeaseConfirmedTwice confirms an item by two receipts at once. The first is refused; nobody knows what came of
// the second, so the item may be gone.
func TestLeaseConfirmedTwice(t *testing.T) {
	l, data, later := ledgerOfOne()
	tick := func() { later(time.Millisecond) }
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
