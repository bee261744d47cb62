package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestRollingRestarts restarts three servers in turn while producers put and a worker takes. What was acknowledged is
// handled, and what is handled twice was lost, or its confirm had no answer.
func TestRollingRestarts(t *testing.T) {
	t.Run("open items", func(t *testing.T) { rollingRestarts(t, 0) })
	t.Run("leases", func(t *testing.T) { rollingRestarts(t, 2*time.Second) })
}

func rollingRestarts(t *testing.T, lease time.Duration) {
	var servers []*kestrel
	var addrs []string
	for range 3 {
		k := serve(t)
		servers = append(servers, k)
		addrs = append(addrs, k.addr)
	}
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: 20 * time.Millisecond}}, addrs...)

	var mu sync.Mutex
	changed := sync.NewCond(&mu)    // something was stored or handled
	stored := make(map[string]bool) // acknowledged
	unsure := make(map[string]bool) // put without an answer
	handled := make(map[string]int) // how often
	again := make(map[string]bool)  // may be handled again
	missing := 0                    // stored and not handled
	var slowest time.Duration       // of the puts

	stopWork := work(t, &Worker{
		Client: c, Queue: "work", Lease: lease, Handlers: 8, Backoff: Backoff{First: time.Millisecond, Most: time.Millisecond},
		Handle: func(_ context.Context, d *Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if handled[string(d.Data)]++; handled[string(d.Data)] == 1 && stored[string(d.Data)] {
				missing--
			}
			changed.Broadcast()
			return nil
		},
		Failed: func(d *Delivery, err error) {
			mu.Lock()
			defer mu.Unlock()
			// A confirm that finds the server away has certainly done nothing: the lease then lapses.
			if lease == 0 && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("item %s: %v", d.Data, err)
			}
			again[string(d.Data)] = true
		},
	})
	producing, stop := context.WithCancel(context.Background())
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			for n := 0; producing.Err() == nil; n++ {
				item := fmt.Sprintf("%d/%d", p, n)
				began := time.Now()
				err := c.Put(context.Background(), "work", []byte(item), PutOptions{})
				mu.Lock()
				slowest = max(slowest, time.Since(began))
				switch {
				case err == nil:
					if stored[item] = true; handled[item] == 0 {
						missing++
					}
				case errors.Is(err, ErrUnknownOutcome):
					unsure[item] = true
				default:
					t.Errorf("put %s: %v", item, err)
				}
				changed.Broadcast()
				mu.Unlock()
			}
		})
	}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	if lease > 0 {
		rounds = 1 // the servers are restarted as before; only what the worker says differs
	}
	more := func(n int) { // waits until n more are stored
		mu.Lock()
		defer mu.Unlock()
		for before := len(stored); len(stored) < before+n; {
			changed.Wait()
		}
	}
	for range rounds {
		for _, k := range servers {
			more(200) // all of them take part again
			if err := k.stop(); err != nil {
				t.Fatal(err)
			}
			more(100)
			if err := k.start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	producers.Wait()
	late := time.AfterFunc(patience, changed.Broadcast)
	defer late.Stop()
	mu.Lock()
	for end := time.Now().Add(patience); missing > 0 && time.Now().Before(end); {
		changed.Wait()
	}
	if missing > 0 {
		t.Errorf("%d acknowledged items are not handled", missing)
	}
	mu.Unlock()
	if err := stopWork(); err != nil {
		t.Error(err)
	}
	for _, item := range slices.Sorted(maps.Keys(handled)) {
		if !stored[item] && !unsure[item] {
			t.Errorf("item %s was never put", item)
		}
		if handled[item] > 1 && !again[item] {
			t.Errorf("item %s was handled %d times", item, handled[item])
		}
	}
	t.Logf("%d items stored, %d without an answer, %d came again; the slowest put took %v",
		len(stored), len(unsure), len(again), slowest)
}

// BenchmarkWorker measures items that a worker takes from one server and confirms.
func BenchmarkWorker(b *testing.B) {
	for _, handlers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("handlers=%d", handlers), func(b *testing.B) {
			c := dial(b, Options{}, serve(b).addr)
			items := make([][]byte, b.N)
			for i := range items {
				items[i] = []byte("an item that is not very long")
			}
			if err := c.PutAll(context.Background(), "work", items, PutOptions{}); err != nil {
				b.Fatal(err)
			}
			var mu sync.Mutex
			left := b.N
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := &Worker{Client: c, Queue: "work", Handlers: handlers, Handle: func(context.Context, *Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				if left--; left == 0 {
					cancel()
				}
				return nil
			}}
			b.ReportAllocs()
			b.ResetTimer()
			if err := w.Run(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}
