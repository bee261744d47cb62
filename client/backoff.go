package client

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait after failures that follow each other: First, then twice as long each time, up to Most.
// Each is by chance up to a quarter shorter, so that many clients do not come back at once. Without First it begins with
// a millisecond, and Most is First at least.
type Backoff struct {
	First time.Duration
	Most  time.Duration
}

// After returns the time to wait behind the n-th failure; n is at least 1.
func (b Backoff) After(n int) time.Duration {
	wait := cmp.Or(b.First, time.Millisecond)
	most := max(b.Most, wait)
	for range n - 1 {
		if wait >= most/2 {
			wait = most
			break
		}
		wait *= 2
	}
	if wait < 4 {
		return wait
	}
	return wait - rand.N(wait/4)
}

// roundedUp returns d in units, rounded up. No d is too long for it.
func roundedUp(d, unit time.Duration) int64 {
	n := d / unit
	if d%unit > 0 {
		n++
	}
	return int64(n)
}
