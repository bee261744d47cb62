package engine

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
)

// moveBetween expires item "a" of queue q into another queue, which is in another shard. It calls hook after the item
// has arrived there, and before q has let go of it.
func moveBetween(t *testing.T, journaled bool, hook func(*Engine)) (e *Engine, target string) {
	t.Helper()
	e, _ = newQuiet(t)
	target = nameInOtherShard(e, "q")
	o := DefaultQueueOptions()
	o.ExpireTo, o.KeepJournal = target, journaled
	s := Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q": o}}
	if err := e.Reload(s); err != nil {
		t.Fatal(err)
	}
	now := Now()
	expiry := now + 60_000 // later than any fetch or put of the test sweeps
	if _, err := e.Put(now, []byte("q"), PutRequest{Data: []byte("a"), Expiry: expiry}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "q", "b")
	w := &Waiter{Notify: notifierFunc(func(*Waiter) { hook(e) })}
	f := FetchRequest{Access: Peek, Waiter: w}
	if _, err := e.Fetch(now, []byte(target), f, nil); err != ErrEmpty {
		t.Fatal(err)
	}
	_, ticket := e.FlushExpired(expiry+1, []byte("q"))
	mustCommit(t, e, ticket)
	e.Confirm(now, w.Read) // forgets the copy
	return e, target
}

// TestMoveIsAtomic is killed while an expired item is on its way: it is in one of the two queues.
func TestMoveIsAtomic(t *testing.T) {
	var killed *Engine
	e, target := moveBetween(t, true, func(e *Engine) {
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		killed = kill(t, e)
	})
	for _, e := range []*Engine{e, killed} {
		wantItems(t, e, "q", "b")
		wantItems(t, e, target, "a")
	}
}

// TestKeepBesideMove has what lives in a run, or in old segments, recorded again while an item is on its way. The journal
// already says that it has arrived. A kill then must not find it in both queues.
func TestKeepBesideMove(t *testing.T) {
	for name, keep := range map[string]func(e *Engine, q *queue){
		"run": func(e *Engine, q *queue) {
			q.moving.First().lieIn(0) // as if a run had it
			k := keeping{e: e, q: q}
			k.ids.AddRange(idset.Between(1, q.nextID-1))
			k.piece()
		},
		"segments": func(e *Engine, q *queue) {
			e.keepOldReads(q, &trim.Plan{Target: math.MaxUint64, Left: 1 << 20}, &readCursor{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var killed *Engine
			_, target := moveBetween(t, true, func(e *Engine) {
				q := e.shardOf([]byte("q")).queues["q"]
				q.shard.mu.Lock()
				keep(e, q)
				q.shard.mu.Unlock()
				mustCommit(t, e, Ticket{Written: e.journal.End()})
				killed = kill(t, e)
			})
			wantItems(t, killed, "q", "b")
			wantItems(t, killed, target, "a")
		})
	}
}

// TestMoveMeetsOthers has the queue emptied, deleted, rewritten, or taken out of the journal or
// into it, while an item is on its way out.
func TestMoveMeetsOthers(t *testing.T) {
	toggle := func(e *Engine, q *queue) {
		o := *q.opts
		o.KeepJournal = !o.KeepJournal
		e.setOptions(q, &o)
	}
	for _, tt := range []struct {
		name       string
		journaled  bool
		change     func(*Engine, *queue) // with the queue's lock held
		live, left string                // in the queue then, and after a kill
	}{
		{"nothing", true, func(*Engine, *queue) {}, "b", "b"},
		{"rewritten", true, func(e *Engine, q *queue) {
			e.keepOldReads(q, &trim.Plan{Target: math.MaxUint64, Left: 1 << 20}, &readCursor{})
		}, "b", "b"},
		{"delete", true, func(e *Engine, q *queue) { e.delete(q) }, "", ""},
		{"flush", true, func(e *Engine, q *queue) { clearNow(e, q) }, "", ""},
		{"out of the journal", true, toggle, "b", ""},
		{"into the journal", false, toggle, "b", "b"},
		{"out and in again", true, func(e *Engine, q *queue) {
			toggle(e, q)
			toggle(e, q)
		}, "b", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, target := moveBetween(t, tt.journaled, func(e *Engine) {
				sh := e.shardOf([]byte("q"))
				sh.mu.Lock()
				defer sh.mu.Unlock()
				tt.change(e, sh.queues["q"])
			})
			mustPut(t, e, "commit", "x")
			wantItems(t, e, "q", tt.live)
			wantItems(t, e, target, "a")
			killed := kill(t, e)
			wantItems(t, killed, "q", tt.left)
			wantItems(t, killed, target, "a")
		})
	}
}

