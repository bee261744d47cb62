package journal

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// gatedLog is a Committer that counts, and stops the first call of one kind until its gate is opened.
type gatedLog struct {
	*segment.Log
	atSync  bool          // the gate is before Sync, not before Append
	err     error         // of the calls behind the gate, unless nil
	reached chan struct{} // closed by the first call
	open    chan struct{}
	once    sync.Once

	appends, syncs atomic.Int64
}

// newGated returns a journal on fsys whose log has a gate.
func newGated(t *testing.T, fsys segment.FS, atSync bool) (*Journal, *gatedLog) {
	g := &gatedLog{atSync: atSync, reached: make(chan struct{}), open: make(chan struct{})}
	return newTest(t, fsys, func(o *Options) {
		o.Committer = func(log *segment.Log) Committer {
			g.Log = log
			return g
		}
	}), g
}

func (g *gatedLog) pass() error {
	g.once.Do(func() {
		close(g.reached)
		<-g.open
	})
	return g.err
}

func (g *gatedLog) AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error) {
	g.appends.Add(1)
	if !g.atSync {
		if err := g.pass(); err != nil {
			return segment.Appended{}, buf, err
		}
	}
	return g.Log.AppendAs(v, buf)
}

func (g *gatedLog) Sync() (segment.Position, error) {
	g.syncs.Add(1)
	if g.atSync {
		if err := g.pass(); err != nil {
			return 0, err
		}
	}
	return g.Log.Sync()
}

// commitTogether puts one item and commits it; while that waits at the gate it puts n more, each
// committed by a goroutine of its own. It opens the gate and returns what the commits returned.
func commitTogether(j *Journal, g *gatedLog, n int) (errs []error) {
	results := make(chan error)
	commit := func(i int) {
		lsn := put(j, uint64(i+1), fmt.Sprint(i))
		ticket := Ticket{Written: lsn}
		if g.atSync {
			ticket.Synced = lsn
		}
		go func() { results <- j.Commit(ticket) }()
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
	fsys := segmenttest.New()
	j, g := newGated(t, fsys, true)
	for _, err := range commitTogether(j, g, 100) {
		if err != nil {
			t.Errorf("Commit = %v", err)
		}
	}
	if got := g.syncs.Load(); got != 2 {
		t.Errorf("101 puts took %d syncs, want 2", got)
	}
	image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	if got := len(words(t, onDisk(t, image, testDir))); got != 101 {
		t.Errorf("a power cut leaves %d records, want 101", got)
	}
}

// watchedLog is a Committer that calls a function with how many bytes are about to be appended.
type watchedLog struct {
	*segment.Log
	appending func(n int)
}

func (l *watchedLog) AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error) {
	l.appending(len(buf))
	return l.Log.AppendAs(v, buf)
}

// TestWriteLeavesLarge tests that who waits for a small record does not write the large item that was recorded behind it,
// nor wait for it. The item is written when somebody needs it, or what is behind it.
func TestWriteLeavesLarge(t *testing.T) {
	fsys := segmenttest.New()
	var j *Journal
	var small LSN
	largest, besideLarge := 0, false
	appending := func(n int) {
		if n := j.Unwritten(Ticket{Written: small}); besideLarge && n > 0 && n < MaxBatch {
			t.Errorf("behind a small record that is being written comes a large item, and who waits for it hears of %d bytes", n)
		}
		if largest = max(largest, n); n > MaxBatch && !j.Committed(Ticket{Written: small}) {
			t.Error("a small record is not good while the large item behind it is written")
		}
	}
	j = newTest(t, fsys, func(o *Options) {
		o.Committer = func(l *segment.Log) Committer { return &watchedLog{l, appending} }
	})
	it := item.Item{ID: 5, Data: make([]byte, 2*MaxBatch)}
	small = put(j, 1, "small")
	j.Keep(new(Removal), 1, it)
	behind := put(j, 1, "behind")
	if err := j.Commit(Ticket{Written: small}); err != nil || largest > MaxBatch {
		t.Errorf("Commit of a small record = %v, and writes %d bytes", err, largest)
	}
	if j.Committed(Ticket{Written: behind}) {
		t.Error("what is behind a large item is good before that is written")
	}
	again := put(j, 1, "again")
	for _, lsn := range []LSN{behind, again} {
		if err := j.Commit(Ticket{Written: lsn}); err != nil || !j.Committed(Ticket{Written: lsn}) {
			t.Errorf("Commit = %v", err)
		}
	}
	small = put(j, 1, "small")
	j.Keep(new(Removal), 1, it)
	besideLarge = true
	if err := j.Commit(Ticket{Written: j.End()}); err != nil {
		t.Errorf("Commit = %v", err)
	}
	if got := len(words(t, onDisk(t, fsys.Kill(), testDir))); got != 6 {
		t.Errorf("%d records are written, want 6", got)
	}
}

