package engine

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// keepJournal has e reload with the queue called name in the journal, or not.
func keepJournal(t testing.TB, e *Engine, name string, keep bool) {
	t.Helper()
	s := *e.settings.Load()
	o := s.For(name)
	o.KeepJournal = keep
	settings := s.Settings
	settings.Queues = maps.Clone(settings.Queues)
	if settings.Queues == nil {
		settings.Queues = make(map[string]QueueOptions)
	}
	settings.Queues[name] = o
	if err := e.Reload(settings); err != nil {
		t.Fatalf("Reload = %v", err)
	}
}

// TestLeaveWhileRunIsSynced takes a queue out of the journal, in every way there is, while a run of it
// is being synced. The record of the run then must not come behind that: a later start would find runs
// of a queue that has no name.
func TestLeaveWhileRunIsSynced(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(*testing.T, *Engine)
		want  string // what "q" holds after a restart
	}{
		{"keep_journal is turned off", func(t *testing.T, e *Engine) { keepJournal(t, e, "q", false) }, ""},
		{"deleted", func(t *testing.T, e *Engine) { mustCommit(t, e, e.Delete(Now(), []byte("q"))) }, ""},
		{"deleted and made again", func(t *testing.T, e *Engine) {
			mustCommit(t, e, e.Delete(Now(), []byte("q")))
			mustPut(t, e, "q", "new")
		}, "new"},
		{"turned off and deleted", func(t *testing.T, e *Engine) {
			keepJournal(t, e, "q", false)
			mustCommit(t, e, e.Delete(Now(), []byte("q")))
		}, ""},
		{"flushed", func(t *testing.T, e *Engine) {
			ticket, err := e.Flush(Now(), []byte("q"), "")
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
			mustPut(t, e, "q", "next")
		}, "next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := &hookFS{FS: segmenttest.New()}
			e := openQuiet(t, testOptions(fsys, tiny))
			putMany(t, e, "q", 0, 40)
			mustPut(t, e, "other", "precious")
			q := e.shardOf([]byte("q")).queues["q"]
			for e.spool.spills.Take() != nil {
				e.spool.spill(q)
			}
			e.spool.tend()
			synced := false
			fsys.datasync = func(call func() error) error {
				fsys.datasync = nil
				synced = true
				tt.leave(t, e)
				return call()
			}
			e.spool.record(q)
			if !synced {
				t.Fatal("no run was synced")
			}
			awaitRuns(e)
			mustPut(t, e, "other", "second")
			again := openQuiet(t, testOptions(fsys.FS.Kill(), tiny))
			wantItems(t, again, "other", "precious second")
			wantItems(t, again, "q", tt.want)
		})
	}
}

// betweenBatches is a committer that calls f before each batch.
type betweenBatches struct {
	*segment.Log
	f func(size int)
}

func (b betweenBatches) AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error) {
	b.f(len(buf) - segment.FrameHeaderSize)
	return b.Log.AppendAs(v, buf)
}

// TestForgoInPieces has the files of a backlog go in which many reads and leases have their place. A little is recorded
// at a time. Between two pieces reads come back, are leased, and go to the dead-letter queue: all of them survive.
func TestForgoInPieces(t *testing.T) {
	for _, use := range []string{"abort", "reject", "lease", "flush", "flush in part", "leave"} {
		t.Run(use, func(t *testing.T) { forgoInPieces(t, use) })
	}
}

