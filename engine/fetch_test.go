package engine

import (
	"errors"
	"fmt"
	"testing"
)

func TestFetch(t *testing.T) {
	runScripts(t, []scriptTest{
		{"0.5.3 get, peek and open create the queue", `
			get a -> empty
			peek b -> empty
			open c r -> empty
			queues -> a b c`},
		{"0.5.3 flush, delete, flush-expired and stats do not", `
			flush a
			delete a
			flushexpired a -> 0
			stats a items -> none
			queues ->`},
		{"a queue survives a restart, empty or not", `
			get a -> empty
			put b x
			restart
			queues -> a b
			kill
			queues -> a b`},
		{"4.6 peek shows the head and leaves it", `
			put q a
			put q b
			peek q -> a
			peek q -> a
			get q -> a
			peek q -> b
			stats q items hits misses -> 1 4 0`},
		{"4.6 peek shows a returned item", `
			put q a
			open q r -> a
			peek q -> empty
			abort r
			peek q -> a
			get q -> a`},
		{"4.6 hits and misses", `
			get q -> empty
			open q r -> empty
			put q a
			open q r -> a
			peek q -> empty
			stats q hits misses opens -> 1 3 1`},
		{"4.10 the dequeue list is checked on every fetch and on flush, not on peek", `
			set q dequeue_client=me
			put q a
			get q -> not admitted
			get q client=you -> not admitted
			open q r -> not admitted
			flush q -> not admitted
			flush q client=you -> not admitted
			flushall -> not admitted
			peek q -> a
			open q r client=me -> a
			abort r
			get q client=me -> a
			put q b
			flush q client=me
			items q ->`},
		{"an acknowledged get is not undone", `
			put q a
			put q b
			get q -> a
			kill
			items q -> b
			get q -> b
			restart
			items q ->`},
	})
}

// TestFetchDeletedWhileSweeping deletes the queue in the moment in which a fetch lets others in
// between two batches of expired items: the fetch goes on with the queue that has the name then.
func TestFetchDeletedWhileSweeping(t *testing.T) {
	e, _ := newQuiet(t)
	dead := nameInOtherShard(e, "q")
	o := DefaultQueueOptions()
	o.ExpireTo = dead
	s := Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q": o}}
	if err := e.Reload(s); err != nil {
		t.Fatal(err)
	}
	now := Now()
	for range sweepBatch + 1 {
		if _, err := e.Put(now, []byte("q"), PutRequest{Expiry: now}); err != nil {
			t.Fatal(err)
		}
	}
	// A waiter of the queue that takes the expired items is told in that moment.
	w := &Waiter{Notify: notifierFunc(func(*Waiter) {
		done := make(chan struct{})
		go func() { // another client, which locks the other shard only
			defer close(done)
			e.Delete(now, []byte("q"))
			e.Put(now, []byte("q"), PutRequest{Data: []byte("new")})
		}()
		<-done
	})}
	f := FetchRequest{Access: Peek, Waiter: w}
	if _, err := e.Fetch(now, []byte(dead), f, nil); err != ErrEmpty {
		t.Fatal(err)
	}
	var got copied
	_, err := e.Fetch(now+1, []byte("q"), FetchRequest{}, &got)
	if err != nil || string(got.item.Data) != "new" {
		t.Errorf("Fetch = %q, %v, want the item of the new queue", got.item.Data, err)
	}
}

type notifierFunc func(*Waiter)

func (f notifierFunc) WaitEnded(w *Waiter) { f(w) }

func TestFetchClosed(t *testing.T) {
	e, _ := newQuiet(t)
	mustPut(t, e, "q", "a")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("Fetch = %v, want ErrClosed", err)
	}
}

func TestDrainKeepsOrder(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncNever })
	for i := range 3000 {
		mustPut(t, e, "q", fmt.Sprint("item ", i))
	}
	for i, data := range drain(t, openQuiet(t, testOptions(fsys.Kill())), "q") {
		if want := fmt.Sprint("item ", i); data != want {
			t.Fatalf("item %d is %q, want %q", i, data, want)
		}
	}
	if got := len(drain(t, e, "q")); got != 3000 {
		t.Errorf("%d items, want 3000", got)
	}
}
