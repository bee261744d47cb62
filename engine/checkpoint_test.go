package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// fillSegments puts items to a queue until the journal has n segments.
func fillSegments(t *testing.T, e *Engine, name string, n int) {
	t.Helper()
	for i := 0; len(e.journal.Segments()) < n; i++ {
		mustPut(t, e, name, fmt.Sprintf("%d %s", i, strings.Repeat("x", 300)))
	}
}

func trimAll(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.trimJournal(); err != nil {
		t.Fatalf("trimJournal = %v", err)
	}
}

// wantSegments checks which segments the journal still has.
func wantSegments(t *testing.T, e *Engine, first, count uint64) {
	t.Helper()
	segments := e.journal.Segments()
	if got := segments[0].Number; got != first || uint64(len(segments)) != count {
		t.Errorf("journal has %d segments from %d on, want %d from %d",
			len(segments), got, count, first)
	}
}

func TestTrimDropsWhatNothingNeeds(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "empty", "x") // its name, and its ids, are in the first segment only
	mustGet(t, e, "empty")
	fillSegments(t, e, "q", 5)
	wantSegments(t, e, 1, 5)
	drain(t, e, "q")
	tail := e.journal.Segment()
	trimAll(t, e)
	wantSegments(t, e, tail, 1)
	again := openQuiet(t, testOptions(fsys.Kill()))
	if got := again.Recovery(); got.Queues != 2 || got.Items != 0 {
		t.Errorf("Recovery = %+v, want 2 queues without items", got)
	}
	mustPut(t, again, "empty", "y")
	if got := contents(again, "empty", false)[0].ID; got != 2 {
		t.Errorf("second item has id %d, want 2", got)
	}
}

func TestTrimKeepsWhatIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		name string
		pin  func(e *Engine) // leaves the first item of q where something holds it
		free func(e *Engine)
	}{
		{"queued", func(*Engine) {}, func(e *Engine) { mustGet(t, e, "q") }},
		{"open", func(e *Engine) {
			mustOpen(t, e, "q")
		}, func(e *Engine) { mustCommit(t, e, e.Delete(Now(), []byte("q"))) }},
		{"returned", func(e *Engine) {
			r, _ := mustOpen(t, e, "q")
			e.Abort(Now(), r)
		}, func(e *Engine) { mustGet(t, e, "q") }},
		{"moving", func(e *Engine) {
			sh := e.shardOf([]byte("q"))
			sh.mu.Lock()
			var it Item
			sh.queues["q"].first(&it)
			e.moveOut(sh.queues["q"], &it, "dead")
			sh.mu.Unlock()
		}, func(e *Engine) {
			sh := e.shardOf([]byte("q"))
			sh.mu.Lock()
			moves := sh.takeMoves()
			sh.mu.Unlock()
			e.finishMoves(Now(), moves)
			drain(t, e, "dead")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, fsys := newQuiet(t)
			mustPut(t, e, "q", "pin")
			fillSegments(t, e, "other", 4)
			drain(t, e, "other")
			tt.pin(e)
			trimAll(t, e)
			if got := e.journal.Segments()[0].Number; got != 1 {
				t.Errorf("the oldest segment is %d, want 1", got)
			}
			again := openQuiet(t, testOptions(fsys.Kill()))
			wantItems(t, again, "q", "pin")
			tt.free(e)
			trimAll(t, e)
			if got := len(e.journal.Segments()); got > 2 {
				t.Errorf("%d segments are left, want at most 2", got)
			}
		})
	}
}

