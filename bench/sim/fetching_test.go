package main

import (
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// ledgerOfOne returns a ledger of one item in queue q, and the data of that. later has the ledger's time pass.
func ledgerOfOne() (l *ledger, data []byte, later func(time.Duration)) {
	now := epoch.Add(time.Hour)
	l = newLedger(engine.Settings{Default: engine.DefaultQueueOptions()})
	l.now = func() time.Time { return now }
	later = func(d time.Duration) { now = now.Add(d) }
	n, data := l.putting("q", 50, 0, 0)
	later(time.Millisecond)
	l.putEnded(n, confirmed)
	return l, data, later
}

// TestOpenBesideTake opens an item that comes back at once, as when the server stops, and is taken for good by
// somebody else. The reply to the open read comes last; the item is gone all the same.
func TestOpenBesideTake(t *testing.T) {
	l, data, later := ledgerOfOne()
	tick := func() { later(time.Millisecond) }
	tick()
	take, open := l.fetch("q", 0), l.fetch("q", 0)
	tick()
	e := l.handedOut(&asker{}, take, handed{data: data}, forGood)
	l.handedOut(&asker{}, open, handed{data: data}, opened)
	if e.state != gone || len(l.problems) > 0 {
		t.Errorf("the item is in state %d, with broken laws %v, want gone, and none", e.state, l.problems)
	}
}

// TestOpenOfIdle delivers an item again that a client had open which asked for nothing for so long that the server may
// have ended its connection. Before that it is not delivered.
func TestOpenOfIdle(t *testing.T) {
	for _, idle := range []time.Duration{idleTimeout / 2, idleTimeout} {
		l, data, later := ledgerOfOne()
		tick := func() { later(time.Millisecond) }
		tick()
		c, f := &asker{}, l.fetch("q", 0)
		ended := l.asks(c)
		l.handedOut(c, f, handed{data: data}, opened)
		l.ended(f, nil)
		ended(nil)
		later(idle)
		l.handedOut(&asker{}, l.fetch("q", 0), handed{data: data}, opened)
		if broken := len(l.problems) > 0; broken != (idle < idleTimeout) {
			t.Errorf("idle for %v: broken laws %v", idle, l.problems)
		}
	}
}
