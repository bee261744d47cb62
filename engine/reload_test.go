package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestReload(t *testing.T) {
	runScripts(t, []scriptTest{
		{"5.6 limits take effect at once", `
			put q a
			put q b
			set q max_items=2
			put q c -> full
			set q max_items=3
			put q c
			set q max_items=3 discard
			put q d
			items q -> b c d`},
		{"5.6 a queue whose block is another's default", `
			set * max_items=1
			put q a
			put q b -> full
			set q max_items=2
			put q b
			put p a
			put p b -> full`},
		{"5.6 fanout_only and client lists take effect at once", `
			get p+a -> empty
			set p fanout_only
			put p x
			items p ->
			items p+a -> x
			set p fanout_only=no dequeue_client=me
			put p y
			get p -> not admitted`},
		{"5.6 … also for clients that wait", `
			wait q get w -> waiting
			wait q peek p -> waiting
			wait q open mine client=me -> waiting
			set q dequeue_client=me
			notified -> notified w
			collect w -> not admitted
			put q a
			notified -> notified p mine
			collect p -> a
			collect mine -> a`},
		{"5.6 what does not validate changes nothing", `
			set q max_items=-1 -> refused
			put q a
			set q max_items=0 discard -> refused
			put q b
			items q -> a b`},
		{"5.6 keep_journal true to false: the journal forgets the queue", `
			put q a
			set q journal=no
			put q b
			items q -> a b
			kill
			queues ->`},
		{"5.6 … also if a later start keeps it again", `
			put q a
			put p x
			set q journal=no
			put p y
			kill
			set q journal=yes
			items q ->
			queues -> p`},
		{"5.6 keep_journal false to true: the journal starts with the contents", `
			set q journal=no
			put q a flags=1
			put q b
			put q c
			get q -> a flags=1
			set q journal=yes
			put q d
			kill
			items q -> b c d
			get q -> b
			kill
			items q -> c d`},
		{"5.6 false to true with reads that are open or returned", `
			set q journal=no
			put q a
			put q b
			put q c
			put q d
			open q ra -> a
			open q rb -> b
			open q rc -> c
			abort ra
			set q journal=yes
			confirm rb
			kill
			items q -> a c d`},
		{"removes recorded under the queue's old number are not extended", `
			put q a
			put q b
			put q c
			put q d
			get q -> a
			set q journal=no
			set q journal=yes
			get q -> b
			kill
			items q -> c d`},
		{"true to false and back, again and again", `
			put q a
			set q journal=no
			set q journal=yes
			put q b
			set q journal=no
			put q c
			set q journal=yes
			get q -> a
			kill
			items q -> b c
			restart
			items q -> b c`},
		{"a start without keep_journal deletes what an earlier one journaled", `
			put q a
			put p b
			restart
			set q journal=no
			restart
			queues -> p
			set q journal=yes
			restart
			queues -> p`},
		{"deleted without journal, made again with one", `
			set q journal=no
			put q a
			delete q
			set q journal=yes
			put q b
			kill
			items q -> b`},
	})
}

// TestReloadRemovesInOneBatch is the rule about old numbers with all of it in one batch of the
// journal.
func TestReloadRemovesInOneBatch(t *testing.T) {
	e, fsys := newQuiet(t)
	for _, data := range []string{"a", "b", "c"} {
		mustPut(t, e, "q", data)
	}
	on := Settings{Default: DefaultQueueOptions()}
	off := on
	off.Default.KeepJournal = false
	now := Now()
	get := func() Ticket {
		f, err := e.Fetch(now, []byte("q"), FetchRequest{}, &copied{})
		if err != nil {
			t.Fatal(err)
		}
		return f.Ticket
	}
	get()
	for _, s := range []Settings{off, on} {
		if err := e.Reload(s); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, e, get())
	wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "c")
}

