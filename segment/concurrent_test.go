package segment_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"path"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// nameWatch checks that a changed name is synced before another one is changed. Otherwise, if the sync for the first
// fails, it could pass for the sync of the second.
type nameWatch struct {
	segment.FS
	mu      sync.Mutex
	pending string
	broken  []string
}

func (w *nameWatch) changing(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending != "" {
		w.broken = append(w.broken, name+" changed before the directory was synced for "+w.pending)
	}
	w.pending = path.Base(name)
}

func (w *nameWatch) Rename(from, to string) error {
	w.changing(to)
	return w.FS.Rename(from, to)
}

func (w *nameWatch) Remove(name string) error {
	w.changing(name)
	return w.FS.Remove(name)
}

func (w *nameWatch) SyncDir(dir string) error {
	w.mu.Lock()
	w.pending = ""
	w.mu.Unlock()
	return w.FS.SyncDir(dir)
}

// crowd is goroutines that use one log at once.
type crowd struct {
	log *segment.Log
	wg  sync.WaitGroup

	mu       sync.Mutex
	appended []batch // in the order of their return
	failed   error
}

// all runs f in n goroutines until it returns an error or ErrClosed, which is none.
func (c *crowd) all(n int, f func(i int) error) {
	for range n {
		c.wg.Go(func() {
			for i := 0; ; i++ {
				err := f(i)
				if errors.Is(err, segment.ErrClosed) {
					return
				}
				if err != nil {
					c.mu.Lock()
					c.failed = err
					c.mu.Unlock()
					return
				}
			}
		})
	}
}

// append appends a batch and takes note of it.
func (c *crowd) append(n int) error {
	buf := make([]byte, segment.FrameHeaderSize+n)
	for i := segment.FrameHeaderSize; i+8 <= len(buf); i += 8 {
		binary.LittleEndian.PutUint64(buf[i:], uint64(n*i))
	}
	payload := slices.Clone(buf[segment.FrameHeaderSize:])
	at, _, err := c.log.Append(buf)
	if err == nil {
		c.mu.Lock()
		size := segment.Position(segment.FrameHeaderSize+n+7) &^ 7
		c.appended = append(c.appended, batch{at.End - size, at.Segment, payload})
		c.mu.Unlock()
	}
	return err
}

// TestConcurrentUse has every method called at once and the log closed amidst it.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	disk := segmenttest.New()
	names := &nameWatch{FS: disk}
	s := newSession(names, segment.Options{SegmentSize: 4096, Spares: 2})
	must(t, s.open(promiseWritten))
	c := &crowd{log: s.log}
	enough, most := make(chan struct{}), 500
	if isSample() {
		most = 150
	}
	c.all(3, func(i int) error {
		if i == most {
			enough <- struct{}{}
		}
		return c.append(i * 37 % 900)
	})
	c.all(2, func(int) error { _, err := s.log.Sync(); return err })
	c.all(2, func(int) error { return s.log.Prepare() })
	c.all(1, func(int) error { _, err := s.log.Mark(); return err })
	c.all(1, func(int) error { return s.log.SyncSealed() })
	c.all(1, func(int) error { return s.log.WriteOut() })
	c.all(1, func(i int) error { return s.log.TrimSpares(i % 3) })
	c.all(2, func(int) error {
		all := s.log.Segments()
		if err := checkSegments(all); err != nil {
			return err
		}
		s.log.Room()
		s.log.NeedsPrepare()
		s.log.Watermark()
		_, err := s.log.DropBefore(all[len(all)-1].Number)
		return err
	})
	for range 3 {
		<-enough
	}
	must(t, s.log.Close())
	c.wg.Wait()
	must(t, c.failed)
	must(t, leaks(disk))
	if len(names.broken) > 0 {
		t.Errorf("%d times: %s", len(names.broken), names.broken[0])
	}

	// Close made all of it durable; what was dropped is the front.
	slices.SortFunc(c.appended, func(a, b batch) int { return cmp.Compare(a.position, b.position) })
	last := c.appended[len(c.appended)-1]
	s.h = &history{batches: c.appended, askedTo: last.segment}
	image := disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	must(t, s.on(image).open(promiseWritten))
}

