package engine

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kestrelmq/kestrel/segment"
)

// spillJob is what is being written to a queue's backlog outside of the shard's lock.
type spillJob struct {
	b      *backlog
	epoch  uint64
	chunks []*chunk
	ends   []int64 // offset behind the frame of each chunk
	start  int64   // offset of the first frame
	run    *run
	isNew  bool // run is not among those of the backlog yet
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
	entered := b.entered
	b.entered = false
	q.shard.mu.Unlock()
	if entered {
		s.e.log.Info("queue enters read-behind", "queue", q.name)
	}
	err := s.writeChunks(q, b)
	s.settle(q, b)
	s.note(q, errors.Join(err, s.reclaim(q, b))) // tend tries again
}

// note logs what failed, once until something succeeds.
func (s *spool) note(q *queue, err error) {
	if err == nil {
		s.failing.Store(false)
		return
	}
	if errors.Is(err, syscall.ENOSPC) {
		s.e.journal.noDisk.Store(true)
	}
	if !s.failing.Swap(true) && !s.e.closed.Load() {
		s.e.log.Error("spill to backlog", "queue", q.name, "err", err)
	}
}

// writeChunks writes a batch of leaving chunks to the growing run, or to a new one.
func (s *spool) writeChunks(q *queue, b *backlog) error {
	job, ok := takeJob(q, b)
	if !ok {
		return nil
	}
	err := s.openWriter(q, &job)
	if err == nil {
		err = s.write(&job)
	}
	if err != nil {
		s.putBack(q, &job)
		return err
	}
	s.publish(q, &job)
	return nil
}

// takeJob takes a batch of chunks to be written.
func takeJob(q *queue, b *backlog) (job spillJob, ok bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	job = spillJob{b: b, epoch: b.epoch, run: b.growing}
	for size := 0; b.leaving.count > 0 && size < spillBatch; {
		c := b.leaving.detach()
		size += len(c.buf) - c.off
		b.writing += c.count
		job.chunks = append(job.chunks, c)
	}
	return job, len(job.chunks) > 0
}

// openWriter sees to it that the backlog's writer is that of the job's run, which it makes if there
// is none.
func (s *spool) openWriter(q *queue, job *spillJob) error {
	b := job.b
	if b.writer != nil && b.writes == job.run {
		s.writers = append(slices.DeleteFunc(s.writers, func(o *queue) bool { return o == q }), q)
		return nil
	}
	s.closeWriter(q, b)
	for len(s.writers) >= maxOpenRuns {
		s.closeWriter(s.writers[0], s.writers[0].backlog)
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	number := s.lastRun.Add(1)
	w, err := segment.CreateRun(s.fs, runPath(s.dir, number), number)
	if err != nil {
		return err
	}
	job.run, job.isNew = &run{path: w.Path(), id: w.ID()}, true
	b.writer, b.writes = w, job.run
	s.writers = append(s.writers, q)
	return nil
}

// closeWriter records what the backlog's writer wrote and closes it; its run grows no more.
func (s *spool) closeWriter(q *queue, b *backlog) {
	if b.writer != nil {
		s.record(q, b)
		s.dropWriter(q, b)
	}
}

// dropWriter closes the backlog's writer.
func (s *spool) dropWriter(q *queue, b *backlog) {
	q.shard.mu.Lock()
	if b.growing == b.writes {
		b.growing = nil
	}
	q.shard.mu.Unlock()
	b.writer.Close() // what is to last has been synced
	b.writer, b.writes = nil, nil
	s.writers = slices.DeleteFunc(s.writers, func(o *queue) bool { return o == q })
}

// write writes the chunks of a job, one frame each.
func (s *spool) write(job *spillJob) error {
	w := job.b.writer
	job.start = w.End()
	for _, c := range job.chunks {
		tag := frameTag{c.firstID, c.lastID, c.count, c.bytes}
		w.Add(s.coder, tag.encode(), c.buf[c.off:])
		job.ends = append(job.ends, w.End()+int64(w.Buffered()))
	}
	err := w.Write()
	if err != nil {
		w.Discard()
	}
	return err
}

// putBack has the chunks of a job that failed leave once more, before the others.
func (s *spool) putBack(q *queue, job *spillJob) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	b := job.b
	for _, c := range job.chunks {
		b.writing -= c.count
	}
	if b.epoch != job.epoch {
		job.giveChunks(q)
		return
	}
	var all window
	for _, c := range job.chunks {
		all.attach(c)
	}
	all.join(&b.leaving)
	b.leaving = all
}

