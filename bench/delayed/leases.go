package main

import (
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// taken is a Receiver that keeps nothing.
type taken struct{}

func (taken) Receive(engine.Item) bool { return true }

// putPlain puts n items that are in line at once.
func (b *bench) putPlain(name string, n int) error {
	return putAll(b.e, name, n, func(int) []byte { return b.bodies }, func(int) time.Duration { return 0 })
}

// lease leases the next n items of a queue for an hour, and appends their receipts. Each batch has a commit.
func (b *bench) lease(name string, n int, receipts []uint64) ([]uint64, error) {
	var d engine.Delivery
	for done := 0; done < n; {
		var t engine.Ticket
		now := engine.Now() // as in a turn of an event loop
		for range min(batch, n-done) {
			f := engine.FetchRequest{Access: engine.Lease, Lease: time.Hour, Delivery: &d}
			got, err := b.e.Fetch(now, []byte(name), f, taken{})
			if err != nil {
				return nil, err
			}
			t, done = t.Merge(got.Ticket), done+1
			receipts = append(receipts, d.Receipt)
		}
		if err := b.e.Commit(t); err != nil {
			return nil, err
		}
	}
	return receipts, nil
}

// leases leases items and confirms them, turn by turn: 32 of them, and then these 32.
func (b *bench) leases() error {
	const n, rounds = 200_000, 5
	var took, cpu time.Duration
	receipts := make([]uint64, 0, batch)
	for range rounds {
		if err := b.putPlain("leases", n); err != nil {
			return err
		}
		began, used := time.Now(), cpuTime()
		for done := 0; done < n; done += batch {
			var err error
			if receipts, err = b.lease("leases", batch, receipts[:0]); err != nil {
				return err
			}
			var all engine.Ticket
			now := engine.Now()
			for _, r := range receipts {
				t, err := b.e.ConfirmLease(now, []byte("leases"), r)
				if err != nil {
					return err
				}
				all = all.Merge(t)
			}
			if err := b.e.Commit(all); err != nil {
				return err
			}
		}
		took, cpu = took+time.Since(began), cpu+cpuTime()-used
	}
	rate, micros := perItem(rounds*n, took, cpu)
	goal(rate >= 300_000, "lease, confirm", "300,000/s", "%.0f/s of %d", rate, rounds*n)
	goal(micros <= 2, "lease, confirm", "2 µs", "%.2f µs of CPU for both", micros)
	return nil
}

// renewals extends leases, each in its turn, 100,000 times a second, and looks at the size of the journal.
func (b *bench) renewals() error {
	const each = 100 // a millisecond
	if err := b.putPlain("renewed", b.leased); err != nil {
		return err
	}
	receipts, err := b.lease("renewed", b.leased, nil)
	if err != nil {
		return err
	}
	var n int
	var most int64
	began, used := time.Now(), cpuTime()
	for time.Since(began) < b.renew {
		var all engine.Ticket
		for range each {
			_, t, err := b.e.ExtendLease(engine.Now(), []byte("renewed"), receipts[n%len(receipts)], time.Hour)
			if err != nil {
				return err
			}
			all, n = all.Merge(t), n+1
		}
		if err := b.e.Commit(all); err != nil {
			return err
		}
		if n%(10*each) == 0 {
			most = max(most, b.e.Stats().JournalBytes)
		}
		time.Sleep(time.Until(began.Add(time.Duration(n/each) * time.Millisecond)))
	}
	rate, micros := perItem(n, time.Since(began), cpuTime()-used)
	if s, _ := b.e.QueueStats(engine.Now(), []byte("renewed")); s.Leased != int64(b.leased) {
		return fmt.Errorf("%d items are leased, want %d", s.Leased, b.leased)
	}
	goal(rate >= 99_000, "renew", "100,000/s", "%.0f/s, %.2f µs of CPU each, of %d leases", rate, micros, b.leased)
	goal(most <= mayGrow, "renew", "journal within 72 MiB", "at most %.1f MiB after %d renewals", float64(most)/(1<<20), n)
	return nil
}
