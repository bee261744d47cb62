package netloop

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		if c.now() <= 0 {
			t.Errorf("a new clock returns %d, want above 0", c.now())
		}
		before := c.now()
		<-time.After(1500 * time.Millisecond)
		if got := c.now() - before; got != 1500 {
			t.Errorf("after 1500 ms the clock has gone on by %d", got)
		}
		if got := before.after(90 * time.Second); got != before+90_000 {
			t.Errorf("90 s after %d is %d", before, got)
		}
		if got := moment(math.MaxInt64 - 1).after(time.Hour); got != math.MaxInt64 {
			t.Errorf("an hour before the end of time, %d", got)
		}
	})
}
