package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
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

// anyClient fetches from several queues at once.
type anyClient struct {
	deleted []string // queues, since its fetch began
	e       *Engine
	wait    AnyWait
	names   [][]byte // of the fetch under way
	// between is called before each queue of a fetch is looked at.
	between func()
	access  Access

	mu    sync.Mutex
	from  int
	got   []string // queue and item
	ended bool     // Notify has heard
}

func (c *anyClient) From(i int) {
	if c.from = i; c.between != nil {
		c.between()
	}
}

func (c *anyClient) Receive(it Item) bool {
	c.got = append(c.got, fmt.Sprintf("%s %s", c.names[c.from], it.Data))
	return true
}

func (c *anyClient) WaitEnded(*Waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

func (c *anyClient) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// fetch returns whether the client waits.
func (c *anyClient) fetch(names ...string) (waiting bool, err error) {
	c.names, c.ended, c.wait.Notify = nil, false, c
	for _, name := range names {
		c.names = append(c.names, []byte(name))
	}
	got, _, err := c.e.FetchAny(Now(), c.names, FetchRequest{Access: c.access}, &c.wait, c)
	return got.Waiting, err
}

// collect takes what a wait that has ended has brought.
func (c *anyClient) collect() {
	which, ref, _ := c.e.EndAny(&c.wait)
	if c.from = which; !ref.IsZero() {
		c.e.Collect(Now(), ref, FetchRequest{Access: c.access}, c)
	}
}

// TestFetchAnyInterleaved has clients fetch from several queues at once. Between one queue of a fetch and the next,
// items are put, queues are deleted, and other clients come and go. Every item is taken once, by whoever may have it;
// nobody waits while there is an item for him.
//
// Its control is an AnyWait whose win always succeeds: items are taken that nobody receives.
func TestFetchAnyInterleaved(t *testing.T) {
	queues := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(rt *rapid.T) {
		e, _ := newQuiet(t)
		defer e.Close()
		var put, dropped []string
		clients := make([]*anyClient, 4)
		waiting := make([]bool, len(clients))
		var act func(depth int)
		some := func(label string) []string {
			names := rapid.Permutation(queues).Draw(rt, label)
			return names[:rapid.IntRange(1, len(names)).Draw(rt, "how many")]
		}
		act = func(depth int) {
			switch n := rapid.IntRange(0, 9).Draw(rt, "act"); {
			case n < 4:
				name := rapid.SampledFrom(queues).Draw(rt, "queue")
				item := fmt.Sprint(len(put))
				if _, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte(item)}); err != nil {
					rt.Fatal(err)
				}
				put = append(put, name+" "+item)
			case n < 8:
				i := rapid.IntRange(0, len(clients)-1).Draw(rt, "client")
				c := clients[i]
				switch {
				case c.names != nil && c.between != nil: // it is in the middle of a fetch
				case !waiting[i]:
					c.between = func() {
						if depth < 3 && rapid.Bool().Draw(rt, "between") {
							act(depth + 1)
						}
					}
					c.deleted = nil
					waits, err := c.fetch(some("names")...)
					if c.between = nil; waits != (err == ErrEmpty) {
						rt.Fatalf("waits %t, error %v", waits, err)
					}
					waiting[i] = waits
				case c.hasEnded():
					waiting[i] = false
					c.collect()
				case !e.CancelAny(&c.wait):
					rt.Fatal("a wait that has not ended cannot be canceled")
				default:
					waiting[i] = false
				}
			case n < 9:
				name := rapid.SampledFrom(queues).Draw(rt, "deleted")
				for i, c := range clients { // an item on its way goes with the queue
					switch {
					case c.between != nil && c.hasEnded():
						return
					case waiting[i] && c.hasEnded():
						waiting[i] = false
						c.collect()
					}
				}
				for _, item := range queued(e, name) {
					dropped = append(dropped, name+" "+item)
				}
				for _, c := range clients { // a wait goes on without a queue that is deleted
					c.deleted = append(c.deleted, name)
				}
				e.Delete(Now(), []byte(name))
			default:
				verify(t, e)
			}
		}
		for i := range clients {
			clients[i] = &anyClient{e: e, access: rapid.SampledFrom([]Access{Take, OpenRead}).Draw(rt, "access")}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			act(0)
		}
		verify(t, e)
		all := slices.Clone(dropped)
		for i, c := range clients {
			switch {
			case waiting[i] && c.hasEnded():
				c.collect()
			case waiting[i]:
				for _, name := range c.names {
					if len(queued(e, string(name))) > 0 && !slices.Contains(c.deleted, string(name)) {
						rt.Fatalf("client %d waits for %q, and there is an item in %s", i, c.names, name)
					}
				}
				e.CancelAny(&c.wait)
			}
			all = append(all, c.got...)
		}
		for _, name := range queues {
			for _, item := range queued(e, name) {
				all = append(all, name+" "+item)
			}
			if q, ok := e.QueueStats(Now(), []byte(name)); ok && q.Waiters != 0 {
				rt.Fatalf("%d still wait for %s", q.Waiters, name)
			}
		}
		slices.Sort(all)
		slices.Sort(put)
		if !slices.Equal(all, put) {
			rt.Fatalf("put %q, there are %q", put, all)
		}
	})
}

