package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRunSyncFailsWhileWriting has the recording side's sync of a run fail in the middle of the writing side's write
// to it. A consumer takes the last item that the run held before. The run still belongs to the queue: what is being
// written is neither deleted nor left out of the journal.
func TestRunSyncFailsWhileWriting(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  func(segmenttest.Op) segmenttest.Fault
		broken bool
	}{
		{"sync fails", failRunSyncs, true},
		{"no descriptor for the directory", failRunDirs(syscall.EMFILE), false},
		{"sync of the directory fails", failRunDirs(syscall.EIO), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := &hookFS{FS: segmenttest.New()}
			e := openQuiet(t, testOptions(fsys, tiny))
			want := putMany(t, e, "q", 1, 4)
			q := e.shardOf([]byte("q")).queues["q"]
			e.spool.spill(q)
			want = append(want, putMany(t, e, "q", 5, 4)...) // they leave, and are not written yet
			take := func() {
				t.Helper()
				var got copied
				f, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &got)
				if err != nil || string(got.item.Data) != want[0] {
					t.Fatalf("Fetch = %q, %v, want %q", got.item.Data, err, want[0])
				}
				mustCommit(t, e, f.Ticket)
				want = want[1:]
			}
			for range 3 {
				e.spool.fill(q)
				take()
			}
			e.spool.fill(q) // the last item of the run is in the window
			r := q.backlog.growing
			fsys.write = func(call func() error) error {
				fsys.write = nil
				e.spool.tend()
				fsys.SetFault(tt.fault)
				e.spool.record(e.spool.records.Take())
				fsys.SetFault(nil)
				if r.broken != tt.broken {
					t.Errorf("the run is broken: %t, want %t", r.broken, tt.broken)
				}
				take()
				return call()
			}
			e.spool.spill(q)
			if fsys.write != nil {
				t.Fatal("nothing was written")
			}
			verify(t, e)
			want = append(want, putMany(t, e, "q", 9, 8)...)
			awaitRuns(e)
			wantSurvivors(t, e, fsys.FS, want)
		})
	}
}

// TestRunReplacedBehindItsEnd: a run whose sync failed is written to another one when all of it has been read,
// and its last item taken only then. Reading goes on behind it, and does not look for it again.
func TestRunReplacedBehindItsEnd(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	want := append(putMany(t, e, "q", 1, 3), strings.Repeat("x", 60)) // the last one fills the window
	mustPut(t, e, "q", want[3])
	q := e.shardOf([]byte("q")).queues["q"]
	e.spool.spill(q)
	fsys.SetFault(failRunSyncs)
	e.spool.tend()
	e.spool.record(e.spool.records.Take())
	r := q.backlog.runs[0]
	if !r.broken {
		t.Fatal("the sync of the run has not failed")
	}
	want = append(want, putMany(t, e, "q", 5, 4)...)
	e.spool.spill(q) // to another run
	for range 3 {
		e.spool.fill(q)
		if got := mustGet(t, e, "q"); got != want[0] {
			t.Fatalf("got %q, want %q", got, want[0])
		}
		want = want[1:]
	}
	e.spool.fill(q) // the last item of the run is in the window
	if b := q.backlog; b.next.Run != r || b.next.Offset != r.written.End || b.onDisk != 4 {
		t.Fatalf("%d items are on disk, the next at %+v, want 4 behind the run", b.onDisk, b.next)
	}
	fsys.SetFault(nil)
	e.spool.tend()
	for q := e.spool.records.Take(); q != nil; q = e.spool.records.Take() {
		e.spool.record(q)
	}
	if got := mustGet(t, e, "q"); got != want[0] {
		t.Errorf("got %q, want %q", got, want[0])
	}
	verify(t, e)
	awaitRuns(e)
	wantSurvivors(t, e, fsys, want[1:])
}

