package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/segment"
)

const (
	// spillBatch is how many bytes of chunks are written to a run in one call, unless a single
	// chunk is larger: as much as keeps a processor busy for a tenth of a millisecond, which an event
	// loop may have to wait for. If the writing side falls behind, it takes an eighth of what waits,
	// up to maxSpillBatch: fewer calls are faster, and what waits takes memory.
	spillBatch    = 256 << 10
	maxSpillBatch = 1 << 20
	// spillBuffer is the memory, in bytes, in which batches are put together: a huge page. What a
	// batch with a large item needs is kept for the next one up to maxSpillBuffer.
	spillBuffer    = 2 << 20
	maxSpillBuffer = 3 << 20
	// fillBatch is for how many bytes there must be room in a window, at most, before the next
	// frames are read into it.
	fillBatch = 1 << 20
	// maxFilled is how many bytes of items are read ahead of a queue's consumers, at most, unless
	// these are less than minFilled items.
	maxFilled = 8 << 20
	minFilled = 16
	// recordEvery is how many bytes of a run are synced and recorded at a time.
	recordEvery = 8 << 20
	// minRunSize and maxRunSize are between what sizes, in bytes, a run is ended: at a sixteenth of
	// the backlog, which is what a run that is not read to its end keeps from being freed.
	minRunSize = 4 << 20
	maxRunSize = 32 << 20
	// runShare is the part of the disk, one in so many bytes, that a run takes at most: on a small
	// disk the others are freed before all has been read.
	runShare = 64
)

// spool moves items between memory and runs, for all queues, in the background: one goroutine
// writes, one records what was written, which is where the disk is waited for, and removes, and one
// reads.
//
// Lock order: writeMu, recordMu, readMu, shard, then mu or that of a list. No shard is locked
// during I/O.
type spool struct {
	e   *Engine
	fs  segment.FS
	dir string
	now func() Time

	spills, records, fills workList
	lastRun                atomic.Uint64 // number of the newest run
	// lostNames is how many syncs of dir have failed. Each may have lost the name of any run that had
	// been made before and was not durable. Changed by whoever holds recordMu.
	lostNames atomic.Uint64
	failing   atomic.Bool // the last write to a run failed
	stats     spoolStats
	diskSize  atomic.Int64 // bytes; zero as long as it is not known

	// How many runs are open. The first is raised under writeMu alone.
	openWriters, openReaders atomic.Int64

	mu      sync.Mutex
	queues  map[*queue]struct{} // that have a backlog; guarded by mu
	starved []*queue            // that wait for a descriptor to spill, the first for longest; guarded by mu
	found   map[uint64]bool     // numbers of the runs on disk, until clean; of Open alone

	writeMu sync.Mutex // held by whoever writes runs
	coder   *segment.Coder
	batch   []byte   // of frames, from one write to the next: runs that wait for a sync need none
	made    bool     // dir exists
	writers []*queue // with a run that grows, or grew, the one used longest ago first

	recordMu sync.Mutex // held by whoever syncs, records or removes runs

	readMu  sync.Mutex // held by whoever reads runs
	decoder segment.Coder
	ahead   *segment.ReadAhead // nil if runs are read through the page cache
	readers []openRun          // the one used longest ago first
	closed  bool               // no run is opened any more
}

type openRun struct {
	run *run
	*segment.RunReader
}

// workList is a FIFO of queues that wait for the spool.
type workList struct {
	mu     sync.Mutex
	queues []*queue
	wake   chan struct{} // capacity 1
}

func (l *workList) add(q *queue) {
	l.mu.Lock()
	l.queues = append(l.queues, q)
	l.mu.Unlock()
	signal(l.wake)
}

// take returns the queue that has waited longest, or nil.
func (l *workList) take() *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queues) == 0 {
		return nil
	}
	q := l.queues[0]
	n := copy(l.queues, l.queues[1:])
	l.queues[n] = nil
	l.queues = l.queues[:n]
	return q
}

// signal wakes the reader of a channel of capacity 1; a wake-up that is still pending is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func newSpool(e *Engine, fs segment.FS) *spool {
	s := &spool{
		e: e, fs: fs, now: Now, dir: path.Join(e.opts.Dir, "backlog"), queues: make(map[*queue]struct{}),
		coder: segment.NewCoder(e.opts.BacklogCompression), ahead: e.newReadAhead(),
	}
	s.spills.wake = make(chan struct{}, 1)
	s.records.wake = make(chan struct{}, 1)
	s.fills.wake = make(chan struct{}, 1)
	return s
}

// work handles the queues of a list until the engine is closed.
func (s *spool) work(l *workList, handle func(*queue)) {
	for {
		select {
		case <-s.e.stop:
			return
		default:
		}
		if q := l.take(); q != nil {
			handle(q)
			continue
		}
		select {
		case <-s.e.stop:
			return
		case <-l.wake:
		}
	}
}

// isTaken keeps new runs off a number that a file has, or that a record of the journal has, even one of a
// deleted queue. Otherwise a repair would mistake the new run for what is left of the old one.
func (s *spool) isTaken(number uint64) { s.lastRun.Store(max(s.lastRun.Load(), number)) }