// TestTrimInTheMiddle drops the segments before the oldest item, and no other.
func TestTrimInTheMiddle(t *testing.T) {
	e, fsys := newQuiet(t)
	fillSegments(t, e, "q", 3)
	var oldest uint64
	for len(queued(e, "q")) > 1 {
		mustGet(t, e, "q")
		oldest = e.oldestSegment(99)
	}
	fillSegments(t, e, "later", 6)
	trimAll(t, e)
	if got := e.journal.Segments()[0].Number; got != oldest || oldest < 2 {
		t.Errorf("the oldest segment is %d, want %d", got, oldest)
	}
	again := openQuiet(t, testOptions(fsys.Kill()))
	if a, b := fmt.Sprint(queued(again, "q")), fmt.Sprint(queued(e, "q")); a != b {
		t.Errorf("after a kill queue q holds %.40s, want %.40s", a, b)
	}
}

// TestTrimAndDelete has a queue, or its journal, go away, and segments dropped because of that,
// before the process is killed. Nothing of it may be found without its name.
func TestTrimAndDelete(t *testing.T) {
	off := Settings{Default: DefaultQueueOptions()}
	off.Default.KeepJournal = false
	for _, tt := range []struct {
		name string
		end  func(e *Engine)
	}{
		{"delete", func(e *Engine) { e.Delete(Now(), []byte("q")) }},
		{"no journal any more", func(e *Engine) { e.Reload(off) }},
		{"flush", func(e *Engine) { e.Flush(Now(), []byte("q"), "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, fsys := newQuiet(t)
			fillSegments(t, e, "q", 4)
			tt.end(e)
			trimAll(t, e)
			if got := len(e.journal.Segments()); got > 2 {
				t.Errorf("%d segments are left, want at most 2", got)
			}
			again := openQuiet(t, testOptions(fsys.Kill()))
			wantItems(t, again, "q", "")
		})
	}
}

// TestTrimAfterRemoves confirms two items of different segments in the reverse order, and is killed
// between the drops of the two segments. The first item must not be gone while the second is there.
func TestTrimAfterRemoves(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "a")
	fillSegments(t, e, "fill", 2)
	mustPut(t, e, "q", "b")
	fillSegments(t, e, "fill", 3)
	drain(t, e, "fill")
	ra, _ := mustOpen(t, e, "q")
	rb, _ := mustOpen(t, e, "q")
	e.Confirm(Now(), rb)
	e.Confirm(Now(), ra)
	drops := fsys.Calls(segmenttest.OpRename)
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpRename && op.KindN > drops+1 {
			return segmenttest.Fault{Err: errors.New("killed here")}
		}
		return segmenttest.Fault{}
	})
	if err := e.trimJournal(); err == nil {
		t.Fatal("trimJournal = nil, want the fault")
	}
	again := openQuiet(t, testOptions(fsys.Kill()))
	wantItems(t, again, "q", "")
	fsys.SetFault(nil)
}

// TestTrimBesideSpentRun drops the segments that say what was taken first from a run. It keeps the later segments that
// mention the run itself, since one between them has an item of another queue. The run is used up and its file
// deleted, before or after a restart: no start may look for it.
func TestTrimBesideSpentRun(t *testing.T) {
	for _, restart := range []string{"never", "with an item left", "with a run used up"} {
		t.Run("restart "+restart, func(t *testing.T) {
			e, fsys := newQuiet(t, tiny)
			more := func(n int) {
				for range n {
					mustPut(t, e, "busy", strings.Repeat("x", 500))
					mustGet(t, e, "busy")
				}
			}
			recordPart := func() {
				spoolAll(e)
				e.spool.tend()
				spoolAll(e)
			}
			take := func(n int) {
				for range n {
					mustGet(t, e, "q")
					spoolAll(e)
				}
			}
			putMany(t, e, "q", 0, 100)
			recordPart()
			take(50)
			more(40)
			mustPut(t, e, "pin", "pin")
			more(20)
			putMany(t, e, "q", 100, 20) // the same run, recorded once more
			recordPart()
			more(20)
			take(69)
			kill := func(when string) {
				if restart == when {
					fsys = fsys.Kill()
					e = openQuiet(t, testOptions(fsys, tiny))
					spoolAll(e)
				}
			}
			kill("with an item left")
			take(1)
			kill("with a run used up")
			recordPart()
			if left := runFiles(fsys); len(left) > 0 {
				t.Fatalf("runs %q are left, want none", left)
			}
			before := e.journal.Segments()[0].Number
			trimAll(t, e)
			if got := e.journal.Segments()[0].Number; got == before {
				t.Fatalf("no segment was dropped before %d", got)
			}
			again := openQuiet(t, testOptions(fsys.Kill(), tiny))
			wantItems(t, again, "q", "")
			wantItems(t, again, "pin", "pin")
		})
	}
}

