package engine

import (
	"errors"
	"testing"
)

func TestFlushAndDelete(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.9 flush discards what is queued, and counts", `
			put q a
			put q b
			flush q
			stats q items bytes flushes -> 0 0 1
			flush q
			stats q flushes -> 2
			kill
			items q ->`},
		{"4.9 flush leaves open reads, which may come back", `
			put q a
			put q b
			put q c
			open q r -> a
			open q s -> b
			flush q
			stats q items open -> 0 2
			abort r
			items q -> a
			kill
			items q -> a b`},
		{"4.9 flush takes returned items", `
			put q a
			put q b
			open q r -> a
			abort r
			flush q
			items q ->
			put q c
			kill
			items q -> c`},
		{"open reads around a flush, confirmed and not", `
			put q a
			put q b
			put q c
			put q d
			open q ra -> a
			open q rb -> b
			open q rc -> c
			confirm rb
			flush q
			confirm rc
			put q e
			kill
			items q -> a e`},
		{"4.9 a flushed queue's next items are not touched by a restart", `
			put q a
			flush q
			put q b
			restart
			items q -> b`},
		{"4.9 flush-all flushes every queue", `
			put a 1
			put b 2
			put p+c 3
			flushall
			items a ->
			items b ->
			items p+c ->
			stats a flushes -> 1
			kill
			items a ->
			items b ->`},
		{"4.10 flush-all is refused before it flushes anything", `
			set c dequeue_client=me
			set b dequeue_client=other
			put a 1
			put b 2
			put c 3
			flushall client=me -> not admitted
			items a -> 1
			items b -> 2
			items c -> 3
			stats a flushes -> 0
			set b dequeue_client=me
			flushall client=me
			items a ->
			items b ->
			items c ->`},
		{"4.9 delete takes queue, items and counters; the next use makes a new one", `
			put q a
			put q b
			get q -> a
			delete q
			queues ->
			stats q items -> none
			get q -> empty
			put q c
			stats q items puts hits -> 1 1 0
			kill
			items q -> c`},
		{"4.9 a deleted queue stays deleted", `
			put q a
			put p b
			delete q
			kill
			queues -> p
			delete p
			restart
			queues ->`},
		{"4.9 delete of an unknown name does nothing", `
			delete nobody
			delete p+nobody
			get p -> empty
			stats p children ->
			queues -> p`},
		{"deleted and made again, in one journal", `
			put q a
			delete q
			put q b
			delete q
			put q c
			put q d
			get q -> c
			kill
			items q -> d`},
	})
}

// TestFlushCoversGetsInFlight: when a flush is acknowledged, so is, for the state after a crash, a
// get that came before it and was not committed.
func TestFlushCoversGetsInFlight(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "a")
	if _, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{}); err != nil {
		t.Fatal(err)
	}
	ticket, err := e.Flush(Now(), []byte("q"), "")
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "")
}

// TestNotAdmitted holds refusals to the original's words, and to what they tell a program.
func TestNotAdmitted(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.EnqueueClientID, o.DequeueClientID = "in", "out" })
	q, now := []byte("q"), Now()
	if _, err := e.Put(now, q, PutRequest{ClientID: "in"}); err != nil {
		t.Fatal(err)
	}
	put := func(id string) error { _, err := e.Put(now, q, PutRequest{ClientID: id}); return err }
	fetch := func(id string) error {
		_, err := e.Fetch(now, q, FetchRequest{Access: OpenRead, ClientID: id}, &copied{})
		return err
	}
	flush := func(id string) error { _, err := e.Flush(now, q, id); return err }
	flushAll := func(id string) error { _, err := e.FlushAll(now, id); return err }
	const (
		add    = "The operation add is disallowed on queue q. "
		remove = "The operation remove is disallowed on queue q. "
		noID   = "ClientId not specified when queue q only allows a white-listed clientId"
	)
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"put", put("out"), add + "ClientId out is not allowed to enqueue to queue q"},
		{"put without an id", put(""), add + noID},
		{"fetch", fetch("in"), remove + "ClientId in is not allowed to dequeue from queue q"},
		{"fetch without an id", fetch(""), remove + noID},
		{"flush", flush("in"), remove + "ClientId in is not allowed to dequeue from queue q"},
		{"flush of all", flushAll(""), remove + noID},
	} {
		var refused *NotAdmittedError
		if !errors.Is(tt.err, ErrNotAdmitted) || !errors.As(tt.err, &refused) || refused.Queue != "q" {
			t.Errorf("%s: error %v, want a NotAdmittedError of queue q", tt.name, tt.err)
		} else if tt.err.Error() != tt.want {
			t.Errorf("%s is refused with\n%s, want\n%s", tt.name, tt.err, tt.want)
		}
	}
	if got := len(queued(e, "q")); got != 1 {
		t.Errorf("the queue holds %d items, want that nobody touched the one", got)
	}
}

// TestFlushBesideOpenReads flushes single items, queued and returned, of a queue of which many are open. What the
// journal is given does not depend on how many, and a kill finds those that are open.
func TestFlushBesideOpenReads(t *testing.T) {
	e, _ := newQuiet(t)
	const open, rounds = 1000, 20
	putMany(t, e, "q", 0, open)
	var refs []ReadRef
	for range open {
		ref, _ := mustOpen(t, e, "q")
		refs = append(refs, ref)
	}
	before := e.journal.End()
	for i := range rounds {
		putMany(t, e, "q", open+i, 1)
		e.Abort(Now(), refs[i])
		ticket, err := e.Flush(Now(), []byte("q"), "")
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	if n := (e.journal.End() - before) / rounds; n > 100 {
		t.Errorf("the journal was given %d bytes for an item of 30 and a flush", n)
	}
	if got := kill(t, e).Recovery().Items; got != open-rounds {
		t.Errorf("after a kill there are %d items, want %d", got, open-rounds)
	}
}