func (job *spillJob) giveChunks(q *queue) {
	for _, c := range job.chunks {
		q.shard.pool.give(c)
	}
}

// publish makes the chunks that were written part of the backlog, keeps those in memory that come
// next in the window and have room there, and gives the others back.
func (s *spool) publish(q *queue, job *spillJob) {
	now, sh, b := s.now(), q.shard, job.b
	sh.mu.Lock()
	for _, c := range job.chunks {
		b.writing -= c.count
	}
	if b.epoch != job.epoch {
		if job.isNew {
			b.spent = append(b.spent, job.run)
		}
		job.giveChunks(q)
		sh.mu.Unlock()
		return
	}
	if job.isNew {
		b.runs = append(b.runs, job.run)
		b.growing = job.run
	}
	at := job.start
	for i, c := range job.chunks {
		job.run.written.add(frameTag{c.firstID, c.lastID, c.count, c.bytes}, job.ends[i])
		q.writtenTo = c.lastID
		s.e.place(q, c, place{job.run, at, c.firstID})
		at = job.ends[i]
	}
	left := s.e.arrived(q, now)
	moves := sh.takeMoves()
	sh.mu.Unlock()
	s.e.finishMoves(now, moves)
	s.logState(q, left)
}

// place puts a chunk that has been written into the window, or gives it back and leaves it on disk.
func (e *Engine) place(q *queue, c *chunk, at place) {
	b := q.backlog
	fits := q.window.bytes+c.bytes <= q.frontLimit() && !e.memoryShort()
	if b.onDisk == 0 && fits {
		b.count -= c.count
		b.bytes -= c.bytes
		b.nextID = c.lastID + 1
		q.window.attach(c)
		return
	}
	if b.onDisk == 0 {
		b.next = at
	}
	b.onDisk += c.count
	q.shard.pool.give(c)
}

// arrived is called when items may have come into the window, or have left the backlog for another
// reason: it serves those who wait, and leaves read-behind if nothing is behind any more, which it
// then reports. The caller holds the shard's mutex, and finishes the moves.
func (e *Engine) arrived(q *queue, now Time) (left bool) {
	if q.waiters.head != nil {
		e.serve(q, now)
	}
	b := q.backlog
	if b == nil || !b.inReadBehind {
		return false
	}
	if b.count > 0 {
		if q.waiters.head != nil {
			e.wantFill(q)
		}
		return false
	}
	e.leaveReadBehind(q)
	if q.waiters.head != nil {
		e.serve(q, now)
	}
	return true
}

// settle records what was written to a run that has ended, or when it is time, and ends runs that
// are large enough. The caller holds writeMu.
func (s *spool) settle(q *queue, b *backlog) {
	if b.writer == nil {
		return
	}
	q.shard.mu.Lock()
	growing, due, more := b.growing == b.writes, b.recordDue, b.leaving.count > 0
	unrecorded := b.writes.written.end - max(b.writes.recorded.end, segment.RunStart)
	full := b.writes.written.end >= min(max(b.bytes/16, minRunSize), maxRunSize)
	if more {
		s.wantSpill(q)
	}
	q.shard.mu.Unlock()
	if due || full || !growing || unrecorded >= recordEvery {
		s.record(q, b)
	}
	if !growing || full || b.stuck {
		s.dropWriter(q, b)
	}
}

