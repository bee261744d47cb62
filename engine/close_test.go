package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestClosed calls everything there is on a closed engine.
func TestClosed(t *testing.T) {
	e, fsys := newQuiet(t)
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "q", "a")
	mustPut(t, e, "q", "b")
	r, err := q.TryOpen()
	if err != nil {
		t.Fatal(err)
	}
	before, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("c")})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		call func() error
	}{
		{"Close", func() error { return e.Close() }},
		{"Put", func() error { return q.Put(nil, PutOptions{}) }},
		{"Get", func() error { _, err := q.Get(ctx); return err }},
		{"TryGet", func() error { _, err := q.TryGet(); return err }},
		{"Peek", func() error { _, err := q.Peek(); return err }},
		{"Open", func() error { _, err := q.Open(ctx); return err }},
		{"TryOpen", func() error { _, err := q.TryOpen(); return err }},
		{"Confirm", func() error { return r.Confirm() }},
		{"Flush", func() error { return q.Flush() }},
		{"FlushExpired", func() error { _, err := q.FlushExpired(); return err }},
		{"Delete", func() error { return q.Delete() }},
		{"Reload", func() error { return e.Reload(Settings{Default: DefaultQueueOptions()}) }},
		{"Commit of nothing", func() error { return e.Commit(Ticket{}) }},
		{"Commit of an earlier put", func() error { return e.Commit(before) }},
	} {
		if err := tt.call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", tt.name, err)
		}
	}
	if files := fsys.OpenFiles(); len(files) > 0 {
		t.Errorf("files are left open: %q", files)
	}
	// What was put before Close is there, committed or not; what was done after it is not.
	wantItems(t, openQuiet(t, testOptions(fsys)), "q", "a b c")
}

func TestCloseReturnsSyncError(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncNever })
	mustPut(t, e, "q", "a")
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	if err := e.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close = %v, want the error of its sync", err)
	}
}

func TestOpenFails(t *testing.T) {
	for kind := segmenttest.OpCreate; kind <= segmenttest.OpDatasync; kind++ {
		for n := 1; ; n++ {
			fsys := segmenttest.New()
			e := openQuiet(t, testOptions(fsys))
			mustPut(t, e, "q", "a")
			fsys = fsys.Kill()
			fsys.SetFault(segmenttest.FailNth(kind, n, syscall.EIO))
			again, err := Open(testOptions(fsys))
			if err == nil {
				wantItems(t, again, "q", "a")
				if err := again.Close(); err != nil && !errors.Is(err, syscall.EIO) {
					t.Errorf("Close = %v", err)
				}
				break // fewer than n calls, or the failure did not matter
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("Open with failure %d of %s = %v", n, kind, err)
			}
			if files := fsys.OpenFiles(); len(files) > 0 {
				t.Errorf("Open with failure %d of %s leaves files open: %q", n, kind, files)
			}
			fsys.SetFault(nil)
			wantItems(t, openQuiet(t, testOptions(fsys)), "q", "a")
		}
	}
}

// TestCloseBesideReload closes the engine while a reload waits for the disk, with a queue that enters
// the journal and has chunks to write. One batch has been written, and others come behind the one that waits. The
// reload ends first, and a later one finds the engine closed.
//
// Its control is a Close that does not wait for the reload: it takes the writer away.
func TestCloseBesideReload(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	e := openQuiet(t, testOptions(fsys, tiny, func(o *QueueOptions) { o.KeepJournal = false }))
	for range 80 { // many writes
		mustPut(t, e, "q", strings.Repeat("x", 100_000))
	}
	settings := Settings{Default: DefaultQueueOptions()}
	tiny(&settings.Default)
	waits, goOn := make(chan struct{}), make(chan struct{})
	var calls, waiting, beside atomic.Int32
	hook := func(call func() error) error {
		if waiting.Load() != 0 {
			beside.Add(1)
		}
		if calls.Add(1) == 2 {
			waiting.Store(1)
			close(waits)
			<-goOn
			waiting.Store(0)
		}
		return call()
	}
	fsys.write, fsys.datasync = hook, hook
	reloaded, closed := make(chan error, 1), make(chan error, 1)
	go func() { reloaded <- e.Reload(settings) }()
	<-waits
	go func() { closed <- e.Close() }()
	for !e.closed.Load() {
		runtime.Gosched()
	}
	for n := 0; n < 100_000 && beside.Load() == 0; n++ { // Close comes as far as it can
		runtime.Gosched()
	}
	close(goOn)
	if err := <-reloaded; err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("Reload = %v, want nil or ErrClosed", err)
	}
	if n := beside.Load(); n > 0 {
		t.Errorf("Close has used the disk %d times while a reload was waiting for it", n)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := e.Reload(settings); !errors.Is(err, ErrClosed) {
		t.Errorf("Reload behind Close = %v, want ErrClosed", err)
	}
}
