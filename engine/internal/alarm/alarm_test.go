package alarm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// rings reports whether the alarm has got an earlier instant since it was asked last.
func rings[T any](a *Alarm[T]) bool {
	select {
	case <-a.Sooner():
		return true
	default:
		return false
	}
}

// TestAlarm sets instants, earlier and later ones, and takes what is due.
func TestAlarm(t *testing.T) {
	type value struct{ place Place }
	a := New[value]()
	if v, wait := a.Take(100); v != nil || wait != time.Hour {
		t.Errorf("an alarm that rings for nothing has %v, and waits %v", v, wait)
	}
	var one, two, three value
	for i, tt := range []struct {
		v    *value
		at   int64
		want bool
	}{{&one, 50, true}, {&two, 60, false}, {&two, 40, true}, {&three, 41, false}, {&one, 30, true}} {
		a.Set(tt.v, item.Time(tt.at), &tt.v.place)
		if got := rings(a); got != tt.want {
			t.Errorf("%d: sooner is %t, want %t", i, got, tt.want)
		}
	}
	if v, wait := a.Take(30); v != nil || wait != time.Millisecond {
		t.Errorf("before anything is due %v is, and it waits %v", v, wait)
	}
	a.Clear(&two.place)
	a.Clear(&two.place)
	for _, want := range []*value{&one, &three, nil} {
		if v, _ := a.Take(100); v != want {
			t.Errorf("%p is due, want %p", v, want)
		}
	}
	if one.place != (Place{}) {
		t.Error("what was taken is still there")
	}
}

// TestClock: what is due in some time is due when that has passed, and not in the millisecond before.
func TestClock(t *testing.T) {
	part := time.Duration(0)
	c := Clock(func() (item.Time, time.Duration) { return 1000, part })
	for _, tt := range []struct {
		part, in time.Duration
		want     item.Time
	}{
		{0, 5 * time.Millisecond, 1005},
		{999 * time.Microsecond, 5 * time.Millisecond, 1005},
		{999 * time.Microsecond, 5*time.Millisecond + time.Microsecond, 1006},
	} {
		part = tt.part
		if got := c.In(tt.in); got != tt.want || c.Now() != 1000 {
			t.Errorf("%v behind a millisecond, something is due in %v at %d, want %d", tt.part, tt.in, got, tt.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		first, part := c()
		time.Sleep(1500 * time.Microsecond)
		if now, more := c(); time.Duration(now-first)*time.Millisecond+more-part != 1500*time.Microsecond {
			t.Errorf("1.5 ms behind %d and %v it is %d and %v", first, part, now, more)
		}
	})
}
