package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// expiring returns an engine whose queue "q" holds little in memory. Its items expire into the queue "dead". It also
// returns an instant at which the items of putNumbers have not expired yet.
func expiring(t *testing.T, f *hookFS) (*Engine, Time) {
	o := testOptions(nil)
	o.FS = f
	to := DefaultQueueOptions()
	to.MaxMemorySize, to.ExpireTo = 2000, "dead"
	o.Settings.Queues = map[string]QueueOptions{"q": to}
	e := openQuiet(t, o)
	now := Now()
	e.spool.now = func() Time { return now }
	return e, now
}

// putNumbers puts n items that expire a moment later, and calls each after each of them.
func putNumbers(t *testing.T, e *Engine, now Time, n int, each func(i int)) (all []string) {
	t.Helper()
	for i := range n {
		all = append(all, fmt.Sprintf("%0100d", i))
		p := PutRequest{Data: []byte(all[i]), Expiry: now + 1}
		ticket, err := e.Put(now, []byte("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		each(i)
	}
	return all
}

// TestFlushMovesEverywhere: a flush moves what has expired in its order, wherever it lies: read back,
// on disk alone, about to be written, or put last.
func TestFlushMovesEverywhere(t *testing.T) {
	for _, spill := range []int{-1, 0, 40, 80, 99} {
		e, now := expiring(t, &hookFS{FS: segmenttest.New()})
		want := putNumbers(t, e, now, 100, func(i int) {
			if i == spill {
				for q := e.spool.spills.Take(); q != nil; q = e.spool.spills.Take() {
					e.spool.spill(q)
				}
			}
		})
		ticket, err := e.Flush(now+1000, []byte("q"), "")
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		spoolAll(e)
		verify(t, e)
		if got := drain(t, e, "dead"); !slices.Equal(got, want) {
			t.Errorf("spilled after item %d: %d items arrived, or not in order, want %d", spill, len(got), len(want))
		}
	}
}

// TestFlushWhileSpilling flushes while items are being written to the backlog: they have expired, and
// arrive where the others do.
func TestFlushWhileSpilling(t *testing.T) {
	f := &hookFS{FS: segmenttest.New()}
	e, now := expiring(t, f)
	want := putNumbers(t, e, now, 100, func(int) {})
	c := e.Flushing([]byte("q"), "")
	writes := 0
	f.write = func(call func() error) error {
		if writes++; writes == 1 {
			c.Do(now+1000, 1<<20)
		}
		return call()
	}
	for q := e.spool.spills.Take(); q != nil; q = e.spool.spills.Take() {
		e.spool.spill(q)
	}
	f.write = nil
	for c.Do(now+1000, 1<<20) {
		c.Wait()
	}
	spoolAll(e)
	verify(t, e)
	if got := drain(t, e, "dead"); !slices.Equal(got, want) || writes == 0 {
		t.Errorf("%d items arrived, or not in order, want %d; %d writes", len(got), len(want), writes)
	}
	if s, _ := e.QueueStats(now, []byte("q")); s.Expired != 100 || s.Items != 0 {
		t.Errorf("%d items expired, want 100; %d are left", s.Expired, s.Items)
	}
}

// TestDeleteBehindDelete deletes a queue twice before the first is synced. The second must wait for the same sync, or a
// power cut brings back a queue that its reply said is gone.
func TestDeleteBehindDelete(t *testing.T) {
	e, _ := newQuiet(t)
	mustPut(t, e, "q", "a")
	first, second := e.Delete(Now(), []byte("q")), e.Delete(Now(), []byte("q"))
	if second.Synced < first.Synced || e.Committed(second) {
		t.Errorf("tickets of two deletes are %+v and %+v, want the second no earlier", first, second)
	}
	mustCommit(t, e, second)
}

// TestConfirmBehindDelete confirms a read whose queue was deleted a moment ago. The confirm must wait for the sync of
// the delete, or a power cut brings the item back.
func TestConfirmBehindDelete(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncAlways })
	mustPut(t, e, "q", "a")
	ref, _ := mustOpen(t, e, "q")
	deleted := e.Delete(Now(), []byte("q"))
	confirmed, _ := e.Confirm(Now(), ref)
	mustCommit(t, e, confirmed)
	if !e.Committed(deleted) {
		t.Errorf("the confirm waits for %+v, and the delete for %+v", confirmed, deleted)
	}
	again := openQuiet(t, testOptions(fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})))
	wantItems(t, again, "q", "")
}

// TestFlushBesideClose closes the engine while a flush has items to read back from the disk. It opens no run behind the
// close, says why it ends, and what it has not moved is there at the next start.
func TestFlushBesideClose(t *testing.T) {
	f := &hookFS{FS: segmenttest.New()}
	e, now := expiring(t, f)
	want := putNumbers(t, e, now, 100, func(int) {})
	spoolAll(e)
	c := e.Flushing([]byte("q"), "")
	for c.Do(now+1000, 1<<20) && !c.last.IsZero() { // what is in memory
		c.Wait()
	}
	if !c.waits {
		t.Fatal("the flush has nothing to read back")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if files := f.OpenFiles(); len(files) > 0 {
		t.Errorf("files are left open: %q", files)
	}
	for c.Do(now+1000, 1<<20) {
		c.Wait()
	}
	if _, _, err := c.Result(); !errors.Is(err, ErrClosed) {
		t.Errorf("Result = %v, want ErrClosed", err)
	}
	again := openQuiet(t, e.opts)
	verify(t, again)
	if _, err := again.Flush(now+1000, []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	spoolAll(again)
	if got := drain(t, again, "dead"); !slices.Equal(got, want) {
		t.Errorf("%d items arrived behind the next start, or not in order, want %d", len(got), len(want))
	}
}

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