// TestFetchAnyConcurrent has clients that wait for several queues, and producers, on goroutines of their own. When
// nobody can go on, all items have been taken, each once.
func TestFetchAnyConcurrent(t *testing.T) {
	const items, clients, names = 400, 6, 5
	synctest.Test(t, func(t *testing.T) {
		e, _ := newQuiet(t)
		var taken [names * items]atomic.Int32
		var left atomic.Int64
		left.Store(names * items)
		var consumers, all sync.WaitGroup
		stop := make(chan struct{})
		for n := range clients {
			consumers.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(n)))
				c := &signalClient{anyClient: anyClient{e: e}, news: make(chan struct{}, 1)}
				for {
					order := random.Perm(names)[:2+n%(names-1)]
					c.names, c.wait.Notify = nil, c
					for _, i := range order {
						c.names = append(c.names, []byte{byte('a' + i)})
					}
					got, _, err := e.FetchAny(Now(), c.names, FetchRequest{}, &c.wait, c)
					if got.Waiting {
						select {
						case <-c.news:
							c.collect()
						case <-stop:
							if e.CancelAny(&c.wait) {
								return
							}
							<-c.news
							c.collect()
						}
					} else if err != nil {
						t.Errorf("FetchAny = %v", err)
						return
					}
					for _, item := range c.got {
						var name string
						var i int
						fmt.Sscan(item, &name, &i)
						taken[i].Add(1)
						left.Add(-1)
					}
					c.got = c.got[:0]
				}
			})
		}
		for n := range names {
			all.Go(func() {
				for i := range items {
					data := fmt.Append(nil, n*items+i)
					if _, err := e.Put(Now(), []byte{byte('a' + n)}, PutRequest{Data: data}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		synctest.Wait() // nobody can go on: all clients wait
		if n := left.Load(); n != 0 {
			t.Errorf("%d items are left while all wait", n)
		}
		close(stop)
		consumers.Wait()
		for i := range taken {
			if n := taken[i].Load(); n != 1 {
				t.Fatalf("item %d was taken %d times", i, n)
			}
		}
		verify(t, e)
	})
}

// signalClient is an anyClient on a goroutine of its own.
type signalClient struct {
	anyClient
	news chan struct{}
}

func (c *signalClient) WaitEnded(*Waiter) { c.news <- struct{}{} }

// TestFetchAny tests the order of queues, and what is said of those that cannot be fetched from.
func TestFetchAny(t *testing.T) {
	e, _ := newQuiet(t)
	c := &anyClient{e: e}
	for _, put := range []string{"b 1", "a 2", "b 3"} {
		e.Put(Now(), []byte(put[:1]), PutRequest{Data: []byte(put[2:])})
	}
	for range 3 {
		if waiting, err := c.fetch("a", "b", "c"); waiting || err != nil {
			t.Fatalf("waiting %t, %v", waiting, err)
		}
	}
	if got := fmt.Sprint(c.got); got != "[a 2 b 1 b 3]" {
		t.Errorf("got %s: the first queue comes first", got)
	}
	if waiting, err := c.fetch("a", "b"); !waiting || err != ErrEmpty {
		t.Errorf("no item: waiting %t, %v", waiting, err)
	}
	e.Delete(Now(), []byte("a"))
	if c.hasEnded() {
		t.Error("the wait has ended with one of its queues")
	}
	e.Delete(Now(), []byte("b"))
	if !c.hasEnded() {
		t.Error("the wait goes on without its queues")
	}
	if _, ref, err := e.EndAny(&c.wait); !ref.IsZero() || err != ErrDeleted {
		t.Errorf("ended with %v", err)
	}
	got, _, err := e.FetchAny(Now(), [][]byte{[]byte("x"), []byte("y")}, FetchRequest{Immediate: true}, &c.wait, c)
	if got.Waiting || err != ErrEmpty {
		t.Errorf("an immediate fetch: waiting %t, %v", got.Waiting, err)
	}
	c.names = [][]byte{[]byte("bad.name"), []byte("z")}
	if _, _, err := e.FetchAny(Now(), c.names, FetchRequest{}, &c.wait, c); err == ErrEmpty || err == nil {
		t.Errorf("a bad name: %v", err)
	}
	if q, _ := e.QueueStats(Now(), []byte("z")); q.Waiters != 0 {
		t.Error("a fetch that was refused waits")
	}
}