// TestTrimWhileFailing tries again and again while nothing can be written: that takes no memory.
func TestTrimWhileFailing(t *testing.T) {
	e, fsys := newQuiet(t)
	fillSegments(t, e, "q", 3)
	for i := range 100 {
		mustPut(t, e, fmt.Sprint("queue ", i), "x")
	}
	drain(t, e, "q")
	for i := range 100 {
		mustGet(t, e, fmt.Sprint("queue ", i))
	}
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, errors.New("no write")))
	e.trimJournal()
	e.retryJournal()
	before := e.journal.End()
	for range 100 {
		e.retryJournal()
		e.trimJournal()
	}
	if got := e.journal.End(); got != before {
		t.Errorf("%d bytes of records have gathered", got-before)
	}
	fsys.SetFault(nil)
	e.retryJournal()
	if got := len(e.journal.Segments()); got > 2 || e.journal.Failing() {
		t.Errorf("%d segments are left, failing = %v, want that it recovers by itself",
			got, e.journal.Failing())
	}
}

// TestTrimRecycles lets the journal run through many segments: it keeps few files.
func TestTrimRecycles(t *testing.T) {
	e, fsys := newQuiet(t)
	for i := range 300 {
		mustPut(t, e, "q", strings.Repeat("x", 500))
		mustGet(t, e, "q")
		if i%20 == 0 {
			trimAll(t, e)
			e.journal.Prepare()
		}
	}
	trimAll(t, e)
	if got := len(fsys.Paths()); got > 2+spareSegments {
		t.Errorf("%d files: %q", got, fsys.Paths())
	}
	if got := fsys.Calls(segmenttest.OpAllocate); got > 50 {
		t.Errorf("%d files were made, want that dropped segments are used again", got)
	}
}

// TestTrimComesToRest has so many queues that a checkpoint of them fills several segments. These must not call for the
// next checkpoint, and so on for ever.
func TestTrimComesToRest(t *testing.T) {
	e, fsys := newQuiet(t)
	for i := range 500 {
		mustGet(t, e, fmt.Sprint("queue ", i))
	}
	fillSegments(t, e, "q", 10)
	drain(t, e, "q")
	trimAll(t, e)
	first := e.journal.Segments()[0].Number
	before := e.journal.End()
	for range 20 {
		trimAll(t, e)
	}
	if got := e.journal.End() - before; got > 0 {
		t.Errorf("%d bytes of checkpoints were written with nothing to do", got)
	}
	if first < 9 {
		t.Errorf("the oldest segment is %d, want that the ten full ones were dropped", first)
	}
	for range 30 { // and it goes on when there is something to drop
		fillSegments(t, e, "q", len(e.journal.Segments())+3)
		drain(t, e, "q")
		trimAll(t, e)
	}
	if got := len(e.journal.Segments()); got > 30 {
		t.Errorf("the journal has %d segments", got)
	}
	if got := openQuiet(t, testOptions(fsys.Kill())).Recovery().Queues; got != 501 {
		t.Errorf("%d queues after a kill, want 501", got)
	}
}

