package engine

import (
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/engine/internal/worklist"
	"github.com/kestrelmq/kestrel/segment"
)

// This file has the spool, which moves items between memory and runs: its lists of work, and its figures.

const (
	// spillBatch is how many bytes of chunks are written to a run in one call, unless a single chunk is larger. It keeps
	// a processor busy for a tenth of a millisecond: an event loop may have to wait for that. If the writing side falls
	// behind, it takes an eighth of what waits, up to maxSpillBatch: fewer calls are faster, and what waits takes
	// memory.
	spillBatch    = 256 << 10
	maxSpillBatch = 1 << 20
	// fillBatch is for how many bytes there must be room in a window, at most, before the next frames are read into it.
	fillBatch = 1 << 20
	// maxFilled is how many bytes of items are read ahead of a queue's consumers, at most, unless
	// these are less than minFilled items.
	maxFilled = 8 << 20
	minFilled = 16
	// recordEvery is how many bytes of a run are synced and recorded at a time.
	recordEvery = 8 << 20
	// minRunSize and maxRunSize are between what sizes, in bytes, a run is ended. Between them it ends at a sixteenth
	// of the backlog: a run that is not read to its end keeps that much from being freed.
	minRunSize = 4 << 20
	maxRunSize = 32 << 20
	// runShare is the part of the disk, one in so many bytes, that a run takes at most. So on a small disk some runs
	// are freed before all have been read.
	runShare = 64
)

// spool moves items between memory and runs, for all queues, in the background. One goroutine writes. One records what
// was written, which is where the disk is waited for, and removes. One reads. A fourth hides delayed items.
//
// Lock order: hideMu, writeMu, recordMu, readMu, shard, then mu or that of a list. No shard is locked during I/O.
type spool struct {
	e   *Engine
	fs  segment.FS
	dir *runs.Dir // the holder of recordMu syncs names in it
	now func() Time

	spills, records, fills *worklist.List[queue]
	hides                  *worklist.List[queue] // delayed items to be hidden
	failing                atomic.Bool           // the last write to a run failed
	queues                 worklist.Set[queue]   // that have a backlog
	hiders                 worklist.Set[queue]   // that have hidden runs
	stats                  spoolStats

	openWriters atomic.Int64 // runs; raised under writeMu alone

	mu      sync.Mutex
	spent   []runs.File // files of hidden runs in which nothing lives any more; guarded by mu
	starved []*queue    // that wait for a descriptor to spill, the first for longest; guarded by mu
	found   []uint64    // numbers of the runs on disk, ascending, until clean; of Open alone

	writeMu sync.Mutex // held while runs are written
	batcher *runs.Batcher
	writers []*queue // with a run that grows, or grew, the one used longest ago first

	recordMu sync.Mutex // held while runs are synced, recorded or removed

	hideMu       sync.Mutex // held while hidden runs are written; taken before the others
	hideCoder    *segment.Coder
	hideBatch    hidden.Batch
	batchCounted int64       // bytes of it in the ledger of memory
	hideFailing  atomic.Bool // the last hidden run could not be written

	readMu       sync.Mutex // held while runs are read
	reader       *runs.Reader
	hiddenReader hidden.Reader // by way of reader
	closed       bool          // no run is opened any more
}

// signal wakes the reader of a channel of capacity 1; a wake-up that is still pending is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func newSpool(e *Engine, fsys segment.FS) *spool {
	s := &spool{
		e: e, fs: fsys, now: item.Now, dir: &runs.Dir{FS: fsys, Path: path.Join(e.opts.Dir, "backlog")},
		hideCoder: segment.NewCoder(e.opts.BacklogCompression),
		batcher:   runs.NewBatcher(e.opts.BacklogCompression), reader: runs.NewReader(fsys, e.newReadAhead(), e.files.Readers),
		spills: worklist.New[queue](), records: worklist.New[queue](), fills: worklist.New[queue](), hides: worklist.New[queue](),
	}
	s.hiddenReader.Runs = s.reader
	return s
}

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

