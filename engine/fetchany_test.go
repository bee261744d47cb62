package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

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
