package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// passingFault is calls of one kind that fail, from the first-th of a load on, until it passes.
type passingFault struct {
	kind  segmenttest.OpKind
	first int
	err   syscall.Errno
}

func (f passingFault) String() string { return fmt.Sprintf("%v %d %v", f.kind, f.first, f.err) }

// fault is how a call fails. For want of descriptors or memory nothing is tried.
func (f passingFault) fault() segmenttest.Fault {
	if f.err == syscall.EIO {
		return segmenttest.Fault{Err: f.err}
	}
	return segmenttest.Fault{Err: f.err, KeepDirty: true}
}

// TestFaultsPass has every kind of call fail for a while, beginning at some call of a load. The errors are those of a
// process without descriptors or memory, and those of a disk. When that has passed, without a restart, everything
// works again. Nothing that was acknowledged is lost, no read fails, and no file stays that nobody needs.
func TestFaultsPass(t *testing.T) {
	firsts := []int{0, 1, 2, 3, 5, 8, 13, 21, 34}
	if testing.Short() {
		firsts = sampled([]int{0, 5}, []int{0, 1, 5, 21})
	}
	step := sampled(2, 1) // a sample has two of the four errors of each kind and first, by turns
	errs := []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO}
	for kind := segmenttest.OpCreate; kind <= segmenttest.OpDatasync; kind++ {
		for i, err := range errs {
			for k, first := range firsts {
				if (i+k+int(kind))%step != 0 {
					continue
				}
				f := passingFault{kind, first, err}
				t.Run(f.String(), func(t *testing.T) { f.passes(t) })
			}
		}
	}
}

func (f passingFault) passes(t *testing.T) {
	fsys := segmenttest.New()
	l := newFaultyLoad(t, fsys)
	l.rounds(4)
	from := fsys.Calls(f.kind) + f.first
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind != f.kind || op.KindN <= from {
			return segmenttest.Fault{}
		}
		return f.fault()
	})
	l.faulty = true
	l.rounds(4)
	fsys.SetFault(nil)
	l.tend()
	l.tend()
	l.faulty = false
	l.rounds(6)
	image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	l.e.opts.FS = image
	again := openQuiet(t, l.e.opts)
	l.e.opts.FS = fsys
	for name, q := range l.queues {
		q.compare(t, queued(again, name))
	}
	l.drained()
}

// TestJournalIsRemovedLater: a journal that was replaced, and could not be removed then, is removed when
// it can be.
func TestJournalIsRemovedLater(t *testing.T) {
	for _, kind := range []segmenttest.OpKind{segmenttest.OpList, segmenttest.OpRemove} {
		e, fsys := newQuiet(t)
		mustPut(t, e, "q", "a")
		old := e.journals.Current()
		failSync(t, e, fsys, "q", "b")
		fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
			if op.Kind == kind && (op.Path == old || strings.HasPrefix(op.Path, old+"/")) {
				f.Err = syscall.EMFILE
			}
			return f
		})
		if err := e.moveJournal(); err != nil {
			t.Fatal(err)
		}
		left := func() bool {
			return slices.ContainsFunc(fsys.Paths(), func(p string) bool { return strings.HasPrefix(p, old+"/") })
		}
		if e.tidy(); !left() {
			t.Errorf("%v: the old journal is gone, although it cannot be removed", kind)
		}
		fsys.SetFault(nil)
		if e.tidy(); left() {
			t.Errorf("%v: the old journal is there, although it can be removed", kind)
		}
		wantItems(t, e, "q", "a b")
	}
}

// faultyLoad is an engine under a load that remembers what it has put and taken.
type faultyLoad struct {
	t      *testing.T
	fsys   *segmenttest.FS
	e      *Engine
	queues map[string]*faultyQueue
	faulty bool // requests may be refused
	n      int
}

// faultyQueue is what a queue may hold.
type faultyQueue struct {
	items    []string
	doubtful map[string]bool // those whose put, or whose removal, was not acknowledged
}

func newFaultyLoad(t *testing.T, fsys *segmenttest.FS) *faultyLoad {
	o := testOptions(fsys)
	o.JournalSize = 32 << 10
	deep := o.Settings.Default
	deep.MaxMemorySize, deep.Sync = 2000, SyncAlways
	o.Settings.Default.Sync = SyncAlways
	o.Settings.Queues = map[string]QueueOptions{"deep": deep, "deeper": deep}
	l := &faultyLoad{t: t, fsys: fsys, e: openQuiet(t, o), queues: make(map[string]*faultyQueue)}
	for _, name := range []string{"q", "deep", "deeper"} {
		l.queues[name] = &faultyQueue{doubtful: make(map[string]bool)}
	}
	return l
}