func forgoInPieces(t *testing.T, use string) {
	const each, size = 200, 1000
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) {
		if q.MaxMemorySize = 10 * size; use == "reject" {
			q.MaxDeliveries = 10 // so returns are counted, and recorded
		}
	})
	o.SegmentSize, o.JournalSize = 1<<20, 64<<20
	between := func(int) {}
	o.committer = func(log *segment.Log) journal.Committer {
		return betweenBatches{log, func(size int) { between(size) }}
	}
	e := openQuiet(t, o)
	body := func(i int) string { return fmt.Sprintf("%0*d", size, i) }
	for i := range 3 * each {
		mustPut(t, e, "q", body(i))
	}
	awaitRuns(e)
	var open []ReadRef
	want := make(map[string]bool)
	for i := range 2 * each {
		spoolAll(e)
		if i%2 == 0 {
			ref, data := mustOpen(t, e, "q")
			open, want[data] = append(open, ref), true
			continue
		}
		it, _, err := leaseNext(e, "q", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		want[string(it.Data)] = true
	}
	q := e.shardOf([]byte("q")).queues["q"]
	pieces, total, busy := 0, 0, false
	var parts []*Clearing
	var dropped []*read
	between = func(n int) {
		if total += n; n > 2*checkpointBatch+2*size {
			t.Errorf("a batch has %d bytes, want %d at most", n, 2*checkpointBatch+2*size)
		}
		if q.keeping == nil {
			return
		}
		if pieces++; busy || len(open) < 3 {
			return
		}
		busy = true
		defer func() { busy = false }()
		last := open[len(open)-1]
		open = open[:len(open)-1]
		switch use {
		case "abort":
			e.Abort(Now(), last)
		case "reject":
			e.Return(Now(), []ReadRef{last}, Return{How: Reject})
		case "lease":
			e.Return(Now(), []ReadRef{last}, Return{How: Abort, Delayed: true, Delay: time.Second})
		case "flush":
			if len(open)%2 == 0 {
				delete(want, string(last.r.item.Data))
				e.Abort(Now(), last)
				e.Flush(Now(), []byte("q"), "")
			}
		case "flush in part": // it drops what came back, and does not give it back yet
			if len(open)%2 == 0 {
				delete(want, string(last.r.item.Data))
				e.Abort(Now(), last)
				c := e.Flushing([]byte("q"), "")
				for clears := q.clears; q.clears == clears; {
					c.Do(Now(), 1)
				}
				parts, dropped = append(parts, c), append(dropped, last.r)
			}
		case "leave":
			if pieces == 2 {
				off := o.Settings.Default
				off.KeepJournal = false
				q.shard.mu.Lock()
				cross := e.setOptions(q, &off)
				q.shard.mu.Unlock()
				cross(q)
			}
		}
	}
	e.backing.Runs.Store(true) // nothing is removed for now
	for range each {
		spoolAll(e)
		mustGet(t, e, "q")
	}
	e.backing.Runs.Store(false)
	awaitRuns(e)
	between = func(int) {}
	awaitRuns(e)
	if files := runFiles(fsys); len(files) > 0 {
		t.Fatalf("%q are left", files)
	}
	for _, r := range dropped {
		if r.state != readReturned || r.pinned != 0 {
			t.Errorf("an item that a flush has dropped is recorded again")
		}
	}
	for _, c := range parts {
		for c.Do(Now(), 1) {
		}
	}
	if use == "leave" {
		return
	}
	if pieces < 3 || total < each*size {
		t.Errorf("%d bytes are recorded in %d pieces", total, pieces)
	}
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	verify(t, e)
	o.FS, o.committer = fsys.Kill(), nil
	again := openQuiet(t, o)
	got := make(map[string]bool)
	for _, name := range []string{"q", "q_dead"} {
		for _, data := range queued(again, name) {
			got[data] = true
		}
		if q := again.shardOf([]byte(name)).queues[name]; q != nil && q.aside != nil {
			for r := range aside.Ref(q.aside.Len()) {
				got[string(q.aside.Item(r).Data)] = true
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("after a kill there are %d items, want %d", len(got), len(want))
	}
}

// TestRunRecordedInPieces has a run recorded of which every second item is gone, and the others are open. What is gone
// is recorded a little at a time, and the walk over the reads has pieces too.
func TestRunRecordedInPieces(t *testing.T) {
	const n = 3*readBatch + 10
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.MaxMemorySize = 1000 })
	o.SegmentSize, o.JournalSize, o.enterBatch = 1<<20, 64<<20, 1
	most, total := 0, 0
	o.committer = func(log *segment.Log) journal.Committer {
		return betweenBatches{log, func(size int) { most, total = max(most, size), total+size }}
	}
	e := openQuiet(t, o)
	for i := range n + 200 {
		mustPut(t, e, "q", fmt.Sprintf("%010d", i))
	}
	for i, ref := range openAll(t, e, "q", n) {
		if i%2 == 0 {
			mustCommitted(t, e)(e.Confirm(Now(), ref))
		}
	}
	q := e.shardOf([]byte("q")).queues["q"]
	if q.spilledTo > 0 || q.open.Len() != n/2 {
		t.Fatalf("%d is recorded already, %d are open", q.spilledTo, q.open.Len())
	}
	most, total = 0, 0
	awaitRuns(e)
	if q.spilledTo < n {
		t.Fatalf("up to %d the runs are recorded, want %d", q.spilledTo, n)
	}
	if limit := checkpointRecords * record.MaxRemoveSize; most > limit || total < n {
		t.Errorf("%d bytes are recorded, %d at a time, want %d at most", total, most, limit)
	}
	verify(t, e)
	r := q.backlog.recordedRun(t)
	seen, pieces := 0, 0
	for r := q.open.First(); r != nil; r = r.link.Next() {
		r.lieIn(1)
	}
	q.letting = r
	for at, more := (readCursor{}), true; more; pieces++ {
		more = q.letGoOfSome(&at)
		left := 0
		for r := q.open.First(); r != nil; r = r.link.Next() {
			left += int(min(r.pinned, 1))
		}
		if now := n/2 - left; now-seen > readBatch {
			t.Errorf("a piece looked at %d reads, want %d at most", now-seen, readBatch)
		} else {
			seen = now
		}
	}
	q.letting = nil
	if seen != n/2 || pieces < 2 {
		t.Errorf("%d of %d reads let go of their segment in %d pieces", seen, n/2, pieces)
	}
	o.FS, o.committer = fsys.Kill(), nil
	if got := len(queued(openQuiet(t, o), "q")); got < n/2 {
		t.Errorf("after a kill %d items are there, want %d at least", got, n/2)
	}
}

