package engine

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// spillJob is what is being written to a queue's backlog outside of the shard's lock.
type spillJob struct {
	b      *backlog
	epoch  uint64
	left   uint64 // of the backlog, when the chunks were taken
	chunks []*item.Chunk
	starts []int64        // offset of the frame of each chunk
	end    int64          // behind the last one
	gaps   idset.Set      // ids that the chunks leave out
	seed   *keyindex.Seed // of the queue's keys; nil if no item has one
	run    *run
	io     segment.IO // of a new run
	isNew  bool       // run is not among those of the backlog yet
	rich   bool       // chunks have items that are not plain
	cut    []uint64   // ids that were cut out meanwhile
}

// spill does for q what there is to do on the writing side, a batch at a time.
func (s *spool) spill(q *queue) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	q.shard.mu.Lock()
	b := q.backlog
	if b == nil {
		q.shard.mu.Unlock()
		return
	}
	b.queuedSpill = false
	entered := b.entered && s.now().After(-readBehindLogInterval) >= q.readBehindLogged
	if b.entered = false; entered {
		b.leaveLogged, q.readBehindLogged = true, s.now()
	}
	q.shard.mu.Unlock()
	if entered {
		s.e.log.Info("queue enters read-behind", "queue", q.name)
	}
	wrote, err := s.writeChunks(q, b)
	if errors.Is(err, errNoFile) {
		s.starve(q, b)
		return
	}
	if wrote || err != nil { // else nothing is known of the disk
		s.reportOnce("backlog could not be written to disk: the queue stays in memory", q, err, &s.failing)
	}
	if err != nil { // tend tries again
		s.takeBack(q, false)
	}
	s.afterBatch(q, b)
	s.feed()
}

// reportOnce logs that what is to be written failed, in these words, once until it succeeds. failing says whether it has.
func (s *spool) reportOnce(what string, q *queue, err error, failing *atomic.Bool) {
	if err == nil {
		failing.Store(false)
		return
	}
	if errors.Is(err, syscall.ENOSPC) {
		s.e.journal.NoteFull()
	}
	if !failing.Swap(true) && !s.e.closed.Load() {
		s.e.log.Error(what, "queue", q.name, "err", err)
	}
}

// writeChunks writes a batch of leaving chunks to the growing run, or to a new one, and reports whether there was one.
func (s *spool) writeChunks(q *queue, b *backlog) (wrote bool, err error) {
	job, ok := s.takeJob(q, b)
	if !ok {
		return false, nil
	}
	began := time.Now()
	err = s.openWriter(q, &job)
	if err == nil {
		job.starts, job.gaps, err = s.batcher.Write(job.run.writer, job.seed, job.chunks, job.starts, job.gaps)
		job.end = job.run.writer.End()
	}
	if err != nil {
		s.putBack(q, &job)
		return false, err
	}
	s.stats.took(&s.stats.spills, began)
	s.addBatch(q, &job)
	return true, nil
}

// takeJob takes a batch of chunks to be written.
func (s *spool) takeJob(q *queue, b *backlog) (job spillJob, ok bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	job = spillJob{b: b, epoch: b.epoch, left: b.left, run: b.growing, io: s.runIO(q)}
	batch := int(min(max(b.leaving.Bytes/8, spillBatch), maxSpillBatch))
	for size := 0; b.leaving.Count > 0 && size < batch; {
		c := b.leaving.Detach()
		c.Trim()
		job.rich = job.rich || c.IsRich()
		size += len(c.Buf) - c.Off
		b.writing += c.Count
		job.chunks = append(job.chunks, c)
	}
	if len(job.chunks) == 0 {
		return job, false
	}
	job.seed = q.keySeed()
	b.flying, b.spilling = job.chunks, true
	if job.run != nil && job.rich && !job.run.extended {
		job.run, b.growing = nil, nil
		s.wantRecord(q)
	}
	if job.run != nil {
		job.run.busy = true
	}
	return job, true
}