// rounds puts to every queue, takes from it, and does what runs in the background.
func (l *faultyLoad) rounds(n int) {
	for range n {
		for _, name := range []string{"q", "deep", "deeper"} {
			for range 12 {
				l.put(name)
			}
			l.tend()
			for range 9 {
				l.take(name)
			}
		}
		l.tend()
	}
}

// tend does what runs in the background.
func (l *faultyLoad) tend() {
	e := l.e
	e.nextMove = time.Time{}
	if e.journal.Failing() || e.journal.Full() {
		e.retryJournal()
	}
	e.boundJournal()
	e.spool.tend()
	spoolSome(e, 200)
	e.journal.SyncSealed()
	e.trimJournal()
	e.journal.TrimSpares(idleSegments)
	e.journal.Prepare()
	e.journal.Mark()
	e.writeLeftOver()
}

func (l *faultyLoad) put(name string) {
	l.n++
	data := fmt.Sprintf("%06d%s", l.n, strings.Repeat("x", 300))
	ticket, err := l.e.Put(Now(), []byte(name), PutRequest{Data: []byte(data)})
	stored := err == nil
	if err == nil {
		err = l.e.Commit(ticket)
	}
	if err != nil && !l.faulty {
		l.t.Fatalf("put %d to %s = %v, with no fault any more", l.n, name, err)
	}
	q := l.queues[name]
	if stored {
		q.items = append(q.items, data)
		q.doubtful[data] = err != nil
	}
}

func (l *faultyLoad) take(name string) {
	q := l.queues[name]
	var c copied
	f, err := l.e.Fetch(Now(), []byte(name), FetchRequest{}, &c)
	for tries := 0; err == ErrComing && tries < 20; tries++ {
		spoolSome(l.e, 200)
		f, err = l.e.Fetch(Now(), []byte(name), FetchRequest{}, &c)
	}
	if len(q.items) == 0 && err == ErrEmpty {
		return
	}
	if err != nil && (!l.faulty || err == ErrEmpty) {
		l.t.Fatalf("fetch from %s = %v, with %d items there", name, err, len(q.items))
	}
	if err != nil {
		return
	}
	if got := string(c.item.Data); got != q.items[0] {
		l.t.Fatalf("%s: got %.6s, want %.6s", name, got, q.items[0])
	}
	if err := l.e.Commit(f.Ticket); err != nil && !l.faulty {
		l.t.Fatalf("commit of a fetch from %s = %v, with no fault any more", name, err)
	}
	q.items = q.items[1:]
}

// compare checks that got is what the queue must hold, and what it may.
func (q *faultyQueue) compare(t *testing.T, got []string) {
	t.Helper()
	left := q.items
	for _, data := range got {
		at := slices.Index(left, data)
		if at < 0 {
			t.Errorf("item %.6s is there, and was taken", data)
			continue
		}
		for _, missing := range left[:at] {
			if !q.doubtful[missing] {
				t.Errorf("item %.6s is lost", missing)
			}
		}
		left = left[at+1:]
	}
	for _, missing := range left {
		if !q.doubtful[missing] {
			t.Errorf("item %.6s is lost, at the end", missing)
		}
	}
}

// drained takes everything and checks that only the files are left that an empty engine needs.
func (l *faultyLoad) drained() {
	for name, q := range l.queues {
		for len(q.items) > 0 {
			l.take(name)
		}
		if data, ok := tryGet(l.t, l.e, name); ok {
			l.t.Errorf("%s holds %.6s, which was taken", name, data)
		}
	}
	for range 4 {
		l.tend()
	}
	if left := runFiles(l.fsys); len(left) > 0 {
		l.t.Errorf("%q are left", left)
	}
	segments := l.e.journal.Segments()
	if len(segments) > 2 {
		l.t.Errorf("the journal has %d segments and no item", len(segments))
	}
	spares := 0
	for _, name := range l.fsys.Paths() {
		if strings.Contains(name, "/journal") && !strings.HasPrefix(name, l.e.journals.Current()+"/") {
			l.t.Errorf("%s is left of another journal", name)
		}
		if strings.HasSuffix(name, ".seg") {
			spares++
		}
	}
	if spares > len(segments)+1 {
		l.t.Errorf("%d files of segments are there, for %d segments and the next", spares, len(segments))
	}
	if err := l.e.Close(); err != nil && !errors.Is(err, ErrClosed) {
		l.t.Errorf("Close = %v", err)
	}
}