// newReadAhead returns what runs are read with, if not through the page cache.
func (e *Engine) newReadAhead() *segment.ReadAhead {
	if e.opts.BacklogCached {
		return nil
	}
	return segment.NewReadAhead(e.opts.BacklogRead)
}

// runIO is how the next run of q is written. The caller holds the shard's mutex.
func (s *spool) runIO(q *queue) segment.IO {
	if s.e.opts.BacklogCached || q.opts.MaxMemorySize < s.e.opts.directFrom {
		return segment.Cached
	}
	return segment.Direct
}

// register notes that q has a backlog. The caller holds the shard's mutex.
func (s *spool) register(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[q] = struct{}{}
}

func (s *spool) unregister(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, q)
}

// each calls f for every queue with a backlog, with its shard locked.
func (s *spool) each(f func(*queue, *backlog)) {
	s.mu.Lock()
	queues := make([]*queue, 0, len(s.queues))
	for q := range s.queues {
		queues = append(queues, q)
	}
	s.mu.Unlock()
	for _, q := range queues {
		q.shard.mu.Lock()
		if q.backlog != nil {
			f(q, q.backlog)
		}
		q.shard.mu.Unlock()
	}
}

// wantSpill asks the writing side to look at q. The caller holds the shard's mutex.
func (s *spool) wantSpill(q *queue) {
	if b := q.backlog; !b.queuedSpill {
		b.queuedSpill = true
		s.spills.add(q)
	}
}

// wantRecord asks the recording side to look at q. The caller holds the shard's mutex.
func (s *spool) wantRecord(q *queue) {
	if b := q.backlog; !b.queuedRecord {
		b.queuedRecord = true
		s.records.add(q)
	}
}

// tend asks for everything that has been left undone: writes that failed, what was written and not
// recorded yet, runs that could not be removed, reads that failed for another reason than damage.
func (s *spool) tend() {
	s.mu.Lock()
	starving := len(s.starved) > 0
	s.mu.Unlock()
	defer s.feed()
	s.each(func(q *queue, b *backlog) {
		b.recordDue = b.recordDue || b.unrecorded() || starving && b.unclosed()
		if b.leaving.Count > 0 {
			s.wantSpill(q)
		}
		if b.recordDue || len(b.spent) > 0 {
			s.wantRecord(q)
		}
		if b.failed != nil && !isDamage(b.failed) {
			b.failed = nil
			if q.waiters.First() != nil {
				s.e.wantFill(q)
			}
		}
	})
}

// unrecorded reports whether runs hold items that the journal still has to vouch for.
func (b *backlog) unrecorded() bool {
	n := len(b.runs)
	return n > 0 && b.runs[n-1].recorded.End != b.runs[n-1].written.End
}

// unclosed reports whether a run that grows no more is open.
func (b *backlog) unclosed() bool {
	return slices.ContainsFunc(b.runs, func(r *run) bool { return r.writer != nil && r != b.growing })
}

// makeDir makes the directory of the runs. The caller holds writeMu.
func (s *spool) makeDir() error {
	if s.made {
		return nil
	}
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return fmt.Errorf("make directory of backlogs: %w", err)
	}
	s.made = true
	return nil
}

// close closes every file. The goroutines of the spool have ended; a caller who brings items back may
// not have: it finds the spool closed.
func (s *spool) close() {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	s.closed = true
	s.each(func(_ *queue, b *backlog) {
		for _, r := range slices.Concat(b.runs, b.spent) {
			if r.writer != nil {
				r.writer.Close()
				r.writer = nil
			}
		}
	})
	for _, r := range s.readers {
		r.Close()
	}
	s.writers, s.readers = nil, nil
	s.coder.Close()
	s.decoder.Close()
}

// feed has the queue spill that has waited longest for a descriptor, if there is one.
func (s *spool) feed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.starved) > 0 && s.openWriters.Load() < int64(s.e.files.writers) {
		s.spills.add(s.starved[0])
		s.starved = append(s.starved[:0], s.starved[1:]...)
	}
}

// writerClosed notes that the writer of a run is closed.
func (s *spool) writerClosed() {
	s.openWriters.Add(-1)
	s.feed()
}

// isDamage reports whether an error says that stored bytes are not what was written, or not there.
func isDamage(err error) bool {
	return errors.Is(err, segment.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// closeReader closes the reader of a run, if there is one.
func (s *spool) closeReader(r *run) {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	for i, o := range s.readers {
		if o.run == r {
			o.Close()
			s.readers = append(s.readers[:i], s.readers[i+1:]...)
			s.openReaders.Add(-1)
			return
		}
	}
}

// wantFill asks for the window to be filled, unless that is asked already or is of no use.
func (e *Engine) wantFill(q *queue) {
	if b := q.backlog; b.onDisk > 0 && !b.queuedFill && b.failed == nil {
		b.queuedFill = true
		e.spool.fills.add(q)
	}
}
