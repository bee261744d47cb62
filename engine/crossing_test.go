package engine

import (
	"errors"
	"fmt"
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

// TestCrossingIsBounded counts what one piece looks at, when a queue with many reads and leases enters the journal,
// leaves it, or has a checkpoint look for what is gone. No piece looks at more than readBatch items.
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

// TestCheckpointBesideReload has a queue leave the journal and enter it again between two pieces of a checkpoint, when a
// run of it is spent and still there. The checkpoint must not name that run again.
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
	first := true
	m.recordQueue(q, func(int64) bool {
		if first {
			first = false
			keepJournal(t, m.Engine, "q", false)
			keepJournal(t, m.Engine, "q", true)
		}
		return true
	})
	mustCommit(t, m.Engine, Ticket{Written: m.journal.End()})
	again := newMarking(t, m.fsys.Kill())
	if got, want := drain(t, again.Engine, "q"), bodies(200, func(id uint64) bool { return id > 60 }); !slices.Equal(got, want) {
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
	ticket, err := e.Change(Now(), []byte("q"), "", Which{ID: id}, Changes{SetExpiry: true, Expiry: expiry}, false)
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

// crossingLedger is what crossingScript has asked for.
type crossingLedger struct {
	live     []map[string]string // what a crash may leave, of which one is there as a whole: states by body
	parts    map[string]string   // what a part of may be there while a reload is under way; nil if none is
	reloads  int
	recorded int // crossings that took more than one piece
	at       string
}

// states words what there is of every item of a queue.
func states(e *Engine) map[string]string {
	all := make(map[string]string)
	q := e.shardOf([]byte("q")).queues["q"]
	if q == nil {
		return all
	}
	for _, it := range contents(e, "q", true) {
		all[string(it.Data)] = "in line"
	}
	if q.aside == nil {
		return all
	}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	for r := range aside.Ref(q.aside.Len()) {
		entry := q.aside.Get(r)
		switch entry.State {
		case aside.Delayed, aside.Leased:
			all[string(q.aside.Item(r).Data)] = fmt.Sprintf("%+v", entry)
		default:
			all[string(q.aside.Item(r).Data)] = "in line"
		}
	}
	for _, h := range hiddenEntries(e, q) {
		all[string(h.Data)] = fmt.Sprintf("%+v", aside.Entry{State: aside.Delayed, Due: h.Due, Count: h.Count})
	}
	return all
}

func crossingOptions(fsys segment.FS, now *Time) Options {
	o := markOptions(fsys)
	o.readBack, o.enterBatch = time.Second, 100
	o.Settings.Default.MaxDeliveries = 9
	return o
}

func openCrossing(fsys segment.FS, now *Time) (*Engine, error) {
	e, err := open(crossingOptions(fsys, now))
	if err == nil {
		e.precise = func() (Time, time.Duration) { return *now, 0 }
		e.spool.now = e.steady
	}
	return e, err
}

// crossingScript has a queue with runs, items removed in the middle, reads, counted returns, leases and delayed items
// leave the journal and enter it, until the machine stops.
func crossingScript(t *testing.T, fsys *segmenttest.FS, now *Time) *crossingLedger {
	l := &crossingLedger{live: []map[string]string{{}}}
	e, err := openCrossing(fsys, now)
	if err != nil {
		return l
	}
	defer e.Close()
	do := func(f func()) { // something that a crash leaves done, or not, or a part of it as one of several requests
		if fsys.Stopped() {
			return
		}
		f()
		if fsys.Stopped() {
			return
		}
		mustCommit(t, e, Ticket{Written: e.journal.End(), Synced: e.journal.End()})
	}
	next := 0
	put := func(n int, delay time.Duration) {
		var all []PutRequest
		for range n {
			next++
			p := PutRequest{Data: fmt.Appendf(nil, "%030d", next)}
			if delay > 0 {
				p.Extra = &PutExtra{Delay: delay + time.Duration(next)*time.Millisecond}
			}
			all = append(all, p)
		}
		if _, err := e.PutAll(*now, []byte("q"), all); err != nil && !fsys.Stopped() {
			t.Fatal(err)
		}
		awaitRuns(e)
	}
	take := func(f FetchRequest) (ref ReadRef, receipt uint64) {
		about := Delivery{}
		f.Delivery = &about
		var got copied
		fetched, err := e.Fetch(*now, []byte("q"), f, &got)
		for ; err == ErrComing && !fsys.Stopped(); fetched, err = e.Fetch(*now, []byte("q"), f, &got) {
			spoolAll(e)
		}
		if err != nil && !fsys.Stopped() {
			t.Fatal(err)
		}
		return fetched.Read, about.Receipt
	}
	traffic := func() {
		put(20, 0)
		put(4, 1000*time.Second)
		e.spool.endRun(e.shardOf([]byte("q")).queues["q"])
		put(20, 0)
		awaitRuns(e)
		for id := uint64(next - 15); id < uint64(next) && !fsys.Stopped(); id += 2 {
			if _, err := e.Remove(*now, []byte("q"), "", Which{ID: id}); err != nil && !fsys.Stopped() {
				t.Fatal(err)
			}
		}
		for i := 0; i < 8 && !fsys.Stopped(); i++ {
			switch i % 4 {
			case 0:
				take(FetchRequest{Access: Lease, Lease: 5000 * time.Second})
			case 1:
				ref, _ := take(FetchRequest{Access: OpenRead})
				if !ref.IsZero() {
					e.Return(*now, []ReadRef{ref}, Return{How: Abort})
				}
				take(FetchRequest{Access: OpenRead})
			case 2:
				take(FetchRequest{})
			default:
				take(FetchRequest{Access: OpenRead})
			}
		}
		put(3, 2*time.Second) // these stay in memory
		awaitRuns(e)
	}
	reload := func(keep bool) {
		if fsys.Stopped() {
			return
		}
		before, now := l.live[len(l.live)-1], states(e)
		if keep {
			l.parts = now
		}
		l.live = []map[string]string{before, {}, now}
		o := crossingOptions(fsys, nil).Settings
		o.Default.KeepJournal = keep
		calls := e.journal.End()
		if e.Reload(o) != nil || fsys.Stopped() {
			return
		}
		if l.parts = nil; e.journal.End()-calls > 2*100 && keep {
			l.recorded++
		}
		l.reloads++
		if l.live = []map[string]string{{}}; keep {
			l.live = []map[string]string{now}
		}
		verify(t, e)
	}
	reload(false)
	do(traffic)
	reload(true)
	do(func() { awaitRuns(e); e.checkpoint(); awaitRuns(e) })
	reload(false)
	do(traffic)
	reload(true)
	do(func() { awaitRuns(e); e.trimJournal(); awaitRuns(e) })
	reload(false)
	reload(true)
	return l
}

// check fails the test unless an image is what a crash may leave.
func (l *crossingLedger) check(t *testing.T, image *segmenttest.FS, now *Time) {
	t.Helper()
	e, err := openCrossing(image, now)
	if err != nil {
		t.Fatalf("%s: %v", l.at, err)
	}
	if w := e.Withheld(); len(w) > 0 {
		t.Fatalf("%s: withheld are %+v", l.at, w)
	}
	if err := e.Verify(); err != nil {
		t.Fatalf("%s: %v", l.at, err)
	}
	found := states(e)
	if !l.mayBe(found) {
		t.Fatalf("%s: a crash leaves %d items, %s", l.at, len(found), l.differences(found))
	}
	last := 0
	for _, body := range drain(t, e, "q") {
		n, err := strconv.Atoi(body)
		if err != nil || n <= last {
			t.Fatalf("%s: item %q comes behind %d", l.at, body, last)
		}
		last = n
	}
	awaitRuns(e)
	if err := errors.Join(e.Verify(), e.Close()); err != nil {
		t.Fatalf("%s: %v", l.at, err)
	}
}

// mayBe reports whether a crash may leave what was found: one state as a whole or, beside a reload, a part of the items.
func (l *crossingLedger) mayBe(found map[string]string) bool {
	for _, live := range l.live {
		if fmt.Sprint(live) == fmt.Sprint(found) {
			return true
		}
	}
	for body, state := range found {
		if want, ok := l.parts[body]; !ok || state != want && state != "in line" {
			return false
		}
	}
	return l.parts != nil
}

// differences words what was found and should not be, or is missing.
func (l *crossingLedger) differences(found map[string]string) string {
	var b strings.Builder
	live := l.live[len(l.live)-1]
	for body, state := range live {
		if found[body] != state {
			fmt.Fprintf(&b, "%s is %q, want %q; ", strings.TrimLeft(body, "0"), found[body], state)
		}
	}
	for body := range found {
		if _, ok := live[body]; !ok {
			fmt.Fprintf(&b, "%s is %q, and should be gone; ", strings.TrimLeft(body, "0"), found[body])
		}
	}
	return b.String()
}

// TestReloadCrash stops the machine at every call that changes the disk while a queue leaves the journal and enters it
// in small pieces. A start always serves the queue. What a reload has acknowledged is there as it was; of one under way
// a part may be there, and nothing that was gone.
func TestReloadCrash(t *testing.T) {
	stride := amount(3, 1, 1)
	for n := 1; ; n += stride {
		fsys, now := segmenttest.New(), Time(1700000000000)
		fsys.StopInWrite(n, n*7%60)
		l := crossingScript(t, fsys, &now)
		stopped := fsys.Stopped()
		for what, image := range map[string]*segmenttest.FS{
			"kill": fsys.Kill(), "nothing kept": fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose}),
			"torn": fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Tear, Seed: uint64(n), ReorderMetadata: true}),
		} {
			l.at = fmt.Sprintf("call %d, %s, behind %d reloads", n, what, l.reloads)
			l.check(t, image, &now)
		}
		if !stopped {
			t.Logf("stopped at every call of %d, in steps of %d", n-1, stride)
			if l.reloads != 6 || l.recorded != 3 || n < 100 {
				t.Errorf("%d reloads, %d in pieces, %d calls", l.reloads, l.recorded, n)
			}
			return
		}
	}
}
