package netloop

import (
	"sync/atomic"
	"time"
)

// alarm rings once at a time set, for all that a loop waits for: one timer for each loop, whatever
// the number of its sessions. ring is called on a goroutine of its own.
type alarm struct {
	ring  func()
	timer *time.Timer
	at    moment      // zero: not set
	rang  atomic.Bool // since it was set; written by the timer's goroutine
}

// set makes the alarm ring at the time given; zero makes it silent. An alarm that is set for
// earlier stays: it rings in vain once, which costs less than setting a timer for every wait.
func (a *alarm) set(at, now moment) {
	if a.rang.Load() {
		a.rang.Store(false)
		a.at = 0
	}
	if at == 0 || a.at != 0 && a.at <= at {
		return
	}
	a.at = at
	d := time.Duration(max(at-now, 1)) * time.Millisecond
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() {
			a.rang.Store(true)
			a.ring()
		})
		return
	}
	a.timer.Reset(d)
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// setAlarm sets the loop's alarm for the next thing that happens by itself.
func (l *loop) setAlarm() {
	at := moment(0)
	sooner := func(t moment) {
		if at == 0 || t < at {
			at = t
		}
	}
	if l.paceEnds != 0 {
		sooner(l.paceEnds)
	}
	if len(l.deadlines) > 0 {
		sooner(l.deadlines[0].wait.deadline)
	}
	if t := l.nextIdle(); t != 0 {
		sooner(t)
	}
	l.alarm.set(at, l.clock)
}