// TestCloseDuringAppends closes a log that others append to: what they learned is in it is
// durable.
func TestCloseDuringAppends(t *testing.T) {
	t.Parallel()
	times := 20
	if isSample() {
		times = 5
	}
	for range times {
		s, disk := start(t, segment.Options{SegmentSize: 1024})
		c := &crowd{log: s.log}
		begun := make(chan struct{})
		c.all(2, func(i int) error {
			if i == 5 {
				begun <- struct{}{}
			}
			return c.append(300)
		})
		<-begun
		<-begun
		must(t, s.log.Close())
		c.wg.Wait()
		must(t, c.failed)
		must(t, leaks(disk))
		slices.SortFunc(c.appended, func(a, b batch) int { return cmp.Compare(a.position, b.position) })
		s.h = &history{batches: c.appended, synced: len(c.appended)}
		must(t, s.on(disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})).open(promiseSynced))
	}
}

// busyFS does something while the disk is busy with a sync.
type busyFS struct {
	segment.FS
	datasync, syncDir func()
}

func (b *busyFS) Create(name string) (segment.File, error) {
	f, err := b.FS.Create(name)
	return &busyFile{f, b}, err
}

func (b *busyFS) SyncDir(dir string) error {
	if b.syncDir != nil {
		b.syncDir()
	}
	return b.FS.SyncDir(dir)
}

type busyFile struct {
	segment.File
	fs *busyFS
}

func (f *busyFile) Datasync() error {
	err := f.File.Datasync()
	if during := f.fs.datasync; during != nil {
		f.fs.datasync = nil
		during()
	}
	return err
}

// TestAppendDuringSync appends, to the tail and beyond it, just after the disk has synced and
// before Sync knows: that is not covered.
func TestAppendDuringSync(t *testing.T) {
	for _, sizes := range [][]int{{10}, {700}, {10, 700, 700}} {
		disk := segmenttest.New()
		busy := &busyFS{FS: disk}
		s := newSession(busy, smallOptions)
		must(t, s.run([]step{opens, appends(300), prepares}))
		busy.datasync = func() { must(t, s.run([]step{appends(sizes...)})) }
		synced := s.h.batches[0].position + 344
		if got, err := s.log.Sync(); got != synced || err != nil {
			t.Errorf("Sync = %d, %v, want %d: what came later is not durable", got, err, synced)
		}
		s.h.synced = 1
		for _, how := range crashes(1, 5) {
			must(t, s.on(how.image(disk)).open(how.promise()))
		}
		must(t, s.sync())
		lose := segmenttest.CutOptions{Mode: segmenttest.Lose}
		must(t, s.on(disk.PowerCut(lose)).open(promiseWritten))
		must(t, s.close())
		must(t, leaks(disk))
	}
}

// TestCloseWaitsForDrop closes a log while a segment is being dropped: the directory must not
// change any more when Close has returned.
func TestCloseWaitsForDrop(t *testing.T) {
	disk := segmenttest.New()
	busy := &busyFS{FS: disk}
	s := newSession(busy, smallOptions)
	must(t, s.run([]step{opens, appends(700, 700), syncs}))
	closed := make(chan error, 1)
	busy.syncDir = func() {
		go func() { closed <- s.log.Close() }()
		for range 1000 {
			runtime.Gosched()
		}
		if len(closed) > 0 {
			t.Error("Close returned while a segment was being dropped")
		}
	}
	if n, err := s.log.DropBefore(2); n != 1 || err != nil {
		t.Errorf("DropBefore = %d, %v, want 1", n, err)
	}
	must(t, <-closed)
}