// openWriter makes a run for the job if none grows.
func (s *spool) openWriter(q *queue, job *spillJob) error {
	if job.run != nil {
		s.writers = append(slices.DeleteFunc(s.writers, func(o *queue) bool { return o == q }), q)
		return nil
	}
	s.endOldest()
	if s.openWriters.Load() >= int64(s.e.files.Writers) { // others are only ever closed meanwhile
		return errNoFile
	}
	w, made, err := s.dir.Create(job.io)
	if err != nil {
		return err
	}
	s.openWriters.Add(1)
	if job.rich {
		w.Extend(true)
	}
	job.run, job.isNew = &run{
		File: runs.File{Path: w.Path(), ID: w.ID()}, made: made, writer: w, busy: true, extended: job.rich,
	}, true
	s.writers = append(s.writers, q)
	return nil
}

// endRun has the run of q that grows take no more.
func (s *spool) endRun(q *queue) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if b := q.backlog; b != nil && b.growing != nil {
		b.growing = nil
		s.wantRecord(q)
	}
}

// putBack has the chunks of a job that failed leave once more, before the others.
func (s *spool) putBack(q *queue, job *spillJob) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	b := job.b
	job.done()
	if job.isNew { // it holds nothing
		b.spent = append(b.spent, job.run)
		s.wantRecord(q)
	}
	if b.epoch != job.epoch {
		job.giveChunks(q)
		return
	}
	var all item.Window
	for _, c := range job.chunks {
		all.Attach(c)
	}
	for _, id := range job.cut {
		all.Cut(&q.shard.pool, id)
	}
	all.Join(&b.leaving)
	b.leaving = all
	s.e.retire(q)
}

// done notes that nothing of the job is being written any more. The caller holds the shard's mutex.
func (job *spillJob) done() {
	b := job.b
	for _, c := range job.chunks {
		b.writing -= c.Count
	}
	job.cut = b.cut
	b.writing += int64(len(job.cut))
	b.flying, b.spilling, b.cut = nil, false, nil
	if job.run != nil {
		job.run.busy = false
	}
}

func (job *spillJob) giveChunks(q *queue) {
	for _, c := range job.chunks {
		q.shard.pool.Give(c)
	}
}

// addBatch makes the chunks that were written part of the backlog. It keeps in memory those that
// come next in the window and have room there, and gives the others back.
func (s *spool) addBatch(q *queue, job *spillJob) {
	now, sh, b := s.now(), q.shard, job.b
	gaps := idset.BitmapOf(job.gaps) // there may be one for each item
	sh.mu.Lock()
	job.done()
	if b.epoch != job.epoch {
		if job.isNew {
			b.spent = append(b.spent, job.run)
		}
		s.wantRecord(q)
		job.giveChunks(q)
		sh.mu.Unlock()
		return
	}
	if job.isNew {
		b.runs = append(b.runs, job.run)
		if b.left == job.left { // else it takes no more: see leaveReadBehind
			b.growing = job.run
		}
	}
	b.gone.AddAll(&gaps)
	for i, c := range job.chunks {
		if w := job.run.written; w.Count > 0 && c.FirstID > w.LastID+1 {
			b.gone.AddRange(idset.Between(w.LastID+1, c.FirstID-1))
		}
		job.run.written.Add(runs.TagOf(c))
		q.writtenTo = c.LastID
		s.e.takeWritten(q, c, job.cutOf(c), place{Run: job.run, Offset: job.starts[i], ID: c.FirstID})
	}
	job.run.written.End = job.end
	if b.growing != job.run { // a sync of it failed meanwhile
		s.wantRecord(q)
	}
	left := s.e.arrived(q, now)
	s.e.unlock(sh, now)
	s.logState(q, left)
}

// cutOf is how many items of a chunk were cut out while it was written.
func (job *spillJob) cutOf(c *item.Chunk) (n int64) {
	for _, id := range job.cut {
		if c.FirstID <= id && id <= c.LastID {
			n++
		}
	}
	return n
}

// takeWritten puts a chunk that has been written into the window, or gives it back and leaves it on disk. cut is how
// many of its items were cut out meanwhile.
func (e *Engine) takeWritten(q *queue, c *item.Chunk, cut int64, at place) {
	b := q.backlog
	fits := cut == 0 && q.window.Bytes+c.Bytes <= q.frontLimit() && !e.memoryShort()
	if b.onDisk == 0 && fits {
		b.count -= c.Count
		b.bytes -= c.Bytes
		b.nextID = c.LastID + 1
		q.window.Attach(c)
		return
	}
	if b.onDisk == 0 {
		b.next = at
	}
	b.onDisk += c.Count - cut
	q.shard.pool.Give(c)
}

