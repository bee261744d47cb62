package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// A queue may have many thousands of runs: with many queues in read-behind, each run ends when another queue's is to
// grow. These tests see that nobody goes through all of them with the shard locked.

// withRuns puts items to a queue and writes them to n runs, one to each, which is all that the queue has.
func withRuns(t *testing.T, e *Engine, name string, n int) *queue {
	t.Helper()
	for i := range n {
		mustPut(t, e, name, fmt.Sprint("item ", i))
		q := e.shardOf([]byte(name)).queues[name]
		e.spillAll(q, true)
		e.spool.spill(e.spool.spills.Take())
		e.spool.endRun(q)
		spoolSome(e, 1<<20)
	}
	q := e.shardOf([]byte(name)).queues[name]
	if got := len(q.backlog.runs); got != n {
		t.Fatalf("the queue has %d runs, want %d", got, n)
	}
	return q
}

// fakeRuns are n runs of ten items each, from item 11 on.
func fakeRuns(n int) (all []*run) {
	for i := range n {
		state := runs.State{Count: 10, FirstID: uint64(i+1)*10 + 1, LastID: uint64(i+2) * 10, End: 100}
		all = append(all, &run{written: state, recorded: state})
	}
	return all
}

// TestRunsAreFoundByTheirIDs tests that who looks for the run of an item does not look at all before it.
func TestRunsAreFoundByTheirIDs(t *testing.T) {
	const n = 1000
	b := &backlog{runs: fakeRuns(n)}
	clear(b.runs[:n/2]) // who looks at one of them fails
	for id := uint64(n/4*3)*10 + 31; id <= (n+1)*10; id++ {
		if !b.contains(id) || b.runOf(id) != b.runs[(id-1)/10-1] {
			t.Fatalf("item %d is in no run, or in another", id)
		}
	}
	if b.contains((n+1)*10 + 1) {
		t.Error("an item behind all runs is in one")
	}
}

// TestRetireMovesNoRuns tests that runs which have been read leave the list at once, without the others moving.
func TestRetireMovesNoRuns(t *testing.T) {
	e, _ := newQuiet(t)
	mustPut(t, e, "q", "x")
	q := e.shardOf([]byte("q")).queues["q"]
	const n, read = 100, 60
	was := q.nextID
	b := &backlog{runs: fakeRuns(n)}
	q.backlog, q.window.FirstID = b, (read+1)*10+1
	last := &b.runs[n-1]
	e.retire(q)
	if len(b.runs) != n-read || len(b.spent) != read || b.spent[read-1].written.LastID != (read+1)*10 {
		t.Errorf("%d runs are left and %d spent, want %d and %d", len(b.runs), len(b.spent), n-read, read)
	}
	if &b.runs[len(b.runs)-1] != last {
		t.Error("the runs that are left have moved")
	}
	q.backlog, q.window.FirstID = nil, was-1
	e.spool.records.Take()
}

// TestThinPieces tests that a look at what is gone of many runs lets others in, and that what they do meanwhile is
// heeded.
func TestThinPieces(t *testing.T) {
	pieces := 0
	var q *queue
	o := testOptions(newFS(), tiny)
	o.yield = func() {
		pieces++
		q.shard.mu.Lock() // fails unless it is unlocked
		defer q.shard.mu.Unlock()
		if pieces == 2 {
			q.backlog = nil
		}
	}
	e := openQuiet(t, o)
	mustPut(t, e, "q", "x")
	q = e.shardOf([]byte("q")).queues["q"]
	b := &backlog{runs: fakeRuns(5000)}
	b.gone.Add(35)
	q.backlog = b
	e.spool.queues.Add(q)
	defer e.spool.queues.Remove(q)
	e.spool.tend()
	if pieces != 2 {
		t.Errorf("a look at 5000 runs lets others in %d times before the backlog has gone, want 2", pieces)
	}
}

// TestBackupListsRunsInPieces tests that a backup which lists many runs of a queue lets others in.
func TestBackupListsRunsInPieces(t *testing.T) {
	const n = 5000
	pieces := 0
	o := testOptions(newFS(), tiny)
	var q *queue
	o.yield = func() {
		pieces++
		q.shard.mu.Lock() // fails unless it is unlocked
		defer q.shard.mu.Unlock()
	}
	e := openQuiet(t, o)
	mustPut(t, e, "q", "x")
	q = e.shardOf([]byte("q")).queues["q"]
	q.backlog = &backlog{runs: fakeRuns(n)}
	e.spool.queues.Add(q)
	if err := (&Backup{e: e}).addRuns(); err != nil || pieces < n/1024 {
		t.Errorf("a backup lists %d runs in %d pieces: %v", n, pieces+1, err)
	}
	e.spool.queues.Remove(q)
	q.backlog = nil
}