// record syncs what the backlog's writer wrote and has the journal say so. From then on the
// journal's own copy of those items is not needed. The caller holds writeMu.
func (s *spool) record(q *queue, b *backlog) {
	r, sh := b.writes, q.shard
	sh.mu.Lock()
	b.recordDue = false
	state, epoch := r.written, b.epoch
	skip := !q.opts.KeepJournal || q.deleted || r.recorded.end == state.end || !slices.Contains(b.runs, r)
	sh.mu.Unlock()
	if skip || b.stuck {
		return
	}
	if err := b.writer.Sync(); err != nil {
		b.stuck = true
		s.e.log.Error("sync backlog: the journal keeps what follows, until the next start",
			"queue", q.name, "err", err)
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.epoch == epoch {
		s.e.recordSynced(q, r, state)
	}
}

// recordSynced has the journal say that a run of q is synced as far as state says. The caller holds the
// shard's mutex.
func (e *Engine) recordSynced(q *queue, r *run, state runState) {
	r.recorded = state
	e.journal.spill(q, r)
	if q.headID() > q.spilledTo+1 {
		// Some were handed out meanwhile. That they are gone may stand in a segment that is dropped
		// before this record is; and the place of those that are open is in the run now.
		e.recordGone(q)
		for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
			for read := list.head; read != nil; read = read.next {
				if id := read.item.ID; id > q.spilledTo && state.holds(id) {
					read.segment = 0
				}
			}
		}
	}
	q.spilledTo = max(q.spilledTo, state.lastID)
	q.trimSegments()
}

// whenSynced calls f with the shard of q locked when nothing is on its way to the backlog and its runs
// are synced. It waits for the disk, and returns the error that keeps it from calling f.
func (s *spool) whenSynced(q *queue, f func()) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	sh := q.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := q.backlog
	if b == nil {
		f()
		return nil
	}
	b.hold = true
	defer func() { b.hold = false }()
	for b.leaving.count > 0 {
		sh.mu.Unlock()
		err := s.writeChunks(q, b)
		sh.mu.Lock()
		if err != nil {
			return err
		}
	}
	runs := slices.Clone(b.runs) // no others come about, as long as writeMu is held
	sh.mu.Unlock()
	err := s.syncRuns(runs)
	sh.mu.Lock()
	if err == nil {
		b.hold = false
		f()
	}
	return err
}

// syncRuns makes runs durable that were not meant to be, because their queue was not in the journal.
func (s *spool) syncRuns(runs []*run) error {
	for _, r := range runs {
		f, err := s.fs.Open(r.path)
		if err == nil {
			err = errors.Join(f.Datasync(), f.Close())
		}
		if err != nil {
			return fmt.Errorf("sync run: %w", err)
		}
	}
	return s.fs.SyncDir(s.dir)
}

// reclaim removes the files of spent runs. What the journal says about their items is synced first,
// and open reads whose place is in one are recorded in the journal: a restart must not look for them
// in a run that is not there. The caller holds writeMu.
func (s *spool) reclaim(q *queue, b *backlog) error {
	sh := q.shard
	sh.mu.Lock()
	spent := slices.Clone(b.spent)
	if len(spent) > 0 && q.opts.KeepJournal && !q.deleted {
		s.e.keepReads(q, spent)
	}
	sh.mu.Unlock()
	if b.writer != nil && slices.Contains(spent, b.writes) {
		s.dropWriter(q, b)
	}
	if len(spent) > 0 {
		if err := s.e.journal.sync(s.e.journal.appendedEnd()); err != nil {
			return err
		}
	}
	for _, r := range spent {
		s.closeReader(r)
		if err := s.remove(r); err != nil {
			return err
		}
		sh.mu.Lock()
		b.spent = slices.DeleteFunc(b.spent, func(o *run) bool { return o == r })
		sh.mu.Unlock()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	idle := !b.inReadBehind && len(b.runs) == 0 && len(b.spent) == 0 && !b.queuedSpill && !b.queuedFill
	if idle && b.writing == 0 && b.writer == nil {
		q.backlog = nil
		s.unregister(q)
	}
	return nil
}

// keepReads records open reads whose place is in one of the runs in the journal.
func (e *Engine) keepReads(q *queue, runs []*run) {
	for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
		for r := list.head; r != nil; r = r.next {
			if r.segment != 0 {
				continue
			}
			in := func(o *run) bool { return o.recorded.count > 0 && o.recorded.holds(r.item.ID) }
			if slices.ContainsFunc(runs, in) {
				r.segment = e.journal.keep(q, r.item)
			}
		}
	}
}

// logState tells the operator that q has left read-behind.
func (s *spool) logState(q *queue, left bool) {
	if left {
		s.e.log.Info("queue leaves read-behind", "queue", q.name)
	}
}