// TestReloadKeepsIDs: an id that was given out while the queue was not in the journal is not given
// out again after a restart.
func TestReloadKeepsIDs(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.KeepJournal = false })
	for i := range 3 {
		mustPut(t, e, "q", fmt.Sprint(i))
	}
	drain(t, e, "q")
	if err := e.Reload(Settings{Default: DefaultQueueOptions()}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "other", "x") // commits what Reload recorded
	e = openQuiet(t, testOptions(fsys.Kill()))
	mustPut(t, e, "q", "3")
	if got := contents(e, "q", false)[0].ID; got != 4 {
		t.Errorf("the fourth item has id %d, want 4", got)
	}
}

// TestDropUnjournaledIsDurable: a start without the journal deletes the queue's items for good,
// even if the process dies before it does anything else.
func TestDropUnjournaledIsDurable(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "a")
	fsys = fsys.Kill()
	openQuiet(t, testOptions(fsys, func(o *QueueOptions) { o.KeepJournal = false }))
	fsys = fsys.Kill()
	wantItems(t, openQuiet(t, testOptions(fsys)), "q", "")
}

// TestReloadBehindFailedReload has a queue leave the journal and come back while the journal cannot be synced. A third
// reload changes nothing. It must not succeed until the journal has the queue back, or a kill would lose acknowledged
// items.
func TestReloadBehindFailedReload(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	e := openQuiet(t, testOptions(fsys))
	mustPut(t, e, "q", "precious")
	keep := func(keep bool) error {
		o := DefaultQueueOptions()
		o.KeepJournal = keep
		return e.Reload(Settings{Default: o})
	}
	fsys.datasync = func(func() error) error { return syscall.EIO }
	for _, on := range []bool{false, true, true} {
		if err := keep(on); !errors.Is(err, ErrJournal) {
			t.Errorf("Reload = %v while the journal cannot be synced, want ErrJournal", err)
		}
	}
	fsys.datasync = nil
	if err := e.moveJournal(); err != nil {
		t.Fatal(err)
	}
	if err := keep(true); err != nil {
		t.Errorf("Reload = %v when the journal has been rewritten", err)
	}
	wantItems(t, openQuiet(t, testOptions(fsys.FS.Kill())), "q", "precious")
}

// TestRemovalBehindLeaving removes items of a queue that a reload has taken out of the journal, before that is durable.
// A power cut behind the answers must not bring the items back.
func TestRemovalBehindLeaving(t *testing.T) {
	always := func(o *QueueOptions) { o.Sync = SyncAlways }
	take := func(e *Engine) Ticket {
		got, _ := e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{})
		return got.Ticket
	}
	for name, remove := range map[string]func(*Engine) Ticket{
		"taken":   func(e *Engine) Ticket { return take(e).Merge(take(e)) },
		"deleted": func(e *Engine) Ticket { return e.Delete(Now(), []byte("q")) },
		"flushed": func(e *Engine) Ticket {
			ticket, _ := e.Flush(Now(), []byte("q"), "")
			return ticket
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, fsys := newQuiet(t, always)
			mustPut(t, e, "q", "a")
			mustPut(t, e, "q", "b")
			opts := e.OptionsFor("q")
			opts.KeepJournal = false
			e.settings.Store(newPolicy(Settings{Default: opts}))
			if err := e.reloadQueue(e.shardOf([]byte("q")).queues["q"], &opts); err != nil { // Reload is yet to commit
				t.Fatal(err)
			}
			mustCommit(t, e, remove(e))
			wantItems(t, openQuiet(t, testOptions(fsys.PowerCut(segmenttest.CutOptions{}), always)), "q", "")
		})
	}
}