// failRunDirs has syncs of the directory of the runs fail.
func failRunDirs(err error) func(segmenttest.Op) segmenttest.Fault {
	return func(op segmenttest.Op) (f segmenttest.Fault) {
		if op.Kind == segmenttest.OpSyncDir && strings.HasSuffix(op.Path, "backlog") {
			f.Err, f.KeepDirty = err, segment.OutOfFiles(err)
		}
		return f
	}
}

// awaitRuns has the spool do all that it has to do, also what it has put off.
func awaitRuns(e *Engine) {
	for range 3 {
		e.spool.tend()
		spoolSome(e, 1<<30)
	}
}

// wantSurvivors has the journal drop what it does not need. It fails the test unless "q" then holds the items in want.
// It looks now, after a kill, and after a power cut that leaves only what was synced.
func wantSurvivors(t *testing.T, e *Engine, fsys *segmenttest.FS, want []string) {
	t.Helper()
	for i := range 200 {
		mustPut(t, e, "other", fmt.Sprintf("%0100d", i))
		mustGet(t, e, "other")
	}
	for range 2 {
		if err := e.trimJournal(); err != nil {
			t.Fatal(err)
		}
	}
	verify(t, e)
	cut := segmenttest.CutOptions{Mode: segmenttest.Lose}
	for _, again := range []struct {
		what string
		fs   *segmenttest.FS
	}{{"a kill", fsys.Kill()}, {"a power cut", fsys.PowerCut(cut)}} {
		e, err := open(testOptions(again.fs, tiny))
		if err != nil {
			t.Fatalf("after %s: Open = %v", again.what, err)
		}
		closeAtEnd(t, e)
		if got := drain(t, e, "q"); !slices.Equal(got, want) {
			t.Errorf("after %s the queue holds %q, want %q", again.what, got, want)
		}
	}
	if got := drain(t, e, "q"); !slices.Equal(got, want) {
		t.Errorf("the queue holds %q, want %q", got, want)
	}
}

// TestRunNameIsLost: the sync of the directory fails when one queue's run is synced. The name of
// another queue's run may be lost by that too, although the next sync succeeds. That run is not recorded, but written
// elsewhere, and a power cut loses nothing.
func TestRunNameIsLost(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	want := make(map[string][]string)
	for _, name := range []string{"a", "b"} {
		want[name] = putMany(t, e, name, 0, 40)
	}
	spoolAll(e)
	e.spool.tend()
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpSyncDir && strings.HasSuffix(op.Path, "backlog") && e.spool.dir.Lost() == 0 {
			return segmenttest.Fault{Err: syscall.EIO}
		}
		return segmenttest.Fault{}
	})
	spoolAll(e)
	fsys.SetFault(nil)
	if e.spool.dir.Lost() != 1 {
		t.Fatal("the directory was not synced")
	}
	turnOver(t, e) // the journal drops what it does not need
	again := openQuiet(t, testOptions(fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose}), tiny))
	for _, name := range []string{"a", "b"} {
		wantItems(t, again, name, strings.Join(want[name], " "))
		if got := drain(t, e, name); !slices.Equal(got, want[name]) {
			t.Errorf("queue %q has %d items, want %d in order", name, len(got), len(want[name]))
		}
	}
}

// TestRunNumbersOfFiles starts beside a file that belongs to no queue and cannot be removed. No run gets its number.
func TestRunNumbersOfFiles(t *testing.T) {
	fsys := newFS()
	e := openQuiet(t, testOptions(fsys)) // makes the directory
	left := runs.Path(e.spool.dir.Path, 1)
	if err := errors.Join(e.Close(), fsys.WriteFile(left, []byte("of nobody"))); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
		if op.Kind == segmenttest.OpRemove && op.Path == left {
			f.Err = syscall.EIO
		}
		return f
	})
	e = openQuiet(t, testOptions(fsys))
	if w, _, err := e.spool.dir.Create(segment.Cached); err != nil || w.ID().Number != 2 || w.Close() != nil {
		t.Errorf("a run is made as %v, %v, want number 2", w, err)
	}
}