// TestCheckpointInPieces records the state of a queue with many runs, and of whose items every
// second one is open, beside many other queues. No piece is large, no lock is held behind one, and what
// happens there is found after a kill, as if nothing had been recorded.
func TestCheckpointInPieces(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	for i := range 500 {
		mustGet(t, e, fmt.Sprint("queue ", i))
	}
	const items = 4 * checkpointRecords
	putMany(t, e, "q", 0, 2*items)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	var open []ReadRef
	for i := range items {
		spoolAll(e)
		ref, _ := mustOpen(t, e, "q")
		if i%2 == 0 {
			open = append(open, ref)
		} else {
			mustCommitted(t, e)(e.Confirm(Now(), ref))
		}
	}
	pieces, kills := 0, 0
	for n := range e.recordState() {
		if most := int64(checkpointRecords * record.MaxSpillSize); n > most {
			t.Errorf("piece %d has %d bytes, want %d at most", pieces, n, most)
		}
		pieces++
		if n < 100 { // the name of a queue
			continue
		}
		mustCommitted(t, e)(e.Confirm(Now(), open[0]))
		mustCommitted(t, e)(e.Confirm(Now(), open[len(open)-1]))
		open = open[1 : len(open)-1]
		mustGet(t, e, "q")
		mustPut(t, e, "q", "new")
		kills++
		again := kill(t, e)
		if got, want := len(contents(again, "q", true)), len(contents(e, "q", true)); got != want {
			t.Errorf("after a kill behind piece %d there are %d items, want %d", pieces, got, want)
		}
	}
	if pieces < 504 || pieces > 510 || kills < 2 {
		t.Errorf("the state was recorded in %d pieces, %d of them of a backlog", pieces, kills)
	}
}

// TestSpillBesideOpenReads has a queue spill a few items, and hand them out, again and again while
// many others of it are open. What the journal is given does not depend on how many.
func TestSpillBesideOpenReads(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	putMany(t, e, "q", 0, 2000)
	for i := range 2000 {
		spoolAll(e)
		if ref, _ := mustOpen(t, e, "q"); i%2 == 0 {
			mustCommitted(t, e)(e.Confirm(Now(), ref))
		}
	}
	spoolAll(e)
	before := e.journal.End()
	const rounds, puts = 20, 10
	for i := range rounds {
		putMany(t, e, "q", 2000+i, puts)
		spoolAll(e)
		e.spool.tend()
		spoolAll(e)
		for range puts {
			mustGet(t, e, "q")
		}
		spoolAll(e)
	}
	if n := (e.journal.End() - before) / (rounds * puts); n > 100 {
		t.Errorf("the journal was given %d bytes for each item of 30", n)
	}
	if got := openQuiet(t, testOptions(fsys.Kill(), tiny)).Recovery().Items; got != 1000 {
		t.Errorf("after a kill there are %d items, want 1000", got)
	}
}

// TestCheckpointBrokenOff has a write fail once in the middle of a checkpoint, which is not complete then. Segments stay
// until another one is.
func TestCheckpointBrokenOff(t *testing.T) {
	e, fsys := newQuiet(t)
	const queues = 4 * checkpointBatch / 200
	for i := range queues {
		mustPut(t, e, fmt.Sprintf("%0200d", i), "x")
	}
	tail := e.journal.Segment()
	fillSegments(t, e, "other", 4*len(e.journal.Segments()))
	for i := range queues {
		mustGet(t, e, fmt.Sprintf("%0200d", i))
	}
	drain(t, e, "other")
	fsys.SetFault(segmenttest.FailNth(segmenttest.OpWriteAt, fsys.Calls(segmenttest.OpWriteAt)+1, syscall.ENOSPC))
	failed := e.trimJournal()
	if got := openQuiet(t, testOptions(fsys.Kill())).Recovery().Queues; got != queues+1 || failed == nil {
		t.Errorf("behind a trim that returned %v a start has %d queues, want an error and %d", failed, got, queues+1)
	}
	e.retryJournal()
	trimAll(t, e)
	if got := e.journal.Segments()[0].Number; got <= tail {
		t.Errorf("the next trim has left segment %d", got)
	}
	if got := openQuiet(t, testOptions(fsys.Kill())).Recovery().Queues; got != queues+1 {
		t.Errorf("behind the next trim a start has %d queues, want %d", got, queues+1)
	}
}
