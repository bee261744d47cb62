package main

import (
	"slices"
	"testing"
	"time"
)

// An item that an inspection does not find may still be on its way from one queue to the other, and turn up later.
// That is so if its put was not answered, or if an unanswered fetch may have taken it. Neither counts as an item that
// was never put.
func TestExpiringTurnsUpLater(t *testing.T) {
	for _, tt := range []struct {
		name           string
		acked, fetched bool
	}{
		{"a put was not answered", false, false},
		{"a fetch was not answered", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTestTrial(t, "", 1)
			e := newExpiringLane(tr)
			e.lane.next = 2
			put := time.Now().Add(-time.Minute)
			e.items[1] = &expiring{sent: put}
			if tt.acked {
				e.items[1].acked = put
			}
			e.asking = tt.fetched
			e.compare(nil)
			if got := e.acknowledged(); got != 0 {
				t.Errorf("%d items must still be there, want none", got)
			}
			for range 2 { // found, and found again
				if _, ok := e.check(e.target, e.lane.body(1), time.Now()); !ok || len(tr.violations()) > 0 {
					t.Fatalf("an item that turns up later is taken for broken: %q", tr.violations())
				}
				e.compare(map[int]bool{1: true})
			}
			e.compare(nil) // it was there: from now on it counts
			if got := tr.violations(); len(got) != 1 {
				t.Errorf("violations = %q, want one of an item that is lost", got)
			}
		})
	}
}

// Two acknowledged items are missing, and one unanswered fetch cannot have taken both.
func TestExpiringLost(t *testing.T) {
	tr := newTestTrial(t, "", 1)
	e := newExpiringLane(tr)
	e.asking = true
	for item := range 2 {
		e.items[item] = &expiring{sent: time.Now(), acked: time.Now()}
	}
	e.compare(nil)
	if got := tr.violations(); len(got) != 1 {
		t.Errorf("violations = %q, want one", slices.Clip(got))
	}
}
