package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// failSync has the next sync of e's journal fail, with a put that waits for it.
func failSync(t *testing.T, e *Engine, fsys *segmenttest.FS, name, data string) {
	t.Helper()
	e.journal.Prepare() // the put must not have to
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	if err := tryPut(e, name, data); !errors.Is(err, segment.ErrPoisoned) {
		t.Fatalf("put whose sync fails = %v, want ErrPoisoned", err)
	}
	fsys.SetFault(nil)
}

// moveOptions are testOptions with a queue that has hardly any memory.
func moveOptions(fsys segment.FS) Options {
	o := testOptions(fsys)
	deep := o.Settings.Default
	tiny(&deep)
	o.Settings.Queues = map[string]QueueOptions{"deep": deep}
	return o
}

// liveQueues fills queues in every way that a journal has to record. It makes several segments, a child, an open read,
// a returned one, flags, expiries, and an emptied queue. Of a backlog some is read back, some is open, some is gone
// out of its order, and some is not synced.
func liveQueues(t *testing.T, e *Engine) (open ReadRef) {
	t.Helper()
	mustGet(t, e, "p+c")
	for i := range 30 {
		mustPut(t, e, "q", fmt.Sprintf("%03d%s", i, strings.Repeat("x", 50*(i%7))))
		mustPut(t, e, "p", fmt.Sprint("fanout ", i))
	}
	for range 7 {
		mustGet(t, e, "q")
	}
	returned, _ := mustOpen(t, e, "q")
	open, _ = mustOpen(t, e, "q")
	e.Abort(Now(), returned)
	p := PutRequest{Data: []byte("expires"), Flags: 7, Expiry: Now().After(time.Hour)}
	ticket, err := e.Put(Now(), []byte("q"), p)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	mustPut(t, e, "emptied", "x")
	mustGet(t, e, "emptied")
	putMany(t, e, "deep", 0, 60)
	spoolAll(e)
	for range 3 {
		mustGet(t, e, "deep")
		spoolAll(e)
	}
	mustOpen(t, e, "deep")
	spoolAll(e)
	gone, _ := mustOpen(t, e, "deep")
	mustCommitted(t, e)(e.Confirm(Now(), gone))
	putMany(t, e, "deep", 60, 20)
	spoolSome(e, 1)
	putMany(t, e, "deep", 80, 10)
	return open
}

// stateAfter is stateOf what a start finds in an image, or why there is none.
func stateAfter(t *testing.T, image *segmenttest.FS) string {
	t.Helper()
	e, err := open(moveOptions(image))
	if err != nil {
		return err.Error()
	}
	defer e.Close()
	verify(t, e)
	return stateOf(e)
}

// afterCrashes returns the states that a kill and power cuts would leave, each with its name.
func afterCrashes(t *testing.T, fsys *segmenttest.FS) map[string]string {
	t.Helper()
	states := map[string]string{"kill": stateAfter(t, fsys.Kill())}
	for _, o := range []segmenttest.CutOptions{
		{Mode: segmenttest.Lose}, {Mode: segmenttest.Tear, Seed: 1},
		{Mode: segmenttest.Tear, Seed: 2, ReorderMetadata: true},
	} {
		states[fmt.Sprintf("power cut %+v", o)] = stateAfter(t, fsys.PowerCut(o))
	}
	return states
}

