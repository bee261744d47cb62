package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestStill tests that a lease does not lapse, nor a dead letter move, while an engine is still. The control is an
// engine that is not.
func TestStill(t *testing.T) {
	for _, still := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			opts := testOptions(segmenttest.New(), func(o *QueueOptions) { o.MaxDeliveries = 3 })
			opts.Still = still
			e, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			closeAtEnd(t, e)
			now := Now()
			lease := Standing{Due: now.After(time.Second), Token: 7, Count: 2}
			if _, err := e.Restore(now, []byte("q"), Item{Data: []byte("x"), Added: now}, lease); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // of a fake clock
			synctest.Wait()
			want := uint64(2)
			if still {
				want = 1
			}
			if next := e.NextID([]byte("q_dead")); next != want {
				t.Errorf("still %v: the next id of the dead letters is %d, want %d", still, next, want)
			}
		})
	}
}
