package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// tiny makes queues that hold hardly any item in memory.
func tiny(o *QueueOptions) { o.MaxMemorySize = 100 }

// putMany puts n items of 30 bytes, numbered from first on.
func putMany(t testing.TB, e *Engine, name string, first, n int) (all []string) {
	t.Helper()
	for i := range n {
		data := fmt.Sprintf("%030d", first+i)
		mustPut(t, e, name, data)
		all = append(all, data)
	}
	return all
}

// TestBacklogMetrics: every write, sync and read of a backlog is measured once, and those that fail
// are not.
func TestBacklogMetrics(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	putMany(t, e, "q", 0, 100)
	total := func() (n [3]int64) {
		m := e.BacklogMetrics()
		return [3]int64{m.Spills.Total(), m.Syncs.Total(), m.Fills.Total()}
	}
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, syscall.ENOSPC))
	spoolSome(e, 10)
	if got := total(); got != [3]int64{} {
		t.Errorf("measured %v before anything was written", got)
	}
	fsys.SetFault(nil)
	e.spool.tend()
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	drain(t, e, "q")
	if got := total(); got[0] < 1 || got[1] != 1 || got[2] < 2 {
		t.Errorf("measured %v writes, syncs and reads, want some, 1 and some", got)
	}
}

// runFiles are the names of the runs on a disk.
func runFiles(fsys interface{ Paths() []string }) []string {
	return slices.DeleteFunc(fsys.Paths(), func(name string) bool {
		return !strings.HasSuffix(name, runs.Ext)
	})
}

// TestBacklogOrder fills a queue far over its memory, restarts in the middle of the drain, and
// counts on the way.
func TestBacklogOrder(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, 200)
	spoolAll(e)
	if s, _ := e.QueueStats(Now(), []byte("q")); !s.ReadBehind || s.Items != 200 || s.Bytes != 6000 ||
		s.MemBytes > 130 || s.BacklogBytes < 5000 {
		t.Errorf("stats are %+v", s)
	}
	for range 2 {
		for range 50 {
			if got := mustGet(t, e, "q"); got != want[0] {
				t.Fatalf("got %s, want %s", got, want[0])
			}
			want = want[1:]
		}
		fsys := e.opts.FS.(*segmenttest.FS).Kill()
		e = openQuiet(t, testOptions(fsys, tiny))
		if s, _ := e.QueueStats(Now(), []byte("q")); s.Items != int64(len(want)) ||
			s.Bytes != int64(30*len(want)) || e.Recovery().Items != s.Items {
			t.Errorf("after a kill: %d items of %d bytes, want %d", s.Items, s.Bytes, len(want))
		}
	}
	want = append(want, putMany(t, e, "q", 200, 30)...)
	if got := drain(t, e, "q"); !slices.Equal(got, want) {
		t.Errorf("drained %d items, want %d in order", len(got), len(want))
	}
	spoolAll(e)
	if s, _ := e.QueueStats(Now(), []byte("q")); s.ReadBehind || s.BacklogBytes != 0 {
		t.Errorf("stats of the drained queue are %+v", s)
	}
	if left := runFiles(e.opts.FS.(*segmenttest.FS)); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestBacklogOpenRead holds one item open while all the others of its run are consumed. The run goes, and a restart
// brings the item back at the head.
func TestBacklogOpenRead(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, 60)
	spoolAll(e)
	for range 10 {
		mustGet(t, e, "q")
	}
	spoolAll(e)
	ref, data := mustOpen(t, e, "q")
	for range 49 {
		mustGet(t, e, "q")
	}
	spoolAll(e)
	if left := runFiles(fsys); len(left) > 0 {
		t.Errorf("an open read keeps %q", left)
	}
	putMany(t, e, "q", 60, 20)
	spoolAll(e)
	again := openQuiet(t, testOptions(fsys.Kill(), tiny))
	if got := mustGet(t, again, "q"); got != data || got != want[10] {
		t.Errorf("after a kill the head is %s, want the item that was open, %s", got, want[10])
	}
	if got := mustGet(t, again, "q"); got != fmt.Sprintf("%030d", 60) {
		t.Errorf("behind it is %s", got)
	}
	mustCommitted(t, e)(e.Confirm(Now(), ref))
	again = openQuiet(t, testOptions(fsys.Kill(), tiny))
	if got := mustGet(t, again, "q"); got != fmt.Sprintf("%030d", 60) {
		t.Errorf("after the confirm and a kill the head is %s", got)
	}
}