// arrived is called when items may have come into the window, or have left the backlog for another reason. It serves
// the waiters. If no items are behind the window any more, it first ends read-behind, and reports true. The waiters may
// then have what was recent as well. The caller holds the shard's mutex, and releases it by unlock.
func (e *Engine) arrived(q *queue, now Time) (left bool) {
	q.zeroBytes()
	b := q.backlog
	if left = b != nil && b.inReadBehind && b.count == 0; left {
		e.leaveReadBehind(q)
	}
	e.settle(q, now)
	e.serveWaiters(q, now)
	if b = q.backlog; b != nil && b.count > 0 && q.waiters.First() != nil {
		e.wantFill(q)
	}
	return left
}

// takeBack takes back into the window of q, which is empty, what waits to be written, if nothing is on disk alone. It
// does so only if it is needed: by the caller, or by fetches that would wait for a disk that fails. The caller holds
// writeMu.
func (s *spool) takeBack(q *queue, needed bool) {
	now, sh := s.now(), q.shard
	sh.mu.Lock()
	b := q.backlog
	if b == nil || q.window.Count > 0 || b.onDisk > 0 || !needed && !b.missed && q.waiters.First() == nil {
		sh.mu.Unlock()
		return
	}
	b.leaving.Join(&b.recent)
	b.recent, b.leaving = b.leaving, item.Window{}
	b.count, b.bytes, b.missed, b.back = 0, 0, false, !needed
	left := s.e.arrived(q, now)
	s.e.unlock(sh, now)
	s.logState(q, left)
}

// afterBatch asks for what is to be done after a batch has been written, and ends the run if it is large
// enough. The caller holds writeMu.
func (s *spool) afterBatch(q *queue, b *backlog) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if b.leaving.Count > 0 && !s.failing.Load() {
		s.wantSpill(q)
	}
	r := b.growing
	if r == nil {
		return
	}
	if r.written.End >= s.runLimit(b) {
		b.growing = nil
	}
	if b.growing == nil || r.written.End-max(r.recorded.End, segment.RunStart) >= recordEvery {
		s.wantRecord(q)
	}
}

// runLimit is the size at which a run of b is ended.
func (s *spool) runLimit(b *backlog) int64 {
	limit := min(max(b.bytes/16, minRunSize), maxRunSize)
	if disk := s.e.disk.Size(); disk > 0 {
		limit = min(limit, disk/runShare)
	}
	return limit
}

// readBehindLogInterval is how long a queue's entering read-behind is not logged again: one that goes
// in and out would fill the log.
const readBehindLogInterval = 10 * time.Second

// logState logs that q has left read-behind, if its entering was logged.
func (s *spool) logState(q *queue, left bool) {
	if !left {
		return
	}
	q.shard.mu.Lock()
	logged := q.backlog != nil && q.backlog.leaveLogged
	if logged {
		q.backlog.leaveLogged = false
	}
	q.shard.mu.Unlock()
	if logged {
		s.e.log.Info("queue leaves read-behind", "queue", q.name)
	}
}

// errNoFile puts a spill off until the writer of another run is closed.
var errNoFile = errors.New("no file descriptor is left for another backlog file")

// starve has q wait for a descriptor, to be spilled then. The caller holds writeMu.
func (s *spool) starve(q *queue, b *backlog) {
	q.shard.mu.Lock()
	waits := !b.queuedSpill // else it has been asked for again, and its turn comes
	b.queuedSpill = true
	q.shard.mu.Unlock()
	if waits {
		s.mu.Lock()
		s.starved = append(s.starved, q)
		s.mu.Unlock()
	}
	s.feed()
}

// endOldest ends the runs that were written to longest ago, until one more may grow. The caller holds writeMu.
func (s *spool) endOldest() {
	for len(s.writers) >= s.e.files.Growing() {
		s.endRun(s.writers[0])
		s.writers = append(s.writers[:0], s.writers[1:]...)
	}
}