// TestReloadLongQueue has a reload turn keep_journal on for queues with much in memory. It copies little of that to the
// journal, with the shard locked, also if a client puts more meanwhile; and all of it survives.
func TestReloadLongQueue(t *testing.T) {
	for _, beside := range []int{0, 1, 3} { // syncs of runs beside which much is put
		t.Run(fmt.Sprint(beside), func(t *testing.T) {
			fsys := &hookFS{FS: segmenttest.New()}
			o := testOptions(fsys, func(q *QueueOptions) { q.KeepJournal = false })
			o.JournalSize, o.SegmentSize = 64<<20, 16<<20
			e := openQuiet(t, o)
			var want []string
			put := func(n int) {
				for range n {
					want = append(want, fmt.Sprintf("%01000d", len(want)))
					mustPut(t, e, "q", want[len(want)-1])
				}
			}
			put(1000)
			ref, _ := mustOpen(t, e, "q")
			mustGet(t, e, "q")
			syncs := 0
			fsys.datasync = func(sync func() error) error {
				if e.spool.writeMu.TryLock() { // it is one of the journal
					e.spool.writeMu.Unlock()
					return sync()
				}
				if syncs++; syncs <= beside {
					put(200)
				}
				return sync()
			}
			before := e.journal.End()
			if err := e.Reload(Settings{Default: DefaultQueueOptions()}); err != nil {
				t.Fatal(err)
			}
			if n := e.journal.End() - before; n > smallBytes+4<<10 {
				t.Errorf("the reload wrote %d bytes to the journal at once, want %d at most", n, smallBytes+4<<10)
			}
			put(1)
			e.Abort(Now(), ref)
			e = openQuiet(t, testOptions(fsys.Kill()))
			got := drain(t, e, "q")
			if want = slices.Delete(want, 1, 2); !slices.Equal(got, want) {
				t.Errorf("%d items came back, want %d in order", len(got), len(want))
			}
		})
	}
}

// TestReloadReadsInPieces has a reload turn keep_journal on for a queue with many open and returned reads. They reach
// the journal in pieces. Between two of them reads end and come back, and a kill leaves a queue that can be started.
func TestReloadReadsInPieces(t *testing.T) {
	e, fsys := newQuiet(t, func(q *QueueOptions) { q.KeepJournal, q.MaxDeliveries = false, 0 })
	const n, size = 400, 1000
	var refs []ReadRef
	body := func(i int) string { return fmt.Sprintf("%0*d", size, i) }
	for i := range n + 2 {
		mustPut(t, e, "q", body(i))
	}
	for range n {
		ref, _ := mustOpen(t, e, "q")
		refs = append(refs, ref)
	}
	want := make(map[string]bool)
	for i := range n + 2 {
		want[body(i)] = true
	}
	e.AbortAll(Now(), refs[:n/4])
	refs = refs[n/4:]
	q := e.shardOf([]byte("q")).queues["q"]
	on := DefaultQueueOptions()
	grown := func(f func()) int64 {
		before := e.journal.End()
		q.shard.mu.Lock()
		f()
		e.unlock(q.shard, Now())
		return int64(e.journal.End() - before)
	}
	if k := grown(func() { e.setOptions(q, &on) }); k > smallBytes || !q.crossing {
		t.Fatalf("entering wrote %d bytes with the shard locked; reads are left: %t", k, q.crossing)
	}
	pieces := 0
	for at, more := (readCursor{}), true; more; pieces++ {
		if k := grown(func() { more = e.enterSome(q, &at) }); k > checkpointBatch+2*size {
			t.Fatalf("piece %d wrote %d bytes with the shard locked", pieces, k)
		}
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		for _, item := range drain(t, openQuiet(t, testOptions(fsys.Kill())), "q") {
			if !want[item] {
				t.Fatalf("after piece %d a kill brings %.20s back", pieces, item)
			}
		}
		if !more {
			break
		}
		// The newest is not recorded yet, and neither is the one before.
		ticket, _ := e.Confirm(Now(), refs[len(refs)-1])
		mustCommit(t, e, ticket)
		delete(want, body(n-1-2*pieces))
		e.Abort(Now(), refs[len(refs)-2])
		refs = refs[:len(refs)-2]
		if _, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{}); err == nil {
			t.Fatal("an item is handed out although not all are recorded")
		}
	}
	if pieces < 8 {
		t.Errorf("%d reads of %d bytes were recorded in %d pieces", n, size, pieces)
	}
	e.enterBacklog(q, e.pause)
	e.endCrossing(q)
	e.Confirm(Now(), refs[0])
	delete(want, body(n/4))
	mustCommit(t, e, e.ticketSoFar(q))
	got := drain(t, openQuiet(t, testOptions(fsys.Kill())), "q")
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("%d items came back, want %d in order", len(got), len(want))
	}
}