// TestMoveJournal has two syncs fail, one after the other. Each time everything live is in another
// journal a moment later, what was waiting becomes good, and all goes on as before.
func TestMoveJournal(t *testing.T) {
	fsys := newFS()
	e := openQuiet(t, moveOptions(fsys))
	read := liveQueues(t, e)
	for i := range 2 {
		ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("waits")})
		if err != nil {
			t.Fatal(err)
		}
		failSync(t, e, fsys, "q", "fails")
		if e.Committed(ticket) || !errors.Is(tryPut(e, "q", "refused"), ErrJournal) {
			t.Error("a poisoned journal acknowledges")
		}
		e.moveDelay, e.nextMove = 0, time.Time{}
		e.retryJournal()
		if !e.Committed(ticket) {
			t.Error("what is live in the new journal is not committed")
		}
		want := stateOf(e)
		for crash, got := range afterCrashes(t, fsys) {
			if got != want {
				t.Errorf("failure %d, %s leaves\n%s\nwant\n%s", i+1, crash, got, want)
			}
		}
		mustPut(t, e, "q", "accepted again")
		mustPut(t, e, "new queue", fmt.Sprint(i))
		fillSegments(t, e, "filler", 3)
	}
	if names := journals(t, fsys); !slices.Equal(names, []string{"journal.2"}) {
		t.Errorf("the data directory holds %q, want journal.2 alone", names)
	}
	mustCommitted(t, e)(e.Confirm(Now(), read))
	drain(t, e, "filler")
	if err := e.trimJournal(); err != nil {
		t.Fatal(err)
	}
	want := stateOf(e)
	if err := e.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	again := openQuiet(t, moveOptions(fsys))
	if got := stateOf(again); got != want {
		t.Errorf("a restart finds\n%s\nwant\n%s", got, want)
	}
	if got := again.journals.Current(); got != testDir+"/journal.2" {
		t.Errorf("a restart uses %s", got)
	}
}

// TestMoveJournalCrash stops the machine at every call of a move. Whatever a start finds then is
// the queues as they were acknowledged last, or as they were when the machine stopped.
func TestMoveJournalCrash(t *testing.T) {
	if wrong := crashMoves(t, func(fsys *segmenttest.FS) segment.FS { return fsys }); len(wrong) > 0 {
		t.Error(wrong[0])
	}
}

// TestMoveJournalControl breaks what a move relies on: the check of TestMoveJournalCrash must find
// that acknowledged items are lost.
func TestMoveJournalControl(t *testing.T) {
	breaks := func(fsys *segmenttest.FS) func(func() error) error {
		return func(call func() error) error {
			if len(journals(t, fsys)) > 1 {
				return nil // says that it has synced, and has not
			}
			return call()
		}
	}
	for name, disk := range map[string]func(fsys *segmenttest.FS) segment.FS{
		"files are not synced": func(fsys *segmenttest.FS) segment.FS {
			return &hookFS{FS: fsys, datasync: breaks(fsys)}
		},
		"names are not synced": func(fsys *segmenttest.FS) segment.FS {
			return &hookFS{FS: fsys, syncDir: breaks(fsys)}
		},
	} {
		if wrong := crashMoves(t, disk); len(wrong) == 0 {
			t.Errorf("%s: nothing is found to be wrong", name)
		}
	}
}

// journals returns the names of the journals in the data directory; none if the machine has
// stopped.
func journals(t *testing.T, fsys *segmenttest.FS) (all []string) {
	t.Helper()
	names, err := fsys.List(testDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !fsys.Stopped() {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "journal") {
			all = append(all, name)
		}
	}
	return all
}

// crashMoves returns what is wrong in the images of moves that are stopped at each of their calls.
func crashMoves(t *testing.T, disk func(*segmenttest.FS) segment.FS) (wrong []string) {
	t.Helper()
	for n := 1; ; n++ {
		fsys := newFS()
		o := moveOptions(disk(fsys))
		o.SegmentSize = 1024
		e, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		liveQueues(t, e)
		states := []string{stateOf(e)}
		failSync(t, e, fsys, "q", "not acknowledged")
		states = append(states, stateOf(e)) // it was written
		mustFetch(t, e, "q")                // nor is this
		states = append(states, stateOf(e)) // it is only in the new journal that the item is gone
		fsys.StopAt(fsys.MutatingCalls() + n)
		e.retryJournal()
		stopped := fsys.Stopped()
		if stopped {
			if err := tryPut(e, "q", "x"); err == nil {
				t.Fatalf("stopped at call %d of the move, a put is acknowledged", n)
			}
		}
		for crash, got := range afterCrashes(t, fsys) {
			if !slices.Contains(states, got) {
				wrong = append(wrong, fmt.Sprintf("stopped at call %d, %s leaves\n%s\nwant one of\n%s",
					n, crash, got, strings.Join(states, "\n\n")))
			}
		}
		e.Close()
		if !stopped {
			if n < 30 {
				t.Errorf("a move makes %d calls only", n-1)
			}
			return wrong
		}
	}
}

