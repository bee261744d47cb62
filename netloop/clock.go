package netloop

import (
	"math"
	"time"
)

// moment is a time on a clock that nobody can set: milliseconds since a little before the server
// was made. Waits and time-outs are timed by it; what items say of themselves is in engine.Time. It
// is never zero.
type moment int64

// after returns the moment d later, without overflowing.
func (m moment) after(d time.Duration) moment {
	ms := moment(d / time.Millisecond)
	if m > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return m + ms
}

// clock returns moments.
type clock struct{ start time.Time }

// newClock starts a clock.
func newClock() clock { return clock{time.Now().Add(-time.Millisecond)} }

// at returns the moment of a time that came from time.Now.
func (c clock) at(t time.Time) moment { return moment(t.Sub(c.start) / time.Millisecond) }

func (c clock) now() moment { return c.at(time.Now()) }