// TestStarvedStay tests that the queue which has waited longest for a descriptor is spilled, and that the others do not move.
func TestStarvedStay(t *testing.T) {
	e, _ := newQuiet(t)
	const n = 100
	s, all := e.spool, make([]queue, n)
	for i := range all {
		s.starved = append(s.starved, &all[i])
	}
	last := &s.starved[n-1]
	for i := range n - 1 {
		if s.feed(); s.spills.Take() != &all[i] {
			t.Fatalf("queue %d that waits is not the next", i)
		}
	}
	if last != &s.starved[0] || *last != &all[n-1] {
		t.Error("the queue that is left has moved")
	}
	s.starved = nil
}

// TestThinFromRun tests that runs are written again one after the other, each search going on behind the one before.
func TestThinFromRun(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	var q *queue
	const n = 40
	for i := range n {
		putMany(t, e, "q", 4*i, 4)
		q = e.shardOf([]byte("q")).queues["q"]
		e.spillAll(q, true)
		e.spool.spill(e.spool.spills.Take())
		e.spool.endRun(q)
		spoolSome(e, 1<<20)
	}
	for id := uint64(9); id <= 4*n; id += 2 {
		if _, err := e.Remove(Now(), []byte("q"), "", Which{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	e.spool.tend()
	spoolAll(e)
	for i, r := range q.backlog.runs {
		if gone := r.written.Gone(&q.backlog.gone); gone > 0 && q.mayThin(r) {
			t.Errorf("%d items of run %d are gone, and it was not written again", gone, i)
		}
	}
	if q.backlog.thin || q.backlog.thinFrom != 0 {
		t.Error("the next search does not begin with the first run")
	}
	verify(t, e)
}

// TestForgoManyRuns tests that many runs go in pieces after a flush, that items which clients have open are kept, and
// that all files go.
func TestForgoManyRuns(t *testing.T) {
	pieces := 0
	o := testOptions(newFS(), tiny)
	o.yield = func() { pieces++ }
	e := openQuiet(t, o)
	const n, reads = 3*checkpointRecords + 20, 10
	q := withRuns(t, e, "q", n)
	for range reads {
		mustOpen(t, e, "q")
	}
	if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	pieces = 0
	e.spool.record(q)
	if want := n / checkpointRecords; pieces < want {
		t.Errorf("%d runs go in %d pieces, want %d at least", n, pieces, want)
	}
	if files := runFiles(e.opts.FS.(interface{ Paths() []string })); len(files) != 0 {
		t.Errorf("%d files are left", len(files))
	}
	verify(t, e)
	if left := kill(t, e).items("q"); left != reads {
		t.Errorf("%d items are there after a restart, want the %d that were open", left, reads)
	}
}

// TestThinBesideFlush flushes a queue of which a run is about to be written again, and the file goes. That is no error for the
// log.
func TestThinBesideFlush(t *testing.T) {
	var log bytes.Buffer
	fsys := &hookFS{FS: newFS()}
	o := testOptions(fsys, tiny)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e := openQuiet(t, o)
	putMany(t, e, "q", 0, 40)
	q := e.shardOf([]byte("q")).queues["q"]
	for range 2 {
		e.spillAll(q, true)
		e.spool.spill(e.spool.spills.Take())
		e.spool.endRun(q)
		spoolSome(e, 1<<20)
		putMany(t, e, "q", 40, 40)
	}
	for id := uint64(50); id <= 80; id++ {
		if _, err := e.Remove(Now(), []byte("q"), "", Which{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	flushed := false
	fsys.openRead = func() {
		if fsys.openRead, flushed = nil, true; len(runFiles(fsys.FS)) == 0 {
			t.Error("the files have gone already")
		}
		if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
			t.Error(err)
		}
		e.spool.record(q)
	}
	e.spool.tend()
	e.spool.recordAndThin(q)
	if files := runFiles(fsys.FS); !flushed || len(files) > 0 {
		t.Errorf("the queue is flushed: %t, and the files left are %q", flushed, files)
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log has an error:\n%s", &log)
	}
}

// TestUnthinned tests that what a run names is looked for among the runs that overlap it alone.
func TestUnthinned(t *testing.T) {
	const n = 1000
	q := &queue{backlog: &backlog{runs: fakeRuns(n)}}
	for i, r := range q.backlog.runs {
		r.ID.Number = uint64(n + i)
	}
	old := *q.backlog.runs[n-10]
	old.ID.Number = 1
	q.backlog.runs[n-10].recorded.FirstID += 2
	clear(q.backlog.runs[:n/2]) // who looks at one of them fails
	ids := old.recorded.IDs()
	if got := ids.Minus(q.thinnedFrom(&old)); len(got) != 1 || got[0] != idset.Between(ids.First, ids.First+1) {
		t.Errorf("no run has %v of %v, want the first two", got, ids)
	}
}

// TestGoneBesideManyHiddenRuns looks for what is gone of a queue with many files of delayed items. It takes their ids in
// pieces. Items that go to such a file meanwhile do not count as gone.
func TestGoneBesideManyHiddenRuns(t *testing.T) {
	h := newHiding(t, newFS())
	h.putMany(20, time.Hour)
	q := h.queue()
	walk := q.beginGone(true)
	h.work()
	if h.disk() != 20 {
		t.Fatalf("%d items are on disk, want 20", h.disk())
	}
	if gone := walk.end(); !gone.IsEmpty() {
		t.Errorf("items %v are gone, which went to a file meanwhile", gone.Ranges())
	}
	const n = 1000
	set := &q.itemsAside().hidden
	for i := range uint64(n) {
		var live idset.Bitmap
		live.Add(1000 + i)
		set.Add(hidden.Restored(runs.File{}, hidden.Written{Frames: make([]hidden.Frame, 1)}, 0, live, 1))
	}
	q.nextID += 2 * n
	walk = q.beginGone(true)
	pieces := 0
	for walk.piece() {
		pieces++
	}
	if pieces < n/64 {
		t.Errorf("the ids of %d files are taken in %d pieces, want %d at least", n, pieces, n/64)
	}
	gone := walk.Set()
	if gone.Count(idset.Between(1000, 1000+n-1)) > 0 || !gone.Has(999) || !gone.Has(1000+n) {
		t.Errorf("items %v are gone", gone.Ranges())
	}
	q.nextID -= 2 * n
	set.DropIf(func(r *hidden.Run) bool { return r.Path == "" })
}

// TestManyHiddenRunsInPieces tests that the background looks at many files of delayed items in pieces, between which the
// shard is unlocked. A flush leaves it to the background to have them removed.
func TestManyHiddenRunsInPieces(t *testing.T) {
	const n = 3*hiddenPiece + 10
	pieces := 0
	h := newHiding(t, newFS(), func(o *Options) { o.yield = func() { pieces++ } })
	h.putMany(20, time.Hour)
	set := &h.queue().itemsAside().hidden
	for i := range uint64(n) {
		var live idset.Bitmap
		live.Add(1000 + i)
		set.Add(hidden.Restored(runs.File{}, hidden.Written{Frames: make([]hidden.Frame, 1)}, 0, live, 1))
	}
	for name, walk := range map[string]func(){
		"tend": h.spool.tendHidden,
		"hideAgain": func() {
			h.spool.hideMu.Lock()
			defer h.spool.hideMu.Unlock()
			if err := h.spool.hideAgain(h.queue()); err != nil {
				t.Error(err)
			}
		},
		"a backup":   func() { (&Backup{e: h.Engine}).addRuns() },
		"measureUse": func() { h.measureUse(h.journal.Segments()) },
	} {
		h.spool.registerHidden(h.queue())
		pieces = 0
		if walk(); pieces < n/hiddenPiece {
			t.Errorf("%s looks at %d files in %d pieces, want %d", name, n, pieces+1, n/hiddenPiece+1)
		}
	}
	sh, q := h.lockQueue([]byte("q"))
	left := clearNow(h.Engine, q)
	sh.mu.Unlock()
	if files := len(h.spool.spent); files > 0 || !set.Used() {
		t.Errorf("a flush spends %d files in one step", files)
	}
	for !left.empty() {
		left.dispose(clearingPiece)
	}
	set.DropIf(func(r *hidden.Run) bool { return r.Path == "" })
}

// TestReclaimFails has the file of a run not go: the queue keeps that run, and none of those whose files have gone.
func TestReclaimFails(t *testing.T) {
	fsys := newFS()
	e := openQuiet(t, testOptions(fsys, tiny))
	q := withRuns(t, e, "q", 3)
	stays := q.backlog.runs[1].Path
	fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
		if op.Kind == segmenttest.OpRemove && op.Path == stays {
			f.Err = syscall.EIO
		}
		return f
	})
	if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	e.spool.record(q)
	if files := runFiles(fsys); len(q.backlog.spent) != len(files) || q.backlog.spent[0].Path != stays {
		t.Errorf("%d runs are to go, want the %d whose files are there", len(q.backlog.spent), len(files))
	}
	fsys.SetFault(nil)
	spoolAll(e)
	if files := runFiles(fsys); len(files) != 0 {
		t.Errorf("%d files are left", len(files))
	}
}
