package engine

import (
	"fmt"
	"strings"
	"testing"
)

// TestReadAhead drains a queue whose memory has room for more than the spool may read ahead. The window then has that
// many bytes of small items, or a few large items.
//
// Its control is an fillLimit that is frontLimit.
func TestReadAhead(t *testing.T) {
	const memory = 36 << 20 // half of it is the window's
	tests := []struct{ size, least, most int64 }{
		{64 << 10, maxFilled - fillBatch - 128<<10, maxFilled},
		{1 << 20, minFilled << 20, (minFilled + 1) << 20},
	}
	for _, test := range tests[:sampled(1, len(tests))] {
		o := testOptions(newFS(), func(o *QueueOptions) { o.MaxMemorySize = memory })
		e := openQuiet(t, o)
		data := strings.Repeat("x", int(test.size))
		for range 2 * memory / test.size {
			mustPut(t, e, "q", data)
			spoolAll(e)
		}
		for range memory / test.size { // the first of them have never left the memory
			mustGet(t, e, "q")
			spoolAll(e)
		}
		w := &e.shardOf([]byte("q")).queues["q"].window
		if w.Bytes < test.least || w.Bytes > test.most {
			t.Errorf("items of %d bytes: %d bytes are read ahead, want %d to %d", test.size, w.Bytes,
				test.least, test.most)
		}
	}
}

// immediately begins a fetch from "q" that waits only for what is on its way from disk.
func immediately(t *testing.T, e *Engine, now Time) *collector {
	t.Helper()
	c := &collector{}
	c.Notify = c
	f, err := e.Fetch(now, []byte("q"), FetchRequest{Waiter: &c.Waiter, Immediate: true}, &copied{})
	if !f.Waiting || err != ErrComing {
		t.Fatalf("Fetch = %+v, %v, want that it waits for the disk", f, err)
	}
	return c
}

// wantServed fails the test unless a wait has ended with an item.
func wantServed(t *testing.T, c *collector, data string) {
	t.Helper()
	switch {
	case c.notified != 1:
		t.Errorf("the wait has ended %d times, want once", c.notified)
	case c.Err != nil || c.Read.IsZero():
		t.Errorf("the wait ended with %v, want %q", c.Err, data)
	case string(c.Read.r.item.Data) != data:
		t.Errorf("the wait got %q, want %q", c.Read.r.item.Data, data)
	}
}

// TestFillPastExpired: everything that a fetch finds on disk has expired, and it gets the item behind that,
// which never left the memory.
func TestFillPastExpired(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	now := Now()
	for i := range 21 {
		put := PutRequest{Data: fmt.Appendf(nil, "%030d", i), Expiry: now + 1}
		if i == 20 {
			put.Expiry = 0
		}
		if _, err := e.Put(now, []byte("q"), put); err != nil {
			t.Fatal(err)
		}
		if i == 18 {
			spoolAll(e)
		}
	}
	q := e.shardOf([]byte("q")).queues["q"]
	if q.backlog.recent.Count != 1 {
		t.Fatalf("%d items are recent, want 1", q.backlog.recent.Count)
	}
	e.spool.now = func() Time { return now + 1000 }
	c := immediately(t, e, now+1000)
	spoolAll(e)
	wantServed(t, c, fmt.Sprintf("%030d", 20))
	verify(t, e)
}

// TestRemoveWhileFilling: the items that a fetch waits for are removed before they have been read. It gets
// the one behind them.
func TestRemoveWhileFilling(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	putMany(t, e, "q", 0, 19)
	spoolAll(e)
	putMany(t, e, "q", 19, 2)
	q := e.shardOf([]byte("q")).queues["q"]
	for q.window.Count > 0 {
		mustGetNow(t, e)
	}
	first := q.backlog.nextID
	c := immediately(t, e, Now())
	for id := first; q.backlog.count > 0; id++ {
		ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	wantServed(t, c, fmt.Sprintf("%030d", 20))
	verify(t, e)
}