// TestBacklogWaits: while items are on their way from disk, an immediate fetch waits for them, and
// ends when there are none after all.
func TestBacklogWaits(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	fetch := func() *collector {
		c := &collector{}
		c.Notify = c
		f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: &c.Waiter, Immediate: true}, &copied{})
		if !f.Waiting || err != ErrComing {
			t.Fatalf("Fetch = %+v, %v, want that it waits", f, err)
		}
		return c
	}
	putMany(t, e, "q", 0, 20)
	spoolAll(e)
	for e.items("q") > 15 { // what is in memory
		mustGetNow(t, e)
	}
	c := fetch()
	spoolAll(e)
	var got copied
	mustCommitted(t, e)(e.Collect(Now(), c.Read, FetchRequest{Access: Take}, &got))
	if c.Err != nil || len(got.item.Data) != 30 {
		t.Errorf("the wait ended with %v, %q", c.Err, got.item.Data)
	}
	for e.memItems("q") > 0 {
		mustGetNow(t, e)
	}
	c = fetch()
	if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	if !c.Read.IsZero() || c.Err != ErrEmpty {
		t.Errorf("after a flush the wait ended with %v, %v, want ErrEmpty", c.Read, c.Err)
	}
}

func (e *Engine) items(name string) int64 {
	s, _ := e.QueueStats(0, []byte(name))
	return s.Items
}

func (e *Engine) memItems(name string) int64 {
	s, _ := e.QueueStats(0, []byte(name))
	return s.MemItems
}

// mustGetNow takes the next item of "q", which is at hand or the test is over with what is.
func mustGetNow(t *testing.T, e *Engine) {
	t.Helper()
	f, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{})
	for err == ErrComing {
		spoolAll(e)
		f, err = e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{})
	}
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, f.Ticket)
}

// TestBacklogReadError has the disk refuse to be read: fetches get an error, no fetch finds the queue
// empty, and service returns with the disk.
func TestBacklogReadError(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	var out bytes.Buffer
	e.log = slog.New(slog.NewTextHandler(&out, nil))
	want := putMany(t, e, "q", 0, 50)
	spoolSome(e, 100)
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpReadAt, 0, syscall.EIO))
	var got []string
	var err error
	for err == nil {
		var c copied
		if _, err = e.Fetch(Now(), []byte("q"), FetchRequest{}, &c); err == nil {
			got = append(got, string(c.item.Data))
		} else if err == ErrComing {
			err = nil
			spoolAll(e)
		}
	}
	if !errors.Is(err, ErrBacklog) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Fetch = %v, want ErrBacklog and EIO", err)
	}
	if !strings.Contains(out.String(), "backlog could not be read") {
		t.Errorf("nothing is logged: %s", out.String())
	}
	c := &collector{}
	c.Notify = c
	if f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: &c.Waiter}, nil); f.Waiting || err == ErrEmpty {
		t.Errorf("Fetch = %+v, %v, want an error", f, err)
	}
	fsys.SetFault(nil)
	e.spool.tend()
	if got = append(got, drain(t, e, "q")...); !slices.Equal(got, want) {
		t.Errorf("got %d items, want all %d in order", len(got), len(want))
	}
}

// TestBacklogDiskFull: spilling goes on where it was when the disk has room again, and nothing is
// lost meanwhile.
func TestBacklogDiskFull(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, 30)
	n := fsys.Calls(segmenttest.OpWriteAt)
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if strings.HasSuffix(op.Path, runs.Ext) && op.Kind == segmenttest.OpWriteAt && op.KindN > n {
			return segmenttest.Fault{Err: syscall.ENOSPC, Bytes: op.Size / 2}
		}
		return segmenttest.Fault{}
	})
	spoolSome(e, 10)
	if !e.journal.Full() {
		t.Error("a full disk is not noticed")
	}
	verify(t, e)
	wantItems(t, e, "q", strings.Join(want, " "))
	fsys.SetFault(nil)
	e.journal.Prepare()
	e.spool.tend()
	want = append(want, putMany(t, e, "q", 30, 30)...)
	spoolAll(e)
	if got := drain(t, e, "q"); !slices.Equal(got, want) {
		t.Errorf("got %d items, want %d in order", len(got), len(want))
	}
}