// mustFetch takes an item without waiting for its commit.
func mustFetch(t *testing.T, e *Engine, name string) {
	t.Helper()
	if _, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &copied{}); err != nil {
		t.Fatal(err)
	}
}

// TestUseDuringMove does to queues what clients may do, one thing at each write of a move. Whatever
// it is and whenever it comes, the new journal says what memory does.
func TestUseDuringMove(t *testing.T) {
	large := strings.Repeat("x", 1500) // so that each queue is written by itself
	uses := map[string]func(t *testing.T, e *Engine, read ReadRef){
		"put": func(t *testing.T, e *Engine, _ ReadRef) {
			if err := tryPut(e, "a", "x"); !errors.Is(err, ErrJournal) {
				t.Errorf("put during a move = %v, want ErrJournal", err)
			}
		},
		"get": func(t *testing.T, e *Engine, _ ReadRef) {
			for _, name := range []string{"a", "b", "c", "d"} {
				f, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &copied{})
				if q := e.shardOf([]byte(name)).queues[name]; err == ErrComing && q.crossing {
					continue // it is being written
				}
				if err != nil || e.Committed(f.Ticket) || !errors.Is(e.Commit(f.Ticket), ErrJournal) {
					t.Errorf("get during a move = %+v, %v, want that it is not good yet", f, err)
				}
			}
		},
		"confirm": func(t *testing.T, e *Engine, read ReadRef) { e.Confirm(Now(), read) },
		"abort":   func(t *testing.T, e *Engine, read ReadRef) { e.Abort(Now(), read) },
		"open": func(t *testing.T, e *Engine, _ ReadRef) {
			for _, name := range []string{"a", "b", "c", "d"} {
				if !e.shardOf([]byte(name)).queues[name].crossing { // else it waits
					mustOpen(t, e, name)
				}
			}
		},
		"new queue": func(t *testing.T, e *Engine, _ ReadRef) {
			e.Fetch(Now(), []byte("new"), FetchRequest{}, &copied{})
		},
		"flush": func(t *testing.T, e *Engine, _ ReadRef) { e.FlushAll(Now(), "") },
		"delete": func(t *testing.T, e *Engine, _ ReadRef) {
			for _, name := range []string{"a", "b", "c", "d"} {
				e.Delete(Now(), []byte(name))
			}
		},
		"expire into another": func(t *testing.T, e *Engine, _ ReadRef) {
			e.FlushAllExpired(Now().After(time.Hour))
		},
		"leave the journal and come back": func(t *testing.T, e *Engine, _ ReadRef) {
			if !e.reloadMu.TryLock() {
				return // a queue is being written: the reload waits for that
			}
			e.reloadMu.Unlock()
			was := e.settings.Load().Settings
			off := Settings{Default: was.Default}
			off.Default.KeepJournal = false
			for _, s := range []Settings{off, was} {
				if err := e.Reload(s); !errors.Is(err, ErrJournal) {
					t.Errorf("Reload = %v, want ErrJournal", err)
				}
			}
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			for n := 1; n > 0; n++ {
				if useDuringMove(t, large, n, use) < n {
					if n < 4 {
						t.Errorf("a move writes %d times only", n)
					}
					return
				}
			}
		})
	}
}

