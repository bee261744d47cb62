package scenario

import (
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// expectation is how long a phase is to be.
type expectation struct {
	duration time.Duration // 0 if it is not bounded by time
	requests int64         // 0 if it is not bounded by number
}

// expected returns the bounds of a phase: the longest of its groups'.
func expected(groups []loadtest.Group) expectation {
	var e expectation
	for _, g := range groups {
		e.duration = max(e.duration, g.Duration)
		e.requests += g.Operations
	}
	return e
}

// remaining returns how long the phase will still be, or -1.
func (e expectation) remaining(elapsed time.Duration, done int64) time.Duration {
	switch {
	case e.duration > 0:
		return max(e.duration-elapsed, 0)
	case e.requests > 0 && done > 0:
		return max(time.Duration(float64(elapsed)*float64(e.requests-done)/float64(done)), 0)
	}
	return -1
}
