package engine

import (
	"fmt"
	"testing"
	"time"
)

// waitingFetch has a fetch from q wait, and returns who waits.
func waitingFetch(t *testing.T, e *Engine) *collector {
	t.Helper()
	c := &collector{}
	c.Notify = c
	if f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: &c.Waiter, Immediate: true}, &copied{}); !f.Waiting {
		t.Errorf("a fetch between two pieces does not wait: %v", err)
	}
	return c
}

// wantCollected tests that those who waited have got items 0, 1, … in their order.
func wantCollected(t *testing.T, e *Engine, waiters []*collector, first int) {
	t.Helper()
	for i, c := range waiters {
		var got copied
		mustCommitted(t, e)(e.Collect(Now(), c.Read, FetchRequest{}, &got))
		if want := fmt.Sprint(first + i); string(got.item.Data) != want {
			t.Errorf("waiter %d got %q, want %q", i, got.item.Data, want)
		}
	}
}

// TestOverduePieces has many reads end by themselves, and others fetch, confirm and put between the pieces. Nobody gets
// an item before the oldest one is back, and then all come in order. No piece brings more than abortBatch back.
//
// Its control is an endOverduePiece that does not hold the queue.
func TestOverduePieces(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.OpenReadTimeout = time.Second })
	const items = 3*abortBatch + 5
	var refs []ReadRef
	for i := range items {
		mustPut(t, e, "q", fmt.Sprint(i))
		r, _ := mustOpen(t, e, "q")
		refs = append(refs, r)
	}
	late := Now().After(time.Minute)
	q := e.shardOf([]byte("q")).queues["q"]
	o := overdueReads{q: q, now: late}
	var waiters []*collector
	confirmed := map[int]bool{}
	for pieces := 0; !o.done; pieces++ {
		before := q.returned.Len()
		if e.endOverduePiece(&o); q.returned.Len()-before > 2*abortBatch {
			t.Errorf("piece %d brings %d items back", pieces, q.returned.Len()-before)
		}
		if err := e.Verify(); err != nil {
			t.Error(err)
		}
		if o.done {
			break
		}
		waiters = append(waiters, waitingFetch(t, e))
		mustPut(t, e, "q", "behind")
		// What ends meanwhile may be where the walk would have gone on.
		if i := abortBatch * (pieces + 1); i < items {
			if _, ok := e.Confirm(Now(), refs[i]); ok {
				confirmed[i] = true
			}
		}
	}
	if len(waiters) < 4 || len(confirmed) == 0 {
		t.Errorf("%d fetches and %d confirms have come between the pieces", len(waiters), len(confirmed))
	}
	wantCollected(t, e, waiters, 0)
	next := len(waiters)
	for _, got := range drain(t, e, "q") {
		for confirmed[next] {
			next++
		}
		if want := fmt.Sprint(next); got != want && (got != "behind" || next < items) {
			t.Fatalf("item %d is %q", next, got)
		}
		next++
	}
	if e.endOverdueReads(late); len(e.shardOf([]byte("q")).timed) > 0 {
		t.Error("a queue without open reads still has a timeout to look at")
	}
}

// TestSettlePieces lowers the limit of a queue by far. One hold of the lock drops no more than settleBatch items, by a
// put or behind it; fetches wait until the limit holds.
func TestSettlePieces(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options func(*QueueOptions)
	}{
		{"in memory", func(*QueueOptions) {}},
		{"a part on disk alone", func(o *QueueOptions) { o.MaxMemorySize = 60_000 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := func(o *QueueOptions) { tt.options(o); o.DiscardOldWhenFull = true }
			e, _ := newQuiet(t, options)
			const items, stay = 4*settleBatch + 10, 5
			all := putMany(t, e, "q", 0, items)
			spoolAll(e)
			o := DefaultQueueOptions()
			options(&o)
			o.MaxItems = stay
			if err := e.Reload(Settings{Default: o}); err != nil {
				t.Fatal(err)
			}
			all = append(all, putMany(t, e, "q", items, 1)...)
			q := e.shardOf([]byte("q")).queues["q"]
			if !q.headBusy() && !q.coming() {
				t.Error("one put has dropped all that is too much")
			}
			w := waitingFetch(t, e)
			for pieces := 0; q.headBusy() || q.coming() && q.window.Count == 0; pieces++ {
				before := q.counters.discarded
				if e.spool.freeHead(q); q.counters.discarded-before > settleBatch {
					t.Errorf("piece %d drops %d items", pieces, q.counters.discarded-before)
				}
				spoolSome(e, 1)
				if err := e.Verify(); err != nil {
					t.Error(err)
				}
				if pieces > 100 {
					t.Fatal("the queue stays busy")
				}
			}
			spoolAll(e)
			verify(t, e)
			var got copied
			mustCommitted(t, e)(e.Collect(Now(), w.Read, FetchRequest{}, &got))
			if want := all[len(all)-stay]; string(got.item.Data) != want {
				t.Errorf("the fetch got %q, want %q", got.item.Data, want)
			}
			if n := len(drain(t, e, "q")); n != stay-1 {
				t.Errorf("%d items are left, want %d", n, stay-1)
			}
		})
	}
}
