package main

import (
	"testing"
	"time"
)

// TestWallClock tests between which times a clock that is stepped is known to have been.
func TestWallClock(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	c := &wallClock{steps: []clockStep{
		{}, {at(10), at(10), time.Hour}, {at(20), at(21), -time.Hour},
	}}
	const hour = 3600
	for _, tt := range []struct{ from, to, earliest, latest int }{
		{1, 2, 1, 2},
		{5, 15, 5, 15 + hour},
		{12, 13, 12 + hour, 13 + hour},
		{5, 25, 20 - hour, 21 + hour},
		{23, 24, 23 - hour, 24 - hour},
	} {
		earliest, latest := c.times(at(tt.from).Add(clockSlack), at(tt.to).Add(-clockSlack))
		if !earliest.Equal(at(tt.earliest)) || !latest.Equal(at(tt.latest)) {
			t.Errorf("from %d to %d: %v to %v, want %d to %d s", tt.from, tt.to, earliest.Sub(start),
				latest.Sub(start), tt.earliest, tt.latest)
		}
	}
}

// TestClockEditsApply checks that Go's clock is where it is expected.
func TestClockEditsApply(t *testing.T) {
	edits, err := clockEdits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := overlay("", t.TempDir(), edits); err != nil {
		t.Error(err)
	}
}
