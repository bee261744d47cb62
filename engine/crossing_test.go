package engine

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// batches is a committer that notes how many bytes each batch has.
type batches struct {
	*segment.Log
	sizes *[]int
}

func (b batches) AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error) {
	*b.sizes = append(*b.sizes, len(buf)-segment.FrameHeaderSize)
	return b.Log.AppendAs(v, buf)
}

// TestReloadAsideInPieces has a reload turn keep_journal on for a queue with much that is aside, and much that came back
// and counts. It records a little at a time, and all of it survives.
func TestReloadAsideInPieces(t *testing.T) {
	const each, size = 300, 1000
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.KeepJournal, q.MaxMemorySize, q.MaxDeliveries = false, 10*size, 10 })
	o.SegmentSize, o.JournalSize = 1<<20, 64<<20
	var sizes []int
	o.committer = func(log *segment.Log) journal.Committer { return batches{log, &sizes} }
	e := openQuiet(t, o)
	want := make(map[string]aside.State)
	body := func(i int) string { return fmt.Sprintf("%0*d", size, i) }
	receipts := make(map[string]uint64)
	for i := range 3 * each {
		p := PutRequest{Data: []byte(body(i))}
		want[body(i)] = aside.Ready
		if i%3 == 0 {
			p.Extra = &PutExtra{Delay: time.Hour}
			want[body(i)] = aside.Delayed
		}
		if _, err := e.Put(Now(), []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	awaitRuns(e)
	for range each {
		it, about, err := leaseNext(e, "q", time.Hour)
		for ; err == ErrComing; it, about, err = leaseNext(e, "q", time.Hour) {
			spoolAll(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		receipts[string(it.Data)], want[string(it.Data)] = about.Receipt, aside.Leased
	}
	for range each {
		ref, _ := mustOpen(t, e, "q")
		defer e.Abort(Now(), ref)
		if _, _, err := e.Return(Now(), []ReadRef{ref}, Return{How: Abort}); err != nil {
			t.Fatal(err)
		}
		// It is the head again: lease it away from the next.
		it, about, err := leaseNext(e, "q", time.Hour)
		if err != nil || about.Deliveries != 2 {
			t.Fatalf("the item that came back: %+v, %v", about, err)
		}
		receipts[string(it.Data)], want[string(it.Data)] = about.Receipt, aside.Leased
	}
	sizes = nil
	on := DefaultQueueOptions()
	on.MaxMemorySize, on.MaxDeliveries = 10*size, 10
	if err := e.Reload(Settings{Default: on}); err != nil {
		t.Fatal(err)
	}
	verify(t, e)
	total := 0
	for _, n := range sizes {
		if total += n; n > 2*checkpointBatch+2*size {
			t.Errorf("a batch of the reload has %d bytes, want %d at most", n, 2*checkpointBatch+2*size)
		}
	}
	if total < 2*each*size {
		t.Errorf("the reload wrote %d bytes of %d leased items", total, 2*each)
	}
	o.Settings.Default.KeepJournal, o.FS, o.committer = true, fsys.Kill(), nil
	e = openQuiet(t, o)
	q := e.shardOf([]byte("q")).queues["q"]
	if q.hiddenDisk().Count != each || q.leased() != 2*each {
		t.Fatalf("after a kill %d items are hidden, and %d leased", q.hiddenDisk().Count, q.leased())
	}
	for r := range aside.Ref(q.aside.Len()) {
		data, entry := string(q.aside.Item(r).Data), q.aside.Get(r)
		if want[data] != entry.State || receipts[data] != entry.Token {
			t.Errorf("item %.8s is %+v, want state %d and receipt %d", data, entry, want[data], receipts[data])
		}
	}
}

// TestCrossingIsBounded counts the items that one piece looks at. A queue with many reads and leases enters the
// journal, leaves it, or has a checkpoint look for what is gone. No piece looks at more than readBatch items.
func TestCrossingIsBounded(t *testing.T) {
	const n = 3 * readBatch
	e, _ := newQuiet(t, func(q *QueueOptions) { q.MaxMemorySize = 1000 })
	for range 2*n + 10 {
		if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	awaitRuns(e)
	openAll(t, e, "q", n)
	for range n {
		_, _, err := leaseNext(e, "q", time.Hour)
		for ; err == ErrComing; _, _, err = leaseNext(e, "q", time.Hour) {
			spoolAll(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	q := e.shardOf([]byte("q")).queues["q"]
	pieces := func(what string, done func() int, piece func() bool) {
		t.Helper()
		rounds := 0
		for before, more := done(), true; more; rounds++ {
			q.shard.mu.Lock()
			more = piece()
			q.shard.mu.Unlock()
			if after := done(); after-before > readBatch {
				t.Errorf("%s: a piece looked at %d items, want %d at most", what, after-before, readBatch)
			} else {
				before = after
			}
		}
		if least := 2 * n / readBatch; rounds < least || rounds > least+2 {
			t.Errorf("%s took %d pieces, want about %d", what, rounds, least)
		}
	}
	pinned := func() (k int) {
		for r := q.open.First(); r != nil; r = r.link.Next() {
			k += int(min(r.pinned, 1))
		}
		for r := range aside.Ref(q.aside.Len()) {
			k += int(min(q.aside.Segment(r), 1))
		}
		return k
	}
	q.shard.mu.Lock()
	w := q.beginGone(true)
	q.shard.mu.Unlock()
	pieces("a checkpoint", func() int { return int(w.Live.Len()) }, w.piece)

	off := DefaultQueueOptions()
	off.KeepJournal, off.MaxMemorySize = false, 1000
	at := readCursor{}
	q.shard.mu.Lock()
	e.setOptions(q, &off)
	q.shard.mu.Unlock()
	pieces("leaving", func() int { return -pinned() }, func() bool { return q.letGoSome(&at) })
	e.endCrossing(q)
	verify(t, e)

	on := off
	on.KeepJournal = true
	e.opts.enterBatch = 1 << 30 // so that only their number counts
	at = readCursor{}
	if err := e.spool.whenSynced(q, func() { e.setOptions(q, &on) }); err != nil {
		t.Fatal(err)
	}
	for r := q.open.First(); r != nil; r = r.link.Next() {
		r.changed = true // else its place is in a run
	}
	pieces("entering", pinned, func() bool { return e.enterSome(q, &at) })
	e.enterBacklog(q, e.pause)
	e.endCrossing(q)
	verify(t, e)
}

// TestReloadBesideExpiry has items that came back expire while a reload records them. The others behind them are
// recorded all the same.
func TestReloadBesideExpiry(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.KeepJournal, q.ExpireTo = false, "dead" })
	o.enterBatch = 1
	e := openQuiet(t, o)
	now := Now()
	var refs []ReadRef
	for i := range 10 {
		p := PutRequest{Data: []byte{'a' + byte(i)}}
		if i < 3 {
			p.Expiry = now + 1000
		}
		if _, err := e.Put(now, []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		ref, _ := mustOpen(t, e, "q")
		refs = append(refs, ref)
	}
	e.AbortAll(now, refs)
	q := e.shardOf([]byte("q")).queues["q"]
	on := DefaultQueueOptions()
	on.ExpireTo = "dead"
	q.shard.mu.Lock()
	e.setOptions(q, &on)
	at := readCursor{}
	e.enterSome(q, &at)
	e.enterSome(q, &at)
	e.sweep(q, now+2000, sweepBatch) // what has been recorded goes to another list
	for more := true; more; {
		more = e.enterSome(q, &at)
	}
	e.unlock(q.shard, now+2000)
	e.endCrossing(q)
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "d e f g h i j")
}

// TestReloadBesideFlush has a flush carry the leases of a queue while a reload records them.
func TestReloadBesideFlush(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.KeepJournal = false })
	o.enterBatch = 1
	e := openQuiet(t, o)
	for i := range 20 {
		mustPut(t, e, "q", fmt.Sprint(i))
	}
	for range 20 {
		if _, _, err := leaseNext(e, "q", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		putDelayed(t, e, fmt.Sprint(i))
	}
	q := e.shardOf([]byte("q")).queues["q"]
	on := DefaultQueueOptions()
	q.shard.mu.Lock()
	e.setOptions(q, &on)
	at := readCursor{}
	for range 50 { // the delayed items, and a part of the leased ones
		e.enterSome(q, &at)
	}
	q.shard.mu.Unlock()
	if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	q.shard.mu.Lock()
	for more := true; more; {
		more = e.enterSome(q, &at)
	}
	q.shard.mu.Unlock()
	e.endCrossing(q)
	verify(t, e)
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	e = openQuiet(t, testOptions(fsys.Kill()))
	if n := e.shardOf([]byte("q")).queues["q"].leased(); n != 20 {
		t.Errorf("%d items are leased after a kill, want 20", n)
	}
}

// putDelayed puts an item that is hidden for an hour.
func putDelayed(t *testing.T, e *Engine, data string) {
	t.Helper()
	ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte(data), Extra: &PutExtra{Delay: time.Hour}})
	if err = errors.Join(err, e.Commit(ticket)); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointBesideReload has a queue leave the journal between two pieces of a checkpoint. That goes on between two
// pieces of a reload that has the queue enter it again. One of its runs is spent, and its file is still there. The
// checkpoint must not name that run, nor another one before the reload says what is gone of it.
func TestCheckpointBesideReload(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(200)
	q := m.queue()
	for got := 0; got < 60; {
		_, err := m.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{})
		switch err {
		case nil:
			got++
		case ErrComing:
			m.spool.fill(q) // and nothing else
		default:
			t.Fatal(err)
		}
	}
	if len(q.backlog.spent) == 0 {
		t.Fatal("no run is spent")
	}
	next, stop := iter.Pull(func(yield func(int64) bool) { m.recordQueue(q, yield) })
	defer stop()
	next()
	keepJournal(t, m.Engine, "q", false)
	m.removeEvery(2, 80, 98)
	want, yield := bodies(200, func(id uint64) bool { return id > 60 && (id < 80 || id > 98 || id%2 == 1) }), m.opts.yield
	m.opts.yield = func() {
		m.opts.yield = yield
		for more := true; more; {
			_, more = next()
		}
		mustCommit(t, m.Engine, Ticket{Written: m.journal.End()})
		for _, body := range drain(t, newMarking(t, m.fsys.Kill()).Engine, "q") {
			if !slices.Contains(want, body) {
				t.Errorf("after a kill beside the reload %q comes back", body)
			}
		}
	}
	keepJournal(t, m.Engine, "q", true)
	mustCommit(t, m.Engine, Ticket{Written: m.journal.End()})
	again := newMarking(t, m.fsys.Kill())
	if got := drain(t, again.Engine, "q"); !slices.Equal(got, want) {
		t.Errorf("after a kill %d items come, want %d", len(got), len(want))
	}
}

// TestChangeOfOpenItem gives an open item that a run has another expiry. The queue then leaves the journal and enters it
// again.
func TestChangeOfOpenItem(t *testing.T) {
	e, _ := newQuiet(t, func(q *QueueOptions) { q.MaxMemorySize = 1000 })
	for i := range 300 {
		mustPut(t, e, "q", fmt.Sprintf("%010d", i))
	}
	awaitRuns(e)
	ref, _ := mustOpen(t, e, "q")
	id, expiry := ref.r.item.ID, Now().After(time.Hour)
	ticket, err := e.Change(Now(), []byte("q"), &LookRequest{Which: Which{ID: id}}, Changes{SetExpiry: true, Expiry: expiry})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	keepJournal(t, e, "q", false)
	keepJournal(t, e, "q", true)
	first := contents(kill(t, e), "q", false)[0]
	if first.ID != id || first.Expiry != expiry {
		t.Errorf("after a kill item %d expires at %d, want item %d at %d", first.ID, first.Expiry, id, expiry)
	}
}

// TestTrimBesideReload has a checkpoint and a trim come between all pieces of a reload that turns keep_journal on. What
// is gone of the backlog stays gone.
func TestTrimBesideReload(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.MaxMemorySize = 1000 })
	between, busy := func() {}, false
	o.enterBatch, o.yield = 1, func() {
		if !busy {
			busy = true
			between()
			busy = false
		}
	}
	e := openQuiet(t, o)
	for i := range 200 {
		mustPut(t, e, "q", strconv.Itoa(1000000000+i))
	}
	for range 60 {
		mustGet(t, e, "q")
	}
	keepJournal(t, e, "q", false)
	q := e.shardOf([]byte("q")).queues["q"]
	e.spillAll(q, false)
	spoolAll(e)
	between = func() {
		for range 20 {
			mustPut(t, e, "other", strings.Repeat("x", 3000))
			mustGet(t, e, "other")
		}
		if err := e.trimJournal(); err != nil {
			t.Fatal(err)
		}
	}
	keepJournal(t, e, "q", true)
	between = func() {}
	if got := drain(t, kill(t, e), "q"); len(got) != 140 || got[0] != "1000000060" {
		t.Errorf("after a kill %d items come, want 140", len(got))
	}
}