// TestRoomBesideLarge tests that puts do not get the room that a large item needs which is recorded and not yet written.
func TestRoomBesideLarge(t *testing.T) {
	j := newTest(t, segmenttest.New())
	small := put(j, 1, "small")
	j.Keep(new(Removal), 1, item.Item{ID: 5, Data: make([]byte, 2*MaxBatch)})
	put(j, 2, "behind")
	if err := j.Commit(Ticket{Written: small}); err != nil {
		t.Fatal(err)
	}
	if most := j.log.Room() - 2*MaxBatch; j.room > most {
		t.Errorf("there is room for %d bytes more, want %d at most", j.room, most)
	}
	j.Prepare()
	if most := j.log.Room() - 2*MaxBatch; j.room > most {
		t.Errorf("when the next segment is made, there is room for %d bytes more, want %d at most", j.room, most)
	}
}

// TestGroupWrite is the same for a write, of puts that wait for no sync.
func TestGroupWrite(t *testing.T) {
	fsys := segmenttest.New()
	j, g := newGated(t, fsys, false)
	for _, err := range commitTogether(j, g, 100) {
		if err != nil {
			t.Errorf("Commit = %v", err)
		}
	}
	if got := g.appends.Load(); got != 2 {
		t.Errorf("101 puts took %d writes, want 2", got)
	}
	if got := len(words(t, onDisk(t, fsys.Kill(), testDir))); got != 101 {
		t.Errorf("a kill leaves %d records, want 101", got)
	}
}

// TestGroupCommitFails has the sync fail that many wait for: each of them gets the error, and so do
// those that waited for the next. Then nothing is synced again: the log is poisoned.
func TestGroupCommitFails(t *testing.T) {
	j, g := newGated(t, segmenttest.New(), true)
	g.err = fmt.Errorf("%w: %w", segment.ErrPoisoned, syscall.EIO)
	for _, err := range commitTogether(j, g, 20) {
		if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
			t.Errorf("Commit = %v, want ErrFailed and EIO", err)
		}
	}
	if !j.Failing() || !j.Poisoned() || !errors.Is(j.Failure(), syscall.EIO) {
		t.Errorf("Failure = %v, want one that is final", j.Failure())
	}
	if err := j.Admit(1); err != ErrFailed {
		t.Errorf("Admit = %v, want ErrFailed", err)
	}
	if got := j.SyncErrors()["EIO"]; got == 0 {
		t.Errorf("SyncErrors = %v, want EIO", j.SyncErrors())
	}
}

// TestWriteWhileSyncing: appending does not wait for the disk, and what waits for no sync is written
// while one runs.
func TestWriteWhileSyncing(t *testing.T) {
	j, g := newGated(t, segmenttest.New(), true)
	done := make(chan error)
	lsn := put(j, 1, "x")
	ticket := Ticket{Written: lsn, Synced: lsn}
	go func() { done <- j.Commit(ticket) }()
	<-g.reached
	for id := range uint64(10) {
		written := Ticket{Written: put(j, 2+id, "y")}
		if j.Unwritten(written) == 0 {
			t.Error("a record is written before anybody asks for that")
		}
		if err := j.Commit(written); err != nil || !j.Committed(written) || j.Unwritten(written) != 0 {
			t.Errorf("Commit of a write = %v, or it is not committed behind it", err)
		}
	}
	if j.Committed(ticket) {
		t.Error("committed before its sync returned")
	}
	close(g.open)
	if err := <-done; err != nil || !j.Committed(ticket) {
		t.Errorf("Commit = %v", err)
	}
}

// followedLog is a Committer whose batches are committed when a follower has them, whatever the local
// disk says: what a replicated journal would be.
type followedLog struct {
	*segment.Log
	mu       sync.Mutex
	batches  [][]byte // appended here, and on their way; guarded by mu
	follower [][]byte // guarded by mu
	arrived  chan struct{}
}

func (l *followedLog) AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error) {
	l.mu.Lock()
	l.batches = append(l.batches, slices.Clone(buf[segment.FrameHeaderSize:]))
	l.mu.Unlock()
	return l.Log.AppendAs(v, buf)
}

func (l *followedLog) Sync() (segment.Position, error) {
	<-l.arrived
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follower, l.batches = append(l.follower, l.batches...), nil
	return l.Log.Sync()
}

