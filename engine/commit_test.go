package engine

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// gate stops the next call that goes through it until it is opened.
type gate struct {
	reached chan struct{} // closed by the first call
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) hook(call func() error) error {
	g.once.Do(func() {
		close(g.reached)
		<-g.open
	})
	return call()
}

// commitTogether puts one item and commits it; while that waits at the gate it puts n more, each
// committed by a goroutine of its own. It opens the gate and returns what the commits returned.
func commitTogether(t *testing.T, e *Engine, g *gate, n int) (errs []error) {
	t.Helper()
	results := make(chan error)
	commit := func(i int) {
		ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		go func() { results <- e.Commit(ticket) }()
	}
	commit(0)
	<-g.reached
	for i := range n {
		commit(i + 1)
	}
	close(g.open)
	for range n + 1 {
		errs = append(errs, <-results)
	}
	return errs
}

// TestGroupCommit has 100 puts gather while a sync runs: they share the next one.
func TestGroupCommit(t *testing.T) {
	g := newGate()
	fsys := &hookFS{FS: segmenttest.New()}
	o := testOptions(fsys)
	o.SegmentSize = 1 << 20
	e := openQuiet(t, o)
	fsys.datasync = g.hook
	syncs := fsys.Calls(segmenttest.OpDatasync)
	for _, err := range commitTogether(t, e, g, 100) {
		if err != nil {
			t.Errorf("Commit = %v", err)
		}
	}
	if got := fsys.Calls(segmenttest.OpDatasync) - syncs; got != 2 {
		t.Errorf("101 puts took %d syncs, want 2", got)
	}
	image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	if got := len(queued(openQuiet(t, testOptions(image)), "q")); got != 101 {
		t.Errorf("a power cut leaves %d items, want 101", got)
	}
}

// TestGroupWrite is the same for a write, of puts that wait for no sync.
func TestGroupWrite(t *testing.T) {
	g := newGate()
	fsys := &hookFS{FS: segmenttest.New()}
	o := testOptions(fsys, func(o *QueueOptions) { o.Sync = SyncNever })
	o.SegmentSize = 1 << 20
	e := openQuiet(t, o)
	fsys.write = g.hook
	writes := fsys.Calls(segmenttest.OpWriteAt)
	for _, err := range commitTogether(t, e, g, 100) {
		if err != nil {
			t.Errorf("Commit = %v", err)
		}
	}
	if got := fsys.Calls(segmenttest.OpWriteAt) - writes; got != 2 {
		t.Errorf("101 puts took %d writes, want 2", got)
	}
}

// TestGroupCommitFails has the sync fail that many wait for: each of them is told, and so are those
// that waited for the next.
func TestGroupCommitFails(t *testing.T) {
	g := newGate()
	fsys := &hookFS{FS: segmenttest.New()}
	e := openQuiet(t, testOptions(fsys))
	fsys.datasync = func(func() error) error { return g.hook(func() error { return syscall.EIO }) }
	for _, err := range commitTogether(t, e, g, 20) {
		if !errors.Is(err, ErrJournal) {
			t.Errorf("Commit = %v, want ErrJournal", err)
		}
	}
	if err := e.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close = %v, want EIO", err)
	}
}

// TestPutsWhileSyncing shows that a put does not wait for the disk, and that a queue that waits for
// no sync is committed while one runs.
func TestPutsWhileSyncing(t *testing.T) {
	g := newGate()
	fsys := &hookFS{FS: segmenttest.New()}
	o := testOptions(fsys)
	o.SegmentSize = 1 << 20
	never := o.Settings.Default
	never.Sync = SyncNever
	o.Settings.Queues = map[string]QueueOptions{"never": never}
	e := openQuiet(t, o)
	fsys.datasync = g.hook
	done := make(chan error)
	ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- e.Commit(ticket) }()
	<-g.reached
	for range 10 {
		mustPut(t, e, "never", "y")
	}
	mustGet(t, e, "never")
	if e.Committed(ticket) {
		t.Error("committed before its sync returned")
	}
	close(g.open)
	if err := <-done; err != nil || !e.Committed(ticket) {
		t.Errorf("Commit = %v", err)
	}
}
