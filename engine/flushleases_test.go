package engine

import (
	"testing"
	"time"
)

// TestFlushBesideLeases flushes queues with leases and with others aside: the leases stay, nothing else does, and what is
// fewer is carried. With many leases that is next to nothing.
func TestFlushBesideLeases(t *testing.T) {
	for _, tt := range []struct{ leases, others int }{{2000, 3}, {3, 2000}, {50, 50}} {
		e, fsys := newQuiet(t)
		put := func(extra *PutExtra) {
			t.Helper()
			if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("item"), Extra: extra}); err != nil {
				t.Fatal(err)
			}
		}
		var receipts []uint64
		for range tt.leases {
			put(nil)
			var d Delivery
			f := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: &d}
			if _, err := e.Fetch(Now(), []byte("q"), f, new(copied)); err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, d.Receipt)
		}
		for range tt.others {
			put(&PutExtra{Delay: time.Hour})
		}
		q := e.shardOf([]byte("q")).queues["q"]
		allocs := testing.AllocsPerRun(1, func() {
			q.shard.mu.Lock()
			left := clearNow(e, q)
			q.shard.mu.Unlock()
			for !left.empty() {
				left.dispose(100)
			}
		})
		if tt.leases > 100*tt.others && allocs > 50 {
			t.Errorf("a flush beside %d leases takes %v allocations", tt.leases, allocs)
		}
		verify(t, e)
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		for _, e := range []*Engine{e, openQuiet(t, testOptions(fsys.Kill()))} {
			if s, _ := e.QueueStats(Now(), []byte("q")); s.Items != 0 {
				t.Errorf("%d items are left of %+v", s.Items, tt)
			}
			if _, n, err := e.ConfirmLeases(Now(), []byte("q"), receipts); n != tt.leases || err != nil {
				t.Errorf("ConfirmLeases = %d, %v, want %d", n, err, tt.leases)
			}
			verify(t, e)
		}
	}
}