// TestMovingQueueDoesNotExpire: a queue with an item on its way out is not empty.
func TestMovingQueueDoesNotExpire(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.MaxQueueAge = 1 })
	mustPut(t, e, "q", "a")
	sh := e.shardOf([]byte("q"))
	sh.mu.Lock()
	var it Item
	sh.queues["q"].first(&it)
	e.moveOut(sh.queues["q"], &it, "dead")
	moves := sh.takeMoves()
	sh.mu.Unlock()
	later := Now() + 1000
	e.expireQueues(later)
	if _, ok := e.QueueStats(later, []byte("q")); !ok {
		t.Error("the queue expired")
	}
	e.finishMoves(later, moves)
	e.expireQueues(later)
	if _, ok := e.QueueStats(later, []byte("q")); ok {
		t.Error("the queue did not expire")
	}
	wantItems(t, e, "dead", "a")
}

// sweepingTwice returns an engine whose queue "q" holds items "a" to "d", which expire into the queue
// "dead" that another lock guards. Somebody has taken "a" and "b" out of it, and not gone on: carry does
// that. Later all of them have expired.
func sweepingTwice(t *testing.T) (e *Engine, dead string, later Time, carry func()) {
	t.Helper()
	e, _ = newQuiet(t)
	dead = nameInOtherShard(e, "q")
	o := DefaultQueueOptions()
	o.ExpireTo = dead
	s := Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q": o}}
	if err := e.Reload(s); err != nil {
		t.Fatal(err)
	}
	now := Now()
	later = now + 10
	e.spool.now = func() Time { return later }
	for i, data := range []string{"a", "b", "c", "d"} {
		p := PutRequest{Data: []byte(data), Expiry: now + Time(1+i/2)}
		ticket, err := e.Put(now, []byte("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	sh := e.shardOf([]byte("q"))
	sh.mu.Lock()
	n := e.sweep(sh.queues["q"], now+2, sweepBatch)
	moves := sh.takeMoves()
	sh.mu.Unlock()
	if n != 2 {
		t.Fatalf("%d items were swept, want 2", n)
	}
	return e, dead, later, func() { e.finishMoves(later, moves) }
}

// TestMovesKeepTheirOrder has two goroutines sweep a queue: the second has nothing left to do while the
// first has not gone on with what it took. What expired first arrives first.
func TestMovesKeepTheirOrder(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sweep func(e *Engine, later Time)
	}{
		{"fetch", func(e *Engine, later Time) {
			if _, err := e.Fetch(later, []byte("q"), FetchRequest{}, &copied{}); err != ErrEmpty {
				t.Errorf("Fetch = %v, want that the queue is empty", err)
			}
		}},
		{"put", func(e *Engine, later Time) {
			if _, err := e.Put(later, []byte("q"), PutRequest{Data: []byte("e")}); err != nil {
				t.Error(err)
			}
		}},
		{"removal of expired items", func(e *Engine, later Time) { e.FlushingExpired([]byte("q")).Do(later, 100) }},
		{"flush", func(e *Engine, later Time) { e.Flushing([]byte("q"), "").Do(later, 100) }},
		{"background", func(e *Engine, later Time) {
			sh := e.shardOf([]byte("q"))
			sh.mu.Lock()
			e.sweepLater(sh.queues["q"])
			sh.mu.Unlock()
			spoolAll(e)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, dead, later, carry := sweepingTwice(t)
			tt.sweep(e, later)
			verify(t, e)
			carry()
			verify(t, e)
			wantItems(t, e, dead, "a b c d")
			mustCommit(t, e, Ticket{Written: e.journal.End()})
			wantItems(t, kill(t, e), dead, "a b c d")
		})
	}
}

// TestFlushWaitsForMoves has another goroutine carry what a flush, or a removal of expired items, has
// taken out. It is over when that has arrived, and after a kill nothing is back where it was.
func TestFlushWaitsForMoves(t *testing.T) {
	for _, start := range []func(*Engine) *Clearing{
		func(e *Engine) *Clearing { return e.Flushing([]byte("q"), "") },
		func(e *Engine) *Clearing { return e.FlushingExpired([]byte("q")) },
	} {
		e, dead, later, carry := sweepingTwice(t)
		c := start(e)
		for range 3 {
			if !c.Do(later, 100) {
				t.Fatal("it is over, but nothing has arrived")
			}
		}
		waited := make(chan struct{})
		go func() {
			c.Wait()
			close(waited)
		}()
		carry()
		<-waited
		if c.Do(later, 100) {
			t.Error("it goes on, but all has arrived")
		}
		_, ticket, err := c.Result()
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		killed := kill(t, e)
		wantItems(t, killed, "q", "")
		wantItems(t, killed, dead, "a b c d")
	}
}

// TestMovesLeft has somebody meet more moves of others than one operation carries. The rest follows in
// its order, with the next operation or in the background.
func TestMovesLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		finish func(e *Engine, later Time)
	}{
		{"background", func(e *Engine, _ Time) { spoolAll(e) }},
		{"flush", func(e *Engine, later Time) {
			if _, err := e.Flush(later, []byte("q"), ""); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, dead, later, carry := sweepingTwice(t)
			want := append([]string{"a", "b", "c", "d"}, putExpired(t, e, maxCarry, later)...)
			var got copied
			if _, err := e.Fetch(later, []byte("q"), FetchRequest{}, &got); err != ErrComing {
				t.Fatalf("Fetch = %v, want that it leaves a part to the background", err)
			}
			carry()
			if s, _ := e.QueueStats(later, []byte(dead)); s.Items != maxCarry {
				t.Errorf("%d items have arrived, want %d", s.Items, maxCarry)
			}
			tt.finish(e, later)
			if got := queued(e, dead); !slices.Equal(got, want) {
				t.Errorf("%d items arrived, or not in order, want %d", len(got), len(want))
			}
		})
	}
}

