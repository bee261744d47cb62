package engine

import (
	"errors"
	"fmt"
	"strings"
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
// between two batches of expired items. The fetch goes on with the queue that has the name then.
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
	// The wait at the queue that takes the expired items ends in that moment.
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

// atMost is a Receiver that takes so many items and no more.
type atMost struct {
	left int
	collected
}

func (a *atMost) Receive(it Item) bool {
	if a.left == 0 {
		return false
	}
	a.left--
	return a.collected.Receive(it)
}

// putStored puts items to q, and commits them; those called expired have expired by now.
func putStored(t *testing.T, e *Engine, now Time, puts []string) {
	t.Helper()
	for _, data := range puts {
		p := PutRequest{Data: []byte(data)}
		if data == "expired" {
			p.Expiry = now - 1
		}
		stored, err := e.Put(now-2, []byte("q"), p)
		if err = errors.Join(err, e.Commit(stored)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFetchMany(t *testing.T) {
	const all = 100
	large := strings.Repeat("x", maxFetchBytes-1)
	tests := []struct {
		name   string
		puts   []string
		most   int
		takes  int
		wait   bool
		want   string
		err    error
		queued int64 // afterwards
	}{
		{"as many as are asked for", []string{"a", "b", "c"}, 2, all, false, "a b", nil, 1},
		{"as many as there are", []string{"a", "b"}, 3, all, false, "a b", ErrEmpty, 0},
		{"all, and waits for more", []string{"a", "b"}, 3, all, true, "a b", ErrEmpty, 0},
		{"exactly all", []string{"a", "b"}, 2, all, true, "a b", nil, 0},
		{"none", nil, 3, all, false, "", ErrEmpty, 0},
		{"as many as are taken", []string{"a", "b", "c"}, 3, 1, true, "a", ErrNotTaken, 2},
		{"as many bytes as may go at once", []string{large, "b", "c"}, 3, all, true, large + " b", nil, 1},
		{"at least one item", []string{large + large, "b"}, 2, all, false, large + large, nil, 1},
		{"those that have not expired", []string{"expired", "a", "expired", "b"}, 3, all, false,
			"a b", ErrEmpty, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t)
			now := Now()
			putStored(t, e, now, tt.puts)
			r := &atMost{left: tt.takes}
			w := &Waiter{Notify: make(wakeUp, 1)}
			f := FetchRequest{Access: Hold, Waiter: w, Immediate: !tt.wait}
			var got Fetched
			var refs []ReadRef
			err := e.FetchMany(now, []byte("q"), &f, tt.most, r, &refs, &got)
			if err != tt.err || string(r.collected) != tt.want {
				t.Errorf("FetchMany hands out %.20q with %v, want %.20q with %v",
					string(r.collected), err, tt.want, tt.err)
			}
			if waits := tt.wait && tt.err == ErrEmpty; got.Waiting != waits || e.CancelWait(w) != waits {
				t.Errorf("Waiting = %v, want %v", got.Waiting, waits)
			}
			s, _ := e.QueueStats(now, []byte("q"))
			if s.Items != tt.queued || s.OpenReads != int64(len(refs)) {
				t.Errorf("%d items are left and %d open, want %d and %d",
					s.Items, s.OpenReads, tt.queued, len(refs))
			}
			e.AbortAll(now, refs)
			var again collected
			for {
				if _, err := e.Fetch(now, []byte("q"), FetchRequest{Access: Take}, &again); err != nil {
					break
				}
			}
			var live []string
			for _, data := range tt.puts {
				if data != "expired" {
					live = append(live, data)
				}
			}
			if want := strings.Join(live, " "); string(again) != want {
				t.Errorf("after AbortAll there is %.20q, want %.20q", string(again), want)
			}
			verify(t, e)
		})
	}
}

func TestFetchManyTakes(t *testing.T) {
	const all = 100
	large := strings.Repeat("x", maxFetchBytes-1)
	tests := []struct {
		name  string
		puts  []string
		most  int
		takes int
		want  string
		err   error
		left  string // afterwards
	}{
		{"as many as are asked for", []string{"a", "b", "c"}, 2, all, "a b", nil, "c"},
		{"as many as there are", []string{"a", "b"}, 3, all, "a b", nil, ""},
		{"none", nil, 3, all, "", ErrEmpty, ""},
		{"as many as are taken", []string{"a", "b", "c"}, 3, 1, "a", nil, "b c"},
		{"not even one is taken", []string{"a", "b"}, 3, 0, "", ErrNotTaken, "a b"},
		{"as many bytes as may go at once", []string{large, "b", "c"}, 3, all, large + " b", nil, "c"},
		{"at least one item", []string{large + large, "b"}, 2, all, large + large, nil, "b"},
		{"those that have not expired", []string{"expired", "a", "expired", "b"}, 3, all, "a b", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, fsys := newQuiet(t)
			now := Now()
			putStored(t, e, now, tt.puts)
			r := &atMost{left: tt.takes}
			w := &Waiter{Notify: make(wakeUp, 1)}
			f := FetchRequest{Access: Take, Waiter: w}
			var got Fetched
			var refs []ReadRef
			err := e.FetchMany(now, []byte("q"), &f, tt.most, r, &refs, &got)
			n := got.Count
			if err != tt.err || string(r.collected) != tt.want || n != len(strings.Fields(tt.want)) {
				t.Errorf("FetchMany hands out %d, %.20q, with %v, want %.20q with %v",
					n, string(r.collected), err, tt.want, tt.err)
			}
			if len(refs) > 0 {
				t.Errorf("%d reads are open", len(refs))
			}
			if waits := tt.err == ErrEmpty; got.Waiting != waits || e.CancelWait(w) != waits {
				t.Errorf("Waiting = %v, want %v", got.Waiting, waits)
			}
			if s, _ := e.QueueStats(now, []byte("q")); s.Hits != int64(n) {
				t.Errorf("%d hits are counted, want %d", s.Hits, n)
			}
			if err := e.Commit(got.Ticket); err != nil {
				t.Fatal(err)
			}
			verify(t, e)
			for i, e := range []*Engine{e, openQuiet(t, testOptions(fsys.Kill()))} {
				if left := strings.Join(drain(t, e, "q"), " "); left != tt.left {
					t.Errorf("engine %d has %.20q afterwards, want %.20q", i, left, tt.left)
				}
			}
		})
	}
}

// TestCollectNotTaken checks that an item that a waiter does not take is the next one's.
func TestCollectNotTaken(t *testing.T) {
	e, _ := newQuiet(t)
	w := &Waiter{Notify: make(wakeUp, 1)}
	if f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: Take, Waiter: w}, new(collected)); !f.Waiting {
		t.Fatal(err)
	}
	mustPut(t, e, "q", "a")
	if _, ok := e.Collect(Now(), w.Read, FetchRequest{Access: Take}, &atMost{}); ok {
		t.Error("Collect of an item that is not taken = true")
	}
	if got := mustGet(t, e, "q"); got != "a" {
		t.Errorf("the next fetch has %q", got)
	}
	verify(t, e)
}