// TestBacklogSyncFails: what a run that cannot be synced holds is served from it, and stays in the
// journal, from where the next start takes it.
func TestBacklogSyncFails(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, 40)
	fsys.SetFault(failRunSyncs)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	want = append(want, putMany(t, e, "q", 40, 40)...)
	spoolAll(e)
	if err := e.trimJournal(); err != nil {
		t.Fatal(err)
	}
	cut := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	again := openQuiet(t, testOptions(cut, tiny))
	wantItems(t, again, "q", strings.Join(want, " "))
	if got := drain(t, e, "q"); !slices.Equal(got, want) {
		t.Errorf("got %d items, want %d in order", len(got), len(want))
	}
}

// TestBacklogSyncFailsOnce: what was in doubt of a run is written to another one, the rest of it
// stays, and the journal needs neither. Some of it has been handed out before, or after.
func TestBacklogSyncFailsOnce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		recorded bool // a part of the run was synced before
		taken    int  // items that are taken before the sync fails
	}{{"new run", false, 0}, {"new run, begun", false, 7}, {"grown run", true, 0}, {"grown run, begun", true, 25}} {
		t.Run(tt.name, func(t *testing.T) {
			e, fsys := newQuiet(t, tiny)
			want := putMany(t, e, "q", 0, 20)
			if spoolAll(e); tt.recorded {
				e.spool.tend()
				spoolAll(e)
			}
			want = append(want, putMany(t, e, "q", 20, 30)...)
			spoolAll(e)
			for range tt.taken {
				if got := mustGet(t, e, "q"); got != want[0] {
					t.Fatalf("got %s, want %s", got, want[0])
				}
				want = want[1:]
			}
			e.spool.tend()
			failed := false
			fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
				if !failed {
					f = failRunSyncs(op)
					failed = f.Err != nil
				}
				return f
			})
			spoolAll(e)
			if !failed {
				t.Fatal("no run was synced")
			}
			verify(t, e)
			q := e.shardOf([]byte("q")).queues["q"]
			if first, ok := q.journaled(); ok && first < 40 {
				t.Errorf("item %d and what follows has its place in the journal still", first)
			}
			want = append(want, putMany(t, e, "q", 50, 10)...)
			spoolAll(e)
			if err := e.trimJournal(); err != nil {
				t.Fatal(err)
			}
			cut := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
			again := openQuiet(t, testOptions(cut, tiny))
			wantItems(t, again, "q", strings.Join(want, " "))
			for _, e := range []*Engine{e, again} {
				if got := drain(t, e, "q"); !slices.Equal(got, want) {
					t.Errorf("got %d items, want %d in order", len(got), len(want))
				}
				spoolAll(e)
			}
			if left := runFiles(fsys); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// TestBacklogUnloadWhileFilling: memory runs short, and the window is dropped, while a frame is
// being read. Nothing is left out.
func TestBacklogUnloadWhileFilling(t *testing.T) {
	for _, at := range []int{0, 1} { // of the reads of a fill: a frame's header, its body
		e, fsys := newQuiet(t, func(o *QueueOptions) { o.MaxMemorySize = 4000 })
		want := putMany(t, e, "q", 0, 400)
		spoolAll(e)
		q := e.shardOf([]byte("q")).queues["q"]
		for range 40 {
			mustGet(t, e, "q")
		}
		want = want[40:]
		n, done := 0, false
		fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			if op.Kind == segmenttest.OpReadAt && !done {
				if n++; n > at {
					done = true
					e.spillAll(q, true)
				}
			}
			return segmenttest.Fault{}
		})
		spoolAll(e)
		fsys.SetFault(nil)
		if !done {
			s, _ := e.QueueStats(Now(), []byte("q"))
			t.Fatalf("nothing was read: %+v", s)
		}
		verify(t, e)
		if got := drain(t, e, "q"); !slices.Equal(got, want) {
			t.Errorf("unloaded at read %d: got %d items, want %d in order", at, len(got), len(want))
		}
	}
}