// TestMovesAreBounded has one operation after the other meet thousands of expired items that go to another queue. None
// moves more than maxCarry of them; others do the rest. A reject among them arrives before its call returns.
func TestMovesAreBounded(t *testing.T) {
	e, dead, later, carry := sweepingTwice(t)
	carry()
	mustPut(t, e, "q", "rejected")
	ref, data := mustOpen(t, e, "q")
	for data != "rejected" {
		ref, data = mustOpen(t, e, "q")
	}
	putExpired(t, e, 10*sweepBatch, later)
	did := func(what string, most int64, f func()) {
		t.Helper()
		expired, _ := e.QueueStats(later, []byte("q"))
		arrived, _ := e.QueueStats(later, []byte(dead))
		f()
		after, _ := e.QueueStats(later, []byte("q"))
		there, _ := e.QueueStats(later, []byte(dead))
		if n, m := after.Expired-expired.Expired, there.Items-arrived.Items; n+m == 0 && most > 0 || n > most || m > maxCarry+1 {
			t.Errorf("%s takes out %d expired items, want %d at most, and carries %d, want %d at most", what, n, most, m, maxCarry+1)
		}
	}
	did("a put", moveBatch, func() {
		if _, err := e.Put(later, []byte("q"), PutRequest{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	})
	did("a piece of a removal", moveBatch, func() { e.FlushingExpired([]byte("q")).Do(later, 1) })
	did("a fetch", maxCarry, func() {
		if _, err := e.Fetch(later, []byte("q"), FetchRequest{}, &copied{}); err != ErrComing {
			t.Fatal(err)
		}
	})
	did("a reject", 0, func() {
		if _, n, err := e.Return(later, []ReadRef{ref}, Return{How: Reject}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if s, _ := e.QueueStats(later, []byte("q_dead")); s.Items != 1 {
			t.Errorf("%d rejected items have arrived, want one", s.Items)
		}
	})
}

// putExpired puts n items into queue "q" that have expired later.
func putExpired(t *testing.T, e *Engine, n int, later Time) (all []string) {
	t.Helper()
	var puts []PutRequest
	for i := range n {
		all = append(all, fmt.Sprint(i))
		puts = append(puts, PutRequest{Data: []byte(all[i]), Expiry: later - 1})
	}
	ticket := Ticket{}
	for len(puts) > 0 {
		s, err := e.PutAll(later-10, []byte("q"), puts)
		if err != nil {
			t.Fatal(err)
		}
		puts, ticket = puts[s.Count:], ticket.Merge(s.Ticket)
	}
	mustCommit(t, e, ticket)
	return all
}

// TestMovesOfMany has many goroutines sweep one queue in all ways. All items arrive, in order.
func TestMovesOfMany(t *testing.T) {
	e, dead, later, carry := sweepingTwice(t)
	want := append([]string{"a", "b", "c", "d"}, putExpired(t, e, 8*sweepBatch, later)...)
	fetch := func() {
		_, err := e.Fetch(later, []byte("q"), FetchRequest{}, &copied{})
		if err != ErrEmpty && err != ErrComing {
			t.Errorf("Fetch = %v, want that there is nothing", err)
		}
	}
	var all sync.WaitGroup
	for _, f := range []func(){
		carry, fetch, fetch,
		func() { e.FlushExpired(later, []byte("q")) },
		func() { e.Flush(later, []byte("q"), "") },
		func() { spoolAll(e) },
	} {
		all.Go(f)
	}
	all.Wait()
	spoolAll(e)
	if got := queued(e, dead); !slices.Equal(got, want) {
		t.Errorf("%d items arrived, or not in order, want %d", len(got), len(want))
	}
}