// useDuringMove uses queues at the n-th write of a move and returns how many writes there were.
func useDuringMove(
	t *testing.T, large string, n int, use func(*testing.T, *Engine, ReadRef),
) (writes int) {
	fsys := newFS()
	hook := &hookFS{FS: fsys}
	o := testOptions(hook)
	o.Settings.Queues = map[string]QueueOptions{}
	for _, name := range []string{"a", "b", "c", "d"} {
		q := o.Settings.Default
		q.ExpireTo = map[string]string{"a": "d", "d": "a", "b": "dead", "c": "b"}[name]
		if name > "b" {
			q.MaxMemorySize = 600 // the large item is on disk
		}
		o.Settings.Queues[name] = q
	}
	e := openQuiet(t, o)
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, data := range []string{"1", large, "2", "3"} {
			p := PutRequest{Data: []byte(data), Expiry: Now().After(time.Minute)}
			ticket, err := e.Put(Now(), []byte(name), p)
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
		}
	}
	spoolAll(e)
	read, _ := mustOpen(t, e, "a")
	failSync(t, e, fsys, "b", "last")
	hook.write = func(call func() error) error {
		if e.journal.Failing() {
			if writes++; writes == n {
				use(t, e, read)
			}
		}
		return call()
	}
	e.retryJournal()
	hook.write = nil
	if e.journal.Failing() {
		t.Fatal("the journal was not moved")
	}
	mustCommit(t, e, Ticket{Written: e.journal.End(), Synced: e.journal.End()})
	verify(t, e)
	want := stateOf(e)
	for crash, got := range afterCrashes(t, fsys) {
		if got != want {
			t.Fatalf("used at write %d, %s leaves\n%.2000s\nwant\n%.2000s", n, crash, got, want)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return writes
}

// TestMoveIsTriedAgain: as long as no sync works, moves are tried less and less often and leave
// nothing behind. When one does, puts are accepted again by themselves.
func TestMoveIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(*Options) {})
		mustPut(t, e, "q", "a")
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
		if err := tryPut(e, "q", "b"); !errors.Is(err, ErrJournal) {
			t.Fatalf("Put = %v, want ErrJournal", err)
		}
		before := fsys.Calls(segmenttest.OpMkdirAll)
		after(10 * time.Minute)
		if n := fsys.Calls(segmenttest.OpMkdirAll) - before; n < 10 || n > 20 {
			t.Errorf("a move was tried %d times in ten minutes", n)
		}
		if names := journals(t, fsys); !slices.Equal(names, []string{"journal"}) {
			t.Errorf("failed moves leave %q", names)
		}
		fsys.SetFault(nil)
		after(maxMoveDelay + maintainInterval)
		mustPut(t, e, "q", "c")
		if got := afterCut(t, fsys); got != "a b c" {
			t.Errorf("a power cut leaves %q, want a b c", got)
		}
	})
}

// TestMoveUnderLoad has syncs fail again and again while clients put and get. What was acknowledged
// survives a power cut, in order; nothing comes twice.
func TestMoveUnderLoad(t *testing.T) {
	const clients, rounds, puts = 4, 5, 300
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(*Options) {})
		var acknowledged [clients][]string
		var running sync.WaitGroup
		for c := range clients {
			name := fmt.Sprint("q", c)
			running.Go(func() {
				for i := range puts {
					data := fmt.Sprint(i)
					if tryPut(e, name, data) == nil {
						acknowledged[c] = append(acknowledged[c], data)
					}
					<-time.After(time.Duration(1+c) * 7 * time.Millisecond)
				}
			})
		}
		moved := 0
		for range rounds {
			after(200 * time.Millisecond)
			fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
			after(150 * time.Millisecond)
			fsys.SetFault(nil)
			after(2 * time.Second)
			if !e.journal.Failing() {
				moved++
			}
		}
		running.Wait()
		if dir, err := JournalDir(fsys, testDir); moved != rounds || err != nil || len(dir) < 10 {
			t.Errorf("after %d failures the journal was moved %d times, to %s, %v",
				rounds, moved, dir, err)
		}
		image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
		again := openQuiet(t, testOptions(image))
		for c := range clients {
			got := queued(again, fmt.Sprint("q", c))
			want := acknowledged[c]
			for _, data := range got {
				if len(want) > 0 && data == want[0] {
					want = want[1:]
				}
			}
			if len(want) > 0 || len(got) > puts || len(acknowledged[c]) < puts/4 {
				t.Errorf("client %d: %d items acknowledged, %d found, lost from %.20q on",
					c, len(acknowledged[c]), len(got), want)
			}
		}
	})
}