// TestBacklogControls breaks an engine in ways that the crash check must find.
func TestBacklogControls(t *testing.T) {
	for _, tt := range []struct {
		name  string
		skips func(segmenttest.OpKind) bool
	}{
		{"runs are not synced", func(k segmenttest.OpKind) bool { return k == segmenttest.OpDatasync }},
		{"names of runs are not synced", func(k segmenttest.OpKind) bool { return k == segmenttest.OpSyncDir }},
		{"nothing is broken", func(segmenttest.OpKind) bool { return false }},
	} {
		broken, complaints := tt.name != "nothing is broken", 0
		for n := 20; n < 260 && !(broken && complaints > 0); n += sampled(24, 12) {
			c := newCrashRun(t, 1)
			c.spilling, c.noRestart = true, true
			c.disk = func() segment.FS { return &lazyRuns{c.fsys, tt.skips} }
			c.fsys.StopAt(n)
			c.run(crashSteps)
			complaints += complaintsOf(c)
		}
		if broken != (complaints > 0) {
			t.Errorf("%s: %d complaints", tt.name, complaints)
		}
	}
}

// complaintsOf counts what is wrong with what a crash leaves. What cannot be read at all counts too.
func complaintsOf(c *crashRun) (n int) {
	defer func() {
		if damage := recover(); damage != nil {
			n = 1
		}
	}()
	return len(c.checkImages(2))
}

// lazyRuns is a file system that leaves out some syncs of runs.
type lazyRuns struct {
	*segmenttest.FS
	skips func(segmenttest.OpKind) bool
}

// Uncached implements segment.UncachedFS.
func (f *lazyRuns) Uncached() segment.FS { return f }

func (f *lazyRuns) Create(name string) (segment.File, error) {
	file, err := f.FS.Create(name)
	if err == nil && strings.HasSuffix(name, runs.Ext) {
		file = &lazyRun{file, f}
	}
	return file, err
}

func (f *lazyRuns) SyncDir(dir string) error {
	if strings.HasSuffix(dir, "backlog") && f.skips(segmenttest.OpSyncDir) {
		return nil
	}
	return f.FS.SyncDir(dir)
}

type lazyRun struct {
	segment.File
	fs *lazyRuns
}

func (f *lazyRun) Datasync() error {
	if f.fs.skips(segmenttest.OpDatasync) {
		return nil
	}
	return f.File.Datasync()
}

// TestAgeAfterRestart: the age of a queue none of whose items is in its window is that of the first of them, before
// anybody fetches. That holds after a stop, when they are in runs, also as a run loses items, and after a kill before
// that.
func TestAgeAfterRestart(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		e, fsys := newQuiet(t, tiny)
		began := Now() - 100_000
		for i := range 60 {
			ticket, err := e.Put(began+Time(i*1000), []byte("q"), PutRequest{Data: fmt.Appendf(nil, "%030d", i)})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
		}
		spoolAll(e)
		for gone := range int64(3) {
			if stopped {
				e.spool.tend() // records what was written
				spoolAll(e)
				if err := e.Close(); err != nil {
					t.Fatalf("Close = %v", err)
				}
				e = openQuiet(t, testOptions(fsys, tiny))
			} else {
				e = restartAs(t, e, false, tiny)
			}
			now := Now()
			s, _ := e.QueueStats(now, []byte("q"))
			if want := int64(now-began) - gone*1000; s.Age != want || s.MemItems != 0 || s.BacklogBytes > 0 != stopped {
				t.Errorf("stopped %t, %d items gone: the age is %d ms, want %d; stats %+v", stopped, gone, s.Age, want, s)
			}
			mustGet(t, e, "q")
		}
		e.Flush(Now(), []byte("q"), "")
		spoolAll(e)
		if s, _ := e.QueueStats(Now(), []byte("q")); s.Age != 0 {
			t.Errorf("stopped %t: the age of an empty queue is %d ms", stopped, s.Age)
		}
	}
}

// TestOldestRead: the stats tell how long the oldest open read has been open.
func TestOldestRead(t *testing.T) {
	e, _ := newQuiet(t)
	putMany(t, e, "q", 0, 2)
	now := Now()
	oldest := func(want int64) {
		t.Helper()
		if s, _ := e.QueueStats(now+5000, []byte("q")); s.OldestRead != want {
			t.Errorf("the oldest read is %d ms old, want %d", s.OldestRead, want)
		}
	}
	oldest(0)
	open := func(at Time) ReadRef {
		t.Helper()
		var got copied
		f, err := e.Fetch(at, []byte("q"), FetchRequest{Access: OpenRead}, &got)
		if err != nil {
			t.Fatal(err)
		}
		return f.Read
	}
	first := open(now)
	oldest(5000)
	second := open(now + 2000)
	oldest(5000)
	e.AbortAll(now, []ReadRef{first})
	oldest(3000)
	e.AbortAll(now, []ReadRef{second})
	oldest(0)
}