// TestLetGoBesideReturns has clients end or lease open reads behind the record of their run. They do so before the
// walk over the reads lets go of their segments. A start has their items from the run alone.
func TestLetGoBesideReturns(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(e *Engine, refs []ReadRef) Ticket
	}{
		{"leased", func(e *Engine, refs []ReadRef) Ticket {
			ticket, _ := e.LeaseReads(Now(), refs, time.Hour, nil, nil)
			return ticket
		}},
		{"delayed", func(e *Engine, refs []ReadRef) Ticket {
			ticket, _, _ := e.Return(Now(), refs, Return{How: Abort, Delay: time.Hour, Delayed: true})
			return ticket
		}},
		{"counted", func(e *Engine, refs []ReadRef) Ticket {
			ticket, _, _ := e.Return(Now(), refs, Return{How: Abort})
			return ticket
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t, func(q *QueueOptions) { q.MaxMemorySize, q.MaxDeliveries = 1000, 5 })
			for i := range 300 {
				mustPut(t, e, "q", fmt.Sprintf("%010d", i))
			}
			q := e.shardOf([]byte("q")).queues["q"]
			e.spool.spill(q)
			refs := openAll(t, e, "q", 10)
			r := q.backlog.runs[0]
			if q.spilledTo > 0 || !r.written.Contains(10) || refs[9].r.pinned == 0 {
				t.Fatalf("%d is recorded, in the run is %+v", q.spilledTo, r.written)
			}
			if err := r.writer.Sync(); err != nil {
				t.Fatal(err)
			}
			e.tellGone(q, r.written.LastID)
			e.recordSynced(q, r, r.written)
			ticket := tt.end(e, refs[5:])
			q.letGoOf()
			mustCommit(t, e, ticket)
			expectAfterKill(t, e, 300)
		})
	}
}

// expectAfterKill tests that a start behind a kill withholds no queue, and has so many items.
func expectAfterKill(t *testing.T, e *Engine, want int64) {
	t.Helper()
	again := kill(t, e)
	if all := again.Withheld(); len(all) > 0 {
		t.Fatalf("a start withholds the queue: %v", all[0].Reason)
	}
	if got := again.Recovery().Items; got != want {
		t.Errorf("after a kill %d items are there, want %d", got, want)
	}
}

// TestLetGoLeavesCounted gives reads back that count, before their run is recorded. What the journal says of them needs
// their images there. So their segments stay, although the run has the items too.
func TestLetGoLeavesCounted(t *testing.T) {
	e, _ := newQuiet(t, func(q *QueueOptions) { q.MaxMemorySize, q.MaxDeliveries = 1000, 5 })
	for i := range 300 {
		mustPut(t, e, "q", fmt.Sprintf("%010d", i))
	}
	q := e.shardOf([]byte("q")).queues["q"]
	e.spool.spill(q)
	ticket, _, _ := e.Return(Now(), openAll(t, e, "q", 10), Return{How: Abort})
	mustCommit(t, e, ticket)
	q.backlog.recordDue = true
	e.spool.record(q)
	if q.spilledTo < 10 {
		t.Fatalf("runs are recorded up to item %d", q.spilledTo)
	}
	turnOver(t, e)
	expectAfterKill(t, e, 300)
}