// TestMoveNeedsBacklog tests what happens while it is not known that a backlog is durable. No journal then takes the
// place of one that still has the items.
func TestMoveNeedsBacklog(t *testing.T) {
	fsys := newFS()
	e := openQuiet(t, moveOptions(fsys))
	putMany(t, e, "deep", 0, 60)
	want := stateOf(e)
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	spoolAll(e)
	e.spool.tend() // to sync what was written
	spoolAll(e)
	fsys.SetFault(nil)
	failSync(t, e, fsys, "other", "x")
	fsys.SetFault(failRunSyncs)
	if err := e.moveJournal(); !errors.Is(err, syscall.EIO) {
		t.Errorf("moveJournal = %v, want that the backlog could not be synced", err)
	}
	if err := tryPut(e, "deep", "x"); !errors.Is(err, ErrJournal) {
		t.Errorf("Put = %v, want ErrJournal", err)
	}
	for crash, got := range afterCrashes(t, fsys) {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s leaves\n%s\nwant\n%s", crash, got, want)
		}
	}
	fsys.SetFault(nil) // the backlog can be written elsewhere now
	if err := e.moveJournal(); err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "deep", "one more")
	for crash, got := range afterCrashes(t, fsys) {
		if !strings.Contains(got, "one more") {
			t.Errorf("after the move %s leaves\n%s", crash, got)
		}
	}
}

// TestMoveWithRecordedBacklog tests that a move does not sync a run if the journal says all that is in it. So if the
// disk fails then, nothing of that run becomes doubtful.
func TestMoveWithRecordedBacklog(t *testing.T) {
	fsys := newFS()
	e := openQuiet(t, moveOptions(fsys))
	want := putMany(t, e, "deep", 0, 60)
	spoolAll(e)
	e.spool.tend() // to sync and record what was written
	spoolAll(e)
	failSync(t, e, fsys, "other", "x")
	fsys.SetFault(failRunSyncs)
	err := e.moveJournal()
	fsys.SetFault(nil)
	if err != nil {
		t.Errorf("moveJournal = %v, want that nothing was to be synced", err)
		if err := e.moveJournal(); err != nil {
			t.Fatal(err)
		}
	}
	again := openQuiet(t, moveOptions(fsys.Kill()))
	wantItems(t, again, "deep", strings.Join(want, " "))
}

// failRunSyncs fails every sync of a run.
func failRunSyncs(op segmenttest.Op) segmenttest.Fault {
	if strings.HasSuffix(op.Path, runs.Ext) && op.Kind == segmenttest.OpDatasync {
		return segmenttest.Fault{Err: syscall.EIO}
	}
	return segmenttest.Fault{}
}

// TestMoveJournalCompletes has every move fail at its last step, in three ways: what each has written does not pile up.
func TestMoveJournalCompletes(t *testing.T) {
	isLast := func(op segmenttest.Op, complete bool) bool {
		switch op.Kind {
		case segmenttest.OpCreate:
			return strings.HasSuffix(op.Path, "/complete")
		case segmenttest.OpSyncDir:
			return complete && strings.HasPrefix(op.Path, testDir+"/journal.")
		}
		return false
	}
	for _, tt := range []struct {
		kind segmenttest.OpKind
		err  error
		most int // journals
	}{
		{segmenttest.OpCreate, syscall.ENOSPC, 1}, {segmenttest.OpCreate, syscall.EIO, 2}, {segmenttest.OpSyncDir, syscall.EIO, 2},
	} {
		fsys := newFS()
		e := openQuiet(t, moveOptions(fsys))
		read := liveQueues(t, e)
		acknowledged := stateOf(e)
		failSync(t, e, fsys, "q", "fails")
		complete := false
		fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			last := isLast(op, complete)
			complete = complete || op.Kind == segmenttest.OpCreate && last
			if last && op.Kind == tt.kind {
				return segmenttest.Fault{Err: tt.err}
			}
			return segmenttest.Fault{}
		})
		for range 4 {
			if err := e.moveJournal(); !errors.Is(err, tt.err) {
				t.Errorf("a move whose last %v fails = %v", tt.kind, err)
			}
			if names := journals(t, fsys); len(names) > tt.most {
				t.Fatalf("%v fails with %v: the data directory holds %q", tt.kind, tt.err, names)
			}
		}
		want := stateOf(e)
		for crash, got := range afterCrashes(t, fsys) {
			if got != want && got != acknowledged {
				t.Errorf("%v failed, %s leaves %.500s", tt.kind, crash, got)
			}
		}
		fsys.SetFault(nil)
		if err := e.moveJournal(); err != nil {
			t.Fatal(err)
		}
		if names := journals(t, fsys); len(names) != 1 {
			t.Errorf("the data directory holds %q, want one journal", names)
		}
		mustCommitted(t, e)(e.Confirm(Now(), read))
	}
}
