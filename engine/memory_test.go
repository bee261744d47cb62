package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestMemory shows that the account of memory goes back to zero, whatever became of the items.
func TestMemory(t *testing.T) {
	at := func(d Time) Time { return Now() + d }
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, e *Engine)
	}{
		{"taken", func(t *testing.T, e *Engine) { drain(t, e, "q") }},
		{"confirmed", func(t *testing.T, e *Engine) {
			for len(queued(e, "q")) > 0 {
				r, _ := mustOpen(t, e, "q")
				e.Confirm(Now(), r)
			}
		}},
		{"aborted, then taken", func(t *testing.T, e *Engine) {
			var refs []ReadRef
			for len(queued(e, "q")) > 0 {
				r, _ := mustOpen(t, e, "q")
				refs = append(refs, r)
			}
			for _, r := range refs {
				e.Abort(Now(), r)
			}
			drain(t, e, "q")
		}},
		{"flushed", func(t *testing.T, e *Engine) {
			r, _ := mustOpen(t, e, "q")
			e.Abort(Now(), r)
			e.Flush(Now(), []byte("q"), "")
		}},
		{"deleted", func(t *testing.T, e *Engine) {
			mustOpen(t, e, "q")
			r, _ := mustOpen(t, e, "q")
			e.Abort(Now(), r)
			e.Delete(Now(), []byte("q"))
		}},
		{"deleted when empty", func(t *testing.T, e *Engine) {
			drain(t, e, "q")
			e.Delete(Now(), []byte("q"))
		}},
		{"expired", func(t *testing.T, e *Engine) { e.FlushExpired(at(10_000), []byte("q")) }},
		{"handed to waiters", func(t *testing.T, e *Engine) {
			drain(t, e, "q")
			for _, access := range []Access{Take, Peek, OpenRead} {
				c := &collector{}
				c.Notify = c
				e.Fetch(Now(), []byte("q"), FetchRequest{Access: access, Waiter: &c.Waiter}, nil)
				mustPut(t, e, "q", "x")
				e.Collect(Now(), c.Read, FetchRequest{Access: access}, &copied{})
				e.Confirm(Now(), c.Read)
				drain(t, e, "q")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t)
			for _, size := range []int{0, 10, 1000, 5000, 300_000, 10} {
				p := PutRequest{Data: make([]byte, size), Expiry: at(1000)}
				if _, err := e.Put(Now(), []byte("q"), p); err != nil {
					t.Fatal(err)
				}
			}
			if got := e.Stats().MemoryBytes; got < 306_020 {
				t.Errorf("6 items take %d bytes of memory, want 306,020 at least", got)
			}
			tt.do(t, e)
			if err := e.Commit(Ticket{Written: e.journal.End()}); err != nil { // records that are to be written count
				t.Fatal(err)
			}
			if got := memoryBeyondQueues(e); got != 0 {
				t.Errorf("%d bytes are in use without any item", got)
			}
		})
	}
}

// TestMemoryOfExpiredQueue: nothing is left of a queue that has expired, also if items of it were leased.
func TestMemoryOfExpiredQueue(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.MaxQueueAge = 1 })
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "q", "a")
	leased, err := q.TryLease(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := leased.Confirm(); err != nil {
		t.Fatal(err)
	}
	e.expireQueues(Now() + 1000)
	if err := e.Commit(Ticket{Written: e.journal.End()}); err != nil { // records that are to be written count
		t.Fatal(err)
	}
	if got := e.Stats(); got.Queues != 0 || got.MemoryBytes != 0 {
		t.Errorf("%d bytes are in use with %d queues, want none", got.MemoryBytes, got.Queues)
	}
}

// TestMemoryAfterReplay accounts for what a restart finds, also where it has holes.
func TestMemoryAfterReplay(t *testing.T) {
	e, fsys := newQuiet(t)
	for i := range 100 {
		mustPut(t, e, "q", fmt.Sprint(i, strings.Repeat("x", 100)))
		mustPut(t, e, "gone", "x")
	}
	var last ReadRef
	for range 99 {
		last, _ = mustOpen(t, e, "q")
	}
	mustCommitted(t, e)(e.Confirm(Now(), last))
	mustCommit(t, e, e.Delete(Now(), []byte("gone")))
	again := openQuiet(t, testOptions(fsys.Kill()))
	if got := again.Stats().MemoryBytes; got < 99*100 || got > 40_000 {
		t.Errorf("99 items of 100 bytes take %d", got)
	}
	drain(t, again, "q")
	if got := memoryBeyondQueues(again); got != 0 {
		t.Errorf("%d bytes are in use without any item", got)
	}
}

func TestMemoryLimit(t *testing.T) {
	o := testOptions(newFS())
	o.MemoryLimit = 100_000
	e := openQuiet(t, o)
	puts := 0
	for ; ; puts++ {
		name := fmt.Append([]byte("q"), puts%3)
		ticket, err := e.Put(Now(), name, PutRequest{Data: make([]byte, 1000)})
		if err != nil {
			if err != ErrOutOfMemory {
				t.Errorf("Put = %v, want ErrOutOfMemory", err)
			}
			break
		}
		mustCommit(t, e, ticket)
	}
	if puts < 50 || puts > 100 {
		t.Errorf("%d items of 1,000 bytes fit into 100,000", puts)
	}
	large := PutRequest{Data: make([]byte, 100_001)}
	if _, err := e.Put(Now(), []byte("new"), large); err != ErrOutOfMemory {
		t.Errorf("Put = %v, want ErrOutOfMemory", err)
	}
	if _, ok := e.QueueStats(Now(), []byte("new")); ok {
		t.Error("a put refused for memory made a queue")
	}
	drain(t, e, "q0")
	mustPut(t, e, "q0", "fits again")
}
