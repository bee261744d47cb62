package nap

import (
	"testing"
	"testing/synctest"
	"time"
)

// A nap is never too short, and none comes after Close.
func TestNap(t *testing.T) {
	var n Napper
	for _, d := range []time.Duration{0, time.Nanosecond, 50 * time.Microsecond, Longest} {
		began := time.Now()
		if ok, took := n.Nap(d), time.Since(began); ok && took < d {
			t.Errorf("a nap of %v took %v", d, took)
		}
	}
	n.Close()
	n.Close()
	if n.Nap(Longest) {
		t.Error("a nap after Close")
	}
}

// In a bubble the clock stands still during a nap. There is one at most, and then the clock goes on, because the
// goroutine waits for that.
func TestNapInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Napper
		defer n.Close()
		naps := 0
		for began := time.Now(); time.Since(began) < Longest; {
			if n.Nap(Longest) {
				naps++
				continue
			}
			time.Sleep(Longest)
		}
		if naps > 0 {
			t.Errorf("%d naps passed in fake time", naps)
		}
	})
}