// TestCommitter has something else than the local disk say when a batch is committed. A ticket is not good before that,
// and what the other side has then are the batches of this one, in order.
func TestCommitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &followedLog{arrived: make(chan struct{})}
		fsys := segmenttest.New()
		j := newTest(t, fsys, func(o *Options) {
			o.Committer = func(log *segment.Log) Committer {
				l.Log = log
				return l
			}
		})
		lsn := put(j, 1, "a")
		if err := j.Write(lsn); err != nil {
			t.Fatal(err)
		}
		lsn = put(j, 2, "b")
		ticket := Ticket{Written: lsn, Synced: lsn}
		done := make(chan error, 1)
		go func() { done <- j.Commit(ticket) }()
		synctest.Wait()
		if j.Committed(ticket) || len(done) > 0 {
			t.Error("committed before the follower has the batches")
		}
		if !j.Committed(Ticket{Written: lsn}) {
			t.Error("not written here meanwhile")
		}
		l.arrived <- struct{}{}
		if err := <-done; err != nil || !j.Committed(ticket) {
			t.Errorf("Commit = %v", err)
		}
		if got, want := slices.Concat(l.follower...), onDisk(t, fsys, testDir); !slices.Equal(got, want) || len(l.follower) != 2 {
			t.Errorf("the follower has %d batches with %x, want 2 with %x", len(l.follower), got, want)
		}
	})
}

// TestWriteIsTriedAgain: a write that fails is tried again at the same place; puts are refused meanwhile.
func TestWriteIsTriedAgain(t *testing.T) {
	for _, tt := range []struct{ fault, want error }{{syscall.EIO, ErrFailed}, {syscall.ENOSPC, ErrFull}} {
		fsys := segmenttest.New()
		j := newTest(t, fsys)
		j.Prepare()
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, tt.fault))
		put(j, 1, "a")
		lsn := put(j, 2, "b")
		for range 2 {
			if err := j.Commit(Ticket{Written: lsn}); !errors.Is(err, ErrFailed) || !errors.Is(err, tt.want) {
				t.Errorf("Commit = %v, want ErrFailed and %v", err, tt.want)
			}
		}
		if err := j.Admit(1); err != ErrFailed || j.Full() != (tt.want == ErrFull) || j.Poisoned() {
			t.Errorf("after %v Admit = %v, Full = %v, Poisoned = %v", tt.fault, err, j.Full(), j.Poisoned())
		}
		fsys.SetFault(nil)
		j.Retry()
		j.Retry() // after a full disk the next segment is prepared
		if j.Failing() || j.Full() || j.Admit(1) != nil || !j.Committed(Ticket{Written: lsn}) {
			t.Errorf("after %v the journal does not work again", tt.fault)
		}
		if got, want := words(t, onDisk(t, fsys, testDir)), []string{"1:1/1", "2:0/0"}; !slices.Equal(got, want) {
			t.Errorf("the journal holds %q, want %q", got, want)
		}
	}
}

// TestMemoryWhileFailing has many callers record something while the log takes nothing. What waits to be written takes
// the memory of its bytes, and not a buffer for each caller. It is written once the log goes on.
func TestMemoryWhileFailing(t *testing.T) {
	const calls = 1000
	var taken int64
	fsys := segmenttest.New()
	j := newTest(t, fsys, func(o *Options) { o.Account = func(n int64) { taken += n } })
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, syscall.EIO))
	for id := range uint64(calls) {
		if err := j.Write(put(j, id, "x")); !errors.Is(err, ErrFailed) {
			t.Fatalf("Write = %v, want ErrFailed", err)
		}
	}
	if taken > 2*MaxBatch {
		t.Errorf("%d callers have the journal take %d bytes, want %d at most", calls, taken, 2*MaxBatch)
	}
	fsys.SetFault(nil)
	if err := j.Write(j.End()); err != nil {
		t.Fatal(err)
	}
	if n := len(onDisk(t, fsys, testDir)); taken != 0 || n < 2*calls {
		t.Errorf("%d bytes are taken when all is written, and %d on disk", taken, n)
	}
}

// TestAdmitWithoutDisk: a full disk leaves room for removes.
func TestAdmitWithoutDisk(t *testing.T) {
	j := newTest(t, segmenttest.New())
	j.NoteFull()
	if err := j.Admit(1); err != ErrFull {
		t.Errorf("Admit = %v in the last segment, want ErrFull", err)
	}
	j.Prepare()
	if err := j.Admit(1); err != nil || j.Full() {
		t.Errorf("Admit = %v when a segment is prepared, want nil", err)
	}
}

