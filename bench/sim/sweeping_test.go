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
	deleting := l.flushing("q", true)
	tick()
	n, data := l.putting("q", 50, 0, 0)
	f := l.fetch("q", time.Second)
	tick()
	l.putEnded(n, confirmed)
	l.flushed(deleting, true)
	tick()
	l.leased(&asker{}, f, handed{data: data, id: uint64(7)}, time.Second, true)
	tick()
	x := l.ending(l.pickLease(0), endExtend, time.Second)
	l.leaseEnded(x, errNone)
	if len(l.problems) > 0 {
		t.Errorf("broken laws: %v, want none", l.problems)
	}
}
