package engine

import (
	"fmt"
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.5 expired is strictly after the expiry", `
			put q a expiry=+1s
			after 1s
			peek q -> a
			after 1ms
			get q -> empty
			stats q expired items -> 1 0`},
		{"4.5 max_age is strict too", `
			set q max_age=1s
			put q a
			after 1s
			peek q -> a
			after 1ms
			peek q -> empty
			stats q expired -> 1`},
		{"4.5 the earlier of expiry and max_age counts", `
			set q max_age=10s
			put q a expiry=+1s
			put q b expiry=+1h
			after 2s
			items q -> a b
			get q -> b
			put q c expiry=+1h
			after 11s
			get q -> empty`},
		{"4.5 a change of max_age holds for items already queued", `
			put q a
			after 10s
			put q b
			set q max_age=5s
			get q -> b
			stats q expired -> 1`},
		{"4.5 a larger max_age revives what is still queued", `
			set q max_age=1s
			put q a
			after 2s
			set q max_age=1m
			get q -> a`},
		{"4.5 only the head is examined", `
			put q a
			put q b expiry=+1s
			after 2s
			flushexpired q -> 0
			stats q items -> 2
			get q -> a
			get q -> empty`},
		{"4.5 an expiry in the past: stored, then gone", `
			put q a expiry=-1s
			stats q items -> 1
			get q -> empty
			stats q expired puts -> 1 1`},
		{"4.5 quirk: a fetch skips every expired item, whatever max_expire_sweep", `
			set q max_expire_sweep=1
			put q a expiry=+1s
			put q b expiry=+1s
			put q c expiry=+1s
			put q d
			after 2s
			get q -> d
			stats q expired -> 3`},
		{"4.5 peek and open skip expired items", `
			put q a expiry=+1s
			put q b
			after 2s
			peek q -> b
			stats q expired -> 1
			put q c expiry=+1s
			open q r -> b
			after 2s
			open q s -> empty`},
		{"4.5 flush-expired is limited by max_expire_sweep", `
			set q max_expire_sweep=2
			put q a expiry=+1s
			put q b expiry=+1s
			put q c expiry=+1s
			after 2s
			flushexpired q -> 2
			flushexpired q -> 1
			flushexpired q -> 0
			kill
			items q ->`},
		{"4.5 flush-all-expired is the sum", `
			put q a expiry=+1s
			put p b expiry=+1s
			put p c expiry=+1s
			put p d
			after 2s
			flushallexpired -> 3
			items p -> d
			items q ->
			kill
			items p -> d
			items q ->`},
		{"4.5 nothing expires while the journal is replayed", `
			put q a expiry=+1s
			after 2s
			kill
			stats q items replayed expired -> 1 1 0
			get q -> empty
			stats q expired -> 1`},
		{"expiries survive a restart", `
			put q a expiry=+10s
			put q b
			restart
			after 10s
			peek q -> a
			after 1ms
			get q -> b`},
	})
}

func TestExpireTo(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.5 swept items are appended to the named queue, in order, with flags", `
			set q expire_to=dead
			put q a expiry=+1s flags=5
			put q b expiry=+2s
			put q c
			after 3s
			get q -> c
			items dead -> a b
			get dead -> a flags=5
			stats dead into -> 2
			stats q expired -> 2`},
		{"4.5 there they have no expiry of their own, and are added now", `
			set q expire_to=dead
			set dead max_age=10s
			put q a expiry=+1s
			after 30s
			flushexpired q -> 1
			after 10s
			peek dead -> a
			after 1ms
			peek dead -> empty`},
		{"4.5 the move survives a kill", `
			set q expire_to=dead
			put q a expiry=+1s
			after 2s
			flushexpired q -> 1
			kill
			items q ->
			items dead -> a`},
		{"4.5 past the target's children and an alias of its name", `
			set q expire_to=dead
			get dead+x -> empty
			alias dead other
			put q a expiry=+1s
			after 2s
			flushexpired q -> 1
			items dead -> a
			items dead+x ->
			items other ->`},
		{"4.5 past fanout_only", `
			set dead fanout_only
			set q expire_to=dead
			get dead+x -> empty
			put q a expiry=+1s
			after 2s
			flushexpired q -> 1
			items dead -> a
			items dead+x ->`},
		{"4.5 what a full target refuses is lost", `
			set dead max_items=1
			set q expire_to=dead
			put q a expiry=+1s
			put q b expiry=+1s
			after 2s
			flushexpired q -> 2
			items dead -> a
			stats dead into lost -> 1 1
			kill
			items q ->
			items dead -> a`},
		{"4.5 a target may drop its oldest for it", `
			set dead max_items=1 discard
			set q expire_to=dead
			put q a expiry=+1s
			put q b expiry=+1s
			after 2s
			flushexpired q -> 2
			items dead -> b
			kill
			items dead -> b
			items q ->`},
		{"4.5 quirk: the target is looked up at each sweep", `
			set q expire_to=one
			put q a expiry=+1s
			set q expire_to=two
			after 2s
			flushexpired q -> 1
			items two -> a
			delete two
			put q b expiry=+1s
			after 2s
			flushexpired q -> 1
			items two -> b
			queues -> q two`},
		{"4.5 quirk: a queue may not expire into itself", `
			set q expire_to=q -> refused`},
		{"4.5 a longer cycle is allowed and ends", `
			set a expire_to=b max_age=1s
			set b expire_to=a max_age=1s
			put a x
			after 2s
			flushexpired a -> 1
			items b -> x
			after 2s
			flushallexpired -> 1
			items a -> x
			items b ->`},
		{"a chain: the move makes room by moving on", `
			set a expire_to=b
			set b expire_to=c max_age=1s
			put a x expiry=+1s
			put b y
			after 2s
			flushexpired a -> 1
			items b -> x
			items c -> y`},
		{"4.9 flush moves expired items at the head, and drops the rest", `
			set q expire_to=dead
			put q a expiry=+1s
			put q b
			after 2s
			flush q
			items dead -> a
			items q ->
			kill
			items dead -> a
			items q ->`},
		{"a returned item expires too", `
			set q expire_to=dead
			put q a expiry=+1s
			put q b
			open q r -> a
			after 2s
			abort r
			get q -> b
			items dead -> a
			kill
			items dead -> a
			items q ->`},
		{"a put that makes room moves the expired", `
			set q expire_to=dead max_items=1
			put q a expiry=+1s
			after 2s
			put q b
			items q -> b
			items dead -> a`},
		{"to a queue without journal, and from one", `
			set q expire_to=dead
			set dead journal=no
			put q a expiry=+1s
			after 2s
			flushexpired q -> 1
			items dead -> a
			kill
			items q ->
			items dead ->
			set mem journal=no expire_to=safe
			put mem b expiry=+1s
			after 2s
			flushexpired mem -> 1
			put safe c
			kill
			items safe -> b c`},
	})
}

// TestExpireManyAtOnce has a fetch sweep more than it removes under one lock.
func TestExpireManyAtOnce(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync, o.ExpireTo = SyncNever, "dead" })
	now := Now()
	const items = 2*moveBatch + 10
	for i := range items {
		p := PutRequest{Data: fmt.Append(nil, i), Expiry: now}
		if _, err := e.Put(now, []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	ticket, err := e.Put(now, []byte("q"), PutRequest{Data: []byte("alive")})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	if got := mustGetAt(t, e, now.After(time.Millisecond), "q"); got != "alive" {
		t.Errorf("got %q, want the item that is not expired", got)
	}
	again := openQuiet(t, testOptions(fsys.Kill()))
	for _, e := range []*Engine{e, again} {
		dead := queued(e, "dead")
		if len(dead) != items {
			t.Fatalf("%d items moved, want %d", len(dead), items)
		}
		for i, data := range dead {
			if data != fmt.Sprint(i) {
				t.Fatalf("moved item %d is %s", i, data)
			}
		}
	}
}

// mustGetAt is mustGet at an instant.
func mustGetAt(t testing.TB, e *Engine, now Time, name string) string {
	t.Helper()
	var got copied
	f, err := e.Fetch(now, []byte(name), FetchRequest{}, &got)
	if err != nil {
		t.Fatalf("Fetch(%q) = %v", name, err)
	}
	mustCommit(t, e, f.Ticket)
	return string(got.item.Data)
}

// TestServeLeavesSweep tests that serving the waiters removes at most one batch of expired items with the shard
// locked. The wait ends with the item behind them.
func TestServeLeavesSweep(t *testing.T) {
	const expired = 3 * sweepBatch
	e, _ := newQuiet(t, func(o *QueueOptions) { o.KeepJournal = false })
	now := Now()
	woken := make(wakeUp, 1)
	w := &Waiter{Notify: woken}
	f, err := e.Fetch(now, []byte("q"), FetchRequest{Access: OpenRead, Waiter: w}, &copied{})
	if err != ErrEmpty || !f.Waiting {
		t.Fatalf("Fetch = %v, waiting = %t", err, f.Waiting)
	}
	sh := e.shardOf([]byte("q"))
	sh.mu.Lock()
	q := sh.queues["q"]
	for i := range expired + 1 { // as they would come from disk
		p := PutRequest{Data: []byte("x"), Expiry: now - 1}
		if i == expired {
			p = PutRequest{Data: []byte("alive")}
		}
		e.push(q, &p, now-10)
	}
	e.serveWaiters(q, now)
	removed := q.counters.expired
	sh.mu.Unlock()
	if removed > sweepBatch {
		t.Errorf("%d expired items were removed at once, want %d at most", removed, sweepBatch)
	}
	verify(t, e)
	spoolAll(e)
	if len(woken) == 0 || w.Read.IsZero() || string(w.Read.r.item.Data) != "alive" {
		t.Errorf("the wait ended = %t, want that it got the item behind", len(woken) > 0)
	}
	e.Confirm(now, w.Read)
}

// TestFetchLeavesSweep tests that a fetch removes few of many expired items itself. It waits for the
// others to be removed in the background, and is served before later ones, in the order of the items.
func TestFetchLeavesSweep(t *testing.T) {
	for _, target := range []string{"", "dead"} {
		e, _ := newQuiet(t, func(o *QueueOptions) { o.Sync, o.ExpireTo = SyncNever, target })
		now := Now()
		e.spool.now = func() Time { return now + 1000 }
		const items = 10 * sweepBatch
		put := func(data string, expiry Time) {
			t.Helper()
			if _, err := e.Put(now, []byte("q"), PutRequest{Data: []byte(data), Expiry: expiry}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range items {
			put(fmt.Sprintf("%05d", i), now+1)
		}
		put("first", 0)
		woken := make(wakeUp, 1)
		w := &Waiter{Notify: woken}
		request := FetchRequest{Access: OpenRead, Waiter: w, Immediate: true}
		var got copied
		f, err := e.Fetch(now+1000, []byte("q"), request, &got)
		s, _ := e.QueueStats(now, []byte("q"))
		if err != ErrComing || !f.Waiting || s.Expired > maxSweeps*sweepBatch {
			t.Errorf("Fetch = %v, waiting = %t; it removed %d expired items, want %d at most",
				err, f.Waiting, s.Expired, maxSweeps*sweepBatch)
		}
		put("second", 0)
		if _, err := e.Fetch(now+1000, []byte("q"), FetchRequest{}, &got); err != ErrComing {
			t.Errorf("Fetch meanwhile = %v, want %v", err, ErrComing)
		}
		verify(t, e)
		spoolAll(e)
		if len(woken) == 0 || w.Read.IsZero() || string(w.Read.r.item.Data) != "first" {
			t.Errorf("the wait ended = %t, want that it got the first item", len(woken) > 0)
		}
		if data := mustGetAt(t, e, now+1000, "q"); data != "second" {
			t.Errorf("then came %q, want the second item", data)
		}
		if s, _ = e.QueueStats(now, []byte("q")); s.Expired != items {
			t.Errorf("%d items expired, want %d", s.Expired, items)
		}
		for i, data := range queued(e, "dead") {
			if data != fmt.Sprintf("%05d", i) {
				t.Fatalf("moved item %d is %s", i, data)
			}
		}
		if _, ok := e.Confirm(now, w.Read); !ok {
			t.Error("the read has ended")
		}
	}
}