// TestOutgrown: a journal may be three times its size before puts to queues in read-behind wait, and six
// times before others do.
func TestOutgrown(t *testing.T) {
	j := newTest(t, segmenttest.New())
	j.SetMost(2*4096, 4096)
	for id := uint64(1); j.Segment() < 20; id++ {
		others := int(j.Segment()) - 1
		if got, want := j.Outgrown(true), others > 7; got != want {
			t.Errorf("with %d segments Outgrown = %v in read-behind, want %v", others+1, got, want)
		}
		if got, want := j.Outgrown(false), others > 14; got != want {
			t.Errorf("with %d segments Outgrown = %v, want %v", others+1, got, want)
		}
		if err := j.Write(put(j, id, string(make([]byte, 3000)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Sync(j.End()); err != nil {
		t.Fatal(err)
	}
	if n, err := j.DropBefore(15); n != 14 || err != nil || j.Outgrown(true) || len(j.Segments()) != 6 {
		t.Errorf("DropBefore = %d, %v and leaves %d segments, want 14 dropped", n, err, len(j.Segments()))
	}
}

// TestPeriodicSync: the oldest write that waits for a sync is synced in its time, and a sync that fails is
// tried again.
func TestPeriodicSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := segmenttest.New()
		j, stop := newTest(t, fsys), make(chan struct{})
		go j.SyncPeriodically(stop)
		synced := func(lsn LSN) bool {
			synctest.Wait()
			return j.Committed(Ticket{Synced: lsn})
		}
		a := put(j, 1, "a")
		j.SyncWithin(2 * time.Second)
		<-time.After(time.Second)
		b := put(j, 2, "b")
		j.SyncWithin(2 * time.Second)
		<-time.After(time.Second - 1)
		if synced(a) {
			t.Error("synced before it is due")
		}
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, syscall.EIO))
		<-time.After(1)
		if synced(a) {
			t.Error("synced although the write fails")
		}
		fsys.SetFault(nil)
		<-time.After(retrySync)
		if !synced(b) {
			t.Error("not synced when it is due, and the write works again")
		}
		if _, late := j.SyncMetrics(); late.Total() != 1 {
			t.Errorf("%d periodic syncs are counted, want 1", late.Total())
		}
		close(stop)
	})
}

// TestPrepareIsTriedAgain: a segment that could not be prepared is asked for again a little later, before
// anything that is put needs it.
func TestPrepareIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := segmenttest.New()
		reported := 0
		j := newTest(t, fsys, func(o *Options) { o.Report = func(string, error) { reported++ } })
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpCreate, 0, syscall.EMFILE))
		j.Prepare()
		fsys.SetFault(nil)
		if j.AskPrepare(); len(j.rotated) != 0 {
			t.Error("the segment is asked for again at once")
		}
		<-time.After(minPrepareDelay)
		if j.AskPrepare(); len(j.rotated) != 1 || reported != 1 {
			t.Fatalf("the segment is not asked for again, or the failure was reported %d times", reported)
		}
		<-j.rotated
		j.Prepare()
		if j.AskPrepare(); len(j.rotated) != 0 || !j.Prepared() {
			t.Error("a segment that is prepared is asked for")
		}
	})
}

func TestErrorClass(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC:                         "ENOSPC",
		fmt.Errorf("sync: %w", syscall.EDQUOT): "EDQUOT",
		errors.New("burnt"):                    "other",
		syscall.Errno(9999):                    "other",
	} {
		if got := errorClass(err); got != want {
			t.Errorf("errorClass(%v) = %q, want %q", err, got, want)
		}
	}
}

// TestPeriodicSyncBesideFailure has a client sync, whose write fails, while a periodic sync becomes due. That comes once
// writes succeed again.
func TestPeriodicSyncBesideFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, g := newGated(t, segmenttest.New(), false)
		stop := make(chan struct{})
		defer close(stop)
		go j.SyncPeriodically(stop)
		end := put(j, 1, "a")
		j.SyncWithin(time.Second)
		failed := make(chan error)
		go func() { failed <- j.Sync(end) }()
		<-g.reached
		<-time.After(2 * time.Second)
		g.err = syscall.ENOSPC
		close(g.open)
		if err := <-failed; !errors.Is(err, ErrFull) {
			t.Fatalf("Sync = %v", err)
		}
		synctest.Wait()
		j.writeMu.Lock() // as who looks at it has
		g.err = nil
		j.writeMu.Unlock()
		<-time.After(retrySync)
		synctest.Wait()
		if !j.Committed(Ticket{Synced: end}) {
			t.Error("nothing is synced")
		}
	})
}