// TestForgoLeavesMoving has an item on its way to the dead-letter queue while the rest of its run is used up. The file
// of the run stays until the item has arrived: until then no other place has it.
func TestForgoLeavesMoving(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	all := putMany(t, e, "q", 0, 20)
	q := e.shardOf([]byte("q")).queues["q"]
	q.shard.mu.Lock()
	e.spillAll(q, true)
	q.shard.mu.Unlock()
	spoolAll(e)
	ref, _ := mustOpen(t, e, "q")
	drain(t, e, "q")
	q.shard.mu.Lock()
	e.giveBack(ref.r, Return{How: Reject})
	moves := q.shard.takeMoves()
	q.shard.mu.Unlock()
	awaitRuns(e)
	again := kill(t, e)
	if all := again.Withheld(); len(all) > 0 {
		t.Fatalf("a start withholds the queue: %v", all[0].Reason)
	}
	wantItems(t, again, "q", all[0])
	e.finishMoves(Now(), moves)
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	awaitRuns(e)
	if files := runFiles(fsys); len(files) > 0 {
		t.Errorf("%q are left", files)
	}
	again = kill(t, e)
	wantItems(t, again, "q", "")
	wantItems(t, again, "q_dead", all[0])
}

// recordedRun returns the first run that the journal knows.
func (b *backlog) recordedRun(t *testing.T) *run {
	t.Helper()
	for _, r := range b.runs {
		if r.recorded.End > 0 {
			return r
		}
	}
	t.Fatal("no run is recorded")
	return nil
}

// TestWalkEndsBesideFlushes has a client flush a queue behind each piece of a walk over its leases. The walk goes on where
// it was, and no piece gets longer.
func TestWalkEndsBesideFlushes(t *testing.T) {
	const n = 6 * readBatch
	e := openQuiet(t, testOptions(segmenttest.New()))
	for i := range n {
		mustPut(t, e, "q", fmt.Sprint(i))
		if _, _, err := leaseNext(e, "q", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	q := e.shardOf([]byte("q")).queues["q"]
	q.shard.mu.Lock()
	w := q.beginGone(true)
	q.shard.mu.Unlock()
	for pieces, more := 0, true; more; pieces++ {
		if pieces > n/readBatch+1 {
			t.Fatalf("a walk over %d leases beside flushes has not ended after %d pieces", n, pieces)
		}
		before := w.Live.Len()
		q.shard.mu.Lock()
		more = w.piece()
		q.shard.mu.Unlock()
		if seen := w.Live.Len() - before; seen > readBatch {
			t.Errorf("piece %d looks at %d leases, want %d at most", pieces, seen, readBatch)
		}
		mustPut(t, e, "q", "goes")
		for c := e.Flushing([]byte("q"), ""); c.Do(Now(), 100); {
		}
	}
	if got := w.Live.Len(); got != n {
		t.Errorf("the walk has seen %d of %d leases", got, n)
	}
	verify(t, e)
}

// TestFlushBesideWalk has a flush drop items that came back while somebody records them, one by one. What it has
// dropped does not come back with a restart.
func TestFlushBesideWalk(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.KeepJournal = false })
	o.enterBatch = 1
	e := openQuiet(t, o)
	var refs []ReadRef
	for i := range 11 {
		mustPut(t, e, "q", fmt.Sprint(i))
	}
	for range 11 {
		ref, _ := mustOpen(t, e, "q")
		refs = append(refs, ref)
	}
	for _, ref := range refs[1:] {
		e.Abort(Now(), ref)
	}
	q := e.shardOf([]byte("q")).queues["q"]
	on := DefaultQueueOptions()
	q.shard.mu.Lock()
	e.setOptions(q, &on)
	at := readCursor{}
	for range 5 { // the open read, and four of those that came back
		e.enterSome(q, &at)
	}
	q.shard.mu.Unlock()
	c := e.Flushing([]byte("q"), "")
	c.Do(Now(), 1) // it has dropped them, and has not given them back
	e.Abort(Now(), refs[0])
	q.shard.mu.Lock()
	for more := true; more; {
		more = e.enterSome(q, &at)
	}
	q.shard.mu.Unlock()
	e.endCrossing(q)
	for c.Do(Now(), 1) {
	}
	verify(t, e)
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "0")
}
