package engine

import (
	"strings"
	"testing"
)

// TestServePieces has many waits end by one put: those of peeks, that all see the item, and watches. One hold of the
// lock ends no more than serveBatch of them, and a fetch waits until all have ended. The peeks share one copy.
func TestServePieces(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait func(e *Engine, c *collector) error
	}{
		{"peeks", func(e *Engine, c *collector) error {
			_, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: Peek, Waiter: &c.Waiter}, nil)
			return err
		}},
		{"watches", func(e *Engine, c *collector) error { return e.Watch(Now(), []byte("q"), &c.Waiter) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const waits = 3*serveBatch + 5
			e, _ := newQuiet(t)
			body := strings.Repeat("x", 10_000)
			all := make([]collector, waits)
			for i := range all {
				all[i].Notify = &all[i]
				if err := tt.wait(e, &all[i]); err != nil && err != ErrEmpty {
					t.Fatal(err)
				}
			}
			ended := func() (n int) {
				for i := range all {
					n += all[i].notified
				}
				return n
			}
			var again []*collector // they have looked, and watch again
			before := e.Stats().MemoryBytes
			mustPut(t, e, "q", body)
			q := e.shardOf([]byte("q")).queues["q"]
			fetch := waitingFetch(t, e)
			for was := 0; ended() < waits; {
				if n := ended(); n-was > serveBatch || n == was {
					t.Fatalf("one hold of the lock ends %d waits", n-was)
				} else {
					was = n
				}
				if err := e.Verify(); err != nil {
					t.Fatal(err)
				}
				if e.spool.freeHead(q); tt.name == "watches" {
					c := &collector{}
					c.Notify = c
					again = append(again, c)
					tt.wait(e, c)
				}
			}
			if n := e.Stats().MemoryBytes - before; n > waits*readOverhead+10*int64(len(body)) {
				t.Errorf("the waits take %d bytes", n)
			}
			for i := range all {
				var got copied
				if all[i].Access != Peek || tt.name != "peeks" {
					continue
				}
				if _, ok := e.Collect(Now(), all[i].Read, FetchRequest{Access: Peek}, &got); !ok || string(got.item.Data) != body {
					t.Fatalf("wait %d got an item of %d bytes, %t", i, len(got.item.Data), ok)
				}
			}
			for q.headBusy() {
				e.spool.freeHead(q)
			}
			for i, c := range again {
				if c.notified > 0 {
					t.Errorf("watch %d heard twice of one put", i)
				}
			}
			var got copied
			mustCommitted(t, e)(e.Collect(Now(), fetch.Read, FetchRequest{}, &got))
			if string(got.item.Data) != body {
				t.Errorf("the fetch got %d bytes", len(got.item.Data))
			}
			e.Delete(Now(), []byte("q"))
			if n := e.Stats().MemoryBytes; n != 0 {
				t.Errorf("%d bytes are in use without any queue", n)
			}
		})
	}
}
