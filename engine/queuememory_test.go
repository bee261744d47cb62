package engine

import (
	"fmt"
	"runtime"
	"testing"
)

// TestQueueMemory compares what idle queues take of the heap with what the ledger says.
func TestQueueMemory(t *testing.T) {
	const queues = 20_000
	for _, use := range []func(*Engine, Time, []byte) Ticket{askIdle, emptyIdle} {
		e, _ := newQuiet(t, func(q *QueueOptions) { q.Sync = SyncNever })
		heap, ledger := liveHeap(), e.memory.Load()
		for i := range queues {
			use(e, Now(), fmt.Appendf(nil, "idle-queue-%06d", i))
		}
		e.writeLeftOver()
		trimAll(t, e)
		heap, ledger = liveHeap()-heap, e.memory.Load()-ledger
		if heap > ledger*5/4 || heap < ledger/3 {
			t.Errorf("a queue takes %d bytes of the heap, the ledger says %d", heap/queues, ledger/queues)
		}
		runtime.KeepAlive(e)
	}
}

// TestQueuesAreCounted makes queues up to the limit. A put, a get or a restart may make one, and a
// deleted one gives back what it took.
func TestQueuesAreCounted(t *testing.T) {
	o := testOptions(newFS())
	const queues, name = 10, "queue-0"
	o.MemoryLimit = queues * (queueMemory + int64(len(name)))
	e := openQuiet(t, o)
	ask := func(i int) error {
		_, err := e.Fetch(Now(), fmt.Append(nil, "queue-", i), FetchRequest{}, nil)
		return err
	}
	for i := range queues {
		if err := ask(i); err != ErrEmpty {
			t.Fatalf("Fetch of queue %d = %v, want %v", i, err, ErrEmpty)
		}
	}
	if err := ask(queues); err != ErrOutOfMemory {
		t.Errorf("Fetch of one more = %v, want %v", err, ErrOutOfMemory)
	}
	if _, err := e.Put(Now(), []byte("another"), PutRequest{}); err != ErrOutOfMemory {
		t.Errorf("Put to one more = %v, want %v", err, ErrOutOfMemory)
	}
	if err := ask(0); err != ErrEmpty {
		t.Errorf("Fetch of a queue that is there = %v, want %v", err, ErrEmpty)
	}
	if s := e.Stats(); s.NotCreated != 2 || s.Queues != queues || s.MemoryBytes != o.MemoryLimit {
		t.Errorf("%d queues, %d not made, %d bytes, want %d, 2, %d",
			s.Queues, s.NotCreated, s.MemoryBytes, queues, o.MemoryLimit)
	}
	mustCommit(t, e, e.Delete(Now(), []byte("queue-3")))
	if err := ask(3); err != ErrEmpty {
		t.Errorf("Fetch of a queue in place of a deleted one = %v, want %v", err, ErrEmpty)
	}
	e.writeLeftOver()
	if got := kill(t, e).Stats().MemoryBytes; got != o.MemoryLimit {
		t.Errorf("after a kill the queues take %d bytes, want %d", got, o.MemoryLimit)
	}
}

// TestExpiredItemIntoNewQueue has an item expire into a queue that does not exist while memory is
// short: it is not lost.
func TestExpiredItemIntoNewQueue(t *testing.T) {
	e, _ := newQuiet(t, func(q *QueueOptions) { q.ExpireTo = "dead" })
	_, err := e.Put(10, []byte("q"), PutRequest{Data: []byte("late"), Expiry: 20})
	if err != nil {
		t.Fatal(err)
	}
	e.opts.MemoryLimit = e.memory.Load()
	e.FlushExpired(Now(), []byte("q"))
	wantItems(t, e, "dead", "late")
}