// each calls f for every queue with a backlog, with its shard locked, and returns these queues.
func (s *spool) each(f func(*queue, *backlog)) (queues []*queue) {
	queues = s.queues.All(s.e.opts.yield)
	for q := range processor.InTurn(queues, new(int), s.e.opts.yield) {
		q.shard.mu.Lock()
		if q.backlog != nil {
			f(q, q.backlog)
		}
		q.shard.mu.Unlock()
	}
	return queues
}

// wantSpill asks the writing side to look at q. The caller holds the shard's mutex.
func (s *spool) wantSpill(q *queue) {
	if b := q.backlog; !b.queuedSpill {
		b.queuedSpill = true
		s.spills.Add(q)
	}
}

// wantRecord asks the recording side to look at q. The caller holds the shard's mutex.
func (s *spool) wantRecord(q *queue) {
	if b := q.backlog; !b.queuedRecord {
		b.queuedRecord = true
		s.records.Add(q)
	}
}

// registerHidden has the spool tend the hidden runs of q. The caller holds the shard's mutex.
func (s *spool) registerHidden(q *queue) {
	q.aside.hidden.registered = true
	s.hiders.Add(q)
}

// spend has the spool remove files of hidden runs. Nothing lives in them any more, as the journal says so far.
func (s *spool) spend(files ...runs.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = append(s.spent, files...)
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
	s.writers = nil
	s.batcher.Close()
	s.hideCoder.Close()
	s.reader.Close()
}

// feed has the queue spill that has waited longest for a descriptor, if there is one.
func (s *spool) feed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.starved) > 0 && s.openWriters.Load() < int64(s.e.files.Writers) {
		s.spills.Add(s.starved[0])
		s.starved, s.starved[0] = s.starved[1:], nil // who waits may be many: none moves
	}
}

// writerClosed notes that the writer of a run is closed.
func (s *spool) writerClosed() {
	s.openWriters.Add(-1)
	s.feed()
}

// closeReader closes the reader of a run, if there is one.
func (s *spool) closeReader(f runs.File) {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	s.reader.Forget(f)
}

// nameInDoubt reports whether the name of r may be lost in a power cut, whatever is synced from now on. Then a sync of
// the directory has failed since the file was made. The caller holds recordMu.
func (s *spool) nameInDoubt(r *run) bool { return r.recorded.End == 0 && s.dir.InDoubt(r.made) }

// wantFill asks for the window to be filled, unless that is asked already or is of no use. What cannot be written is to
// come back.
func (e *Engine) wantFill(q *queue) {
	switch b := q.backlog; {
	case b.onDisk > 0 && !b.queuedFill && b.failed == nil:
		b.queuedFill = true
		e.spool.fills.Add(q)
	case b.onDisk == 0 && e.spool.failing.Load():
		b.missed = true
		e.spool.wantSpill(q)
	}
}

// spoolStats measures what the spool does.
type spoolStats struct {
	mu                   sync.Mutex
	spills, syncs, fills histogram.Counts // µs; guarded by mu
}

// took adds how long something has taken since it began to the distribution called which.
func (s *spoolStats) took(which *histogram.Counts, began time.Time) {
	n := time.Since(began).Microseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	which.Record(n, 1)
}

// BacklogMetrics are how many µs each step between memory and backlogs took, as copies.
type BacklogMetrics struct {
	Spills *histogram.Counts // writes of a batch of chunks
	Syncs  *histogram.Counts // syncs of what was written
	Fills  *histogram.Counts // reads of a frame, until it was checked and decompressed
	// Mapped and Direct are how many bytes were read back through maps, and past the page cache.
	Mapped, Direct int64
}

// BacklogMetrics describes the steps since the start.
func (e *Engine) BacklogMetrics() BacklogMetrics {
	defer contain()
	s := &e.spool.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	m := BacklogMetrics{Spills: s.spills.Clone(), Syncs: s.syncs.Clone(), Fills: s.fills.Clone()}
	m.Mapped, m.Direct = e.spool.reader.Amounts()
	return m
}
