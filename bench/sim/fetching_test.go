package main

import (
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// TestPassedDelayed hands out an item that was put later than delayed ones that are due: that breaks the law,
// unless the queue has memory for few of those.
func TestPassedDelayed(t *testing.T) {
	for _, tt := range []struct {
		memory int64
		broken bool
	}{{1 << 20, true}, {900, false}} {
		now := epoch.Add(time.Hour)
		set := engine.Settings{Default: engine.DefaultQueueOptions()}
		set.Default.MaxMemorySize = tt.memory
		l := newLedger(set)
		l.now = func() time.Time { return now }
		put := func(delay time.Duration) []byte {
			n, data := l.putting("q", 50, 0, delay)
			l.putEnded(n, confirmed)
			return data
		}
		for range 5 {
			put(10 * time.Second)
		}
		now = now.Add(time.Second)
		last := put(0)
		now = now.Add(time.Minute)
		l.handedOut(&asker{}, l.fetch("q", 0), handed{data: last}, opened)
		if broken := len(l.problems) > 0; broken != tt.broken || broken && l.problems[0].Law != "passed" {
			t.Errorf("memory of %d bytes: %v, want a broken law: %t", tt.memory, l.problems, tt.broken)
		}
	}
}

// TestPlaceOfMoved: an item that expired into another queue and was rejected there may be among the dead letters
// of that queue, and in no third one.
func TestPlaceOfMoved(t *testing.T) {
	set := engine.Settings{
		Default: engine.DefaultQueueOptions(), Queues: map[string]engine.QueueOptions{"x": engine.DefaultQueueOptions()},
	}
	o := set.Queues["x"]
	o.ExpireTo = "dead"
	set.Queues["x"] = o
	for queue, allowed := range map[string]bool{
		"x": true, "dead": true, "x_dead": true, "dead_dead": true, "y": false, "y_dead": false, "x_dead_dead": false,
	} {
		l := newLedger(set)
		_, data := l.putting("x", 50, 0, 0)
		if e := l.find(queue, data); (e != nil) != allowed || len(l.problems) > 0 == allowed {
			t.Errorf("found in %s: %v, want it allowed: %t", queue, l.problems, allowed)
		}
	}
}
