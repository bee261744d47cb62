package main

import (
	"fmt"
	"time"
)

// What a measurement takes besides its windows, on a machine with nothing else to do; it is scaled
// by what measurements turn out to take.
const (
	startTime   = 100 * time.Millisecond // of a server, with its end
	connectTime = 50 * time.Microsecond  // of a connection
	fillRate    = 500e3                  // items a second, before gets
	drainTime   = 250 * time.Millisecond // for what is left when a delivery's window ends
)

// schedule knows what is still to be measured, and says how long that will take.
type schedule struct {
	began       time.Time
	count, next int           // measurements: all, and the one that comes next, from 1
	total, done time.Duration // as estimated
	now         func() time.Time
}

// newSchedule begins now.
func newSchedule(o *options, plan []planned) *schedule {
	s := &schedule{began: time.Now(), now: time.Now, next: 1}
	for _, p := range plan {
		for _, server := range p.servers {
			s.count += o.rounds
			s.total += time.Duration(o.rounds) * o.estimate(p.benchCase, server)
		}
	}
	return s
}

// estimate returns about how long a measurement takes.
func (o *options) estimate(c benchCase, s server) time.Duration {
	d := startTime + time.Duration(c.connections)*connectTime + o.window
	switch {
	case c.kind.delivers():
		d += c.headStart() + drainTime
	case c.inCycles(s):
		d += (warmCycles + 2*cycles) * time.Duration(c.connections) * connectTime
		d += warmCycles * o.window / cycles
		if !s.keeps {
			d += o.window + warmCycles*o.window/cycles // the drains
		}
	case c.kind == get && !s.keeps:
		items := c.gets(o.window+o.warmup, s.speed)
		d += time.Duration(float64(items) / fillRate * float64(time.Second))
		fallthrough
	default:
		d += o.warmup
	}
	return d
}

// left returns how long what is not measured yet will take.
func (s *schedule) left() time.Duration {
	left := float64(s.total - s.done)
	const enough = 20 // of them make more than chance
	if s.next > enough {
		left *= float64(s.now().Sub(s.began)) / float64(s.done)
	}
	return time.Duration(left)
}

// String says which measurement comes next, and what is left with it.
func (s *schedule) String() string {
	left := s.left()
	unit := time.Second
	if left > 10*time.Minute {
		unit = time.Minute
	}
	return fmt.Sprintf("[%d/%d, %v left]", s.next, s.count, left.Round(unit))
}

// measured takes note that a measurement has been made, well or not.
func (s *schedule) measured(estimate time.Duration) {
	s.next++
	s.done += estimate
}
