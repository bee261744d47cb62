package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// This file is the recording side of the spool. It syncs runs, records them, and removes them. It also writes a run
// again without what is gone.

// record does for q what there is to do on the recording side.
func (s *spool) record(q *queue) {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	q.shard.mu.Lock()
	b := q.backlog
	if b != nil {
		b.queuedRecord = false
	}
	if b == nil || q.crossing { // endCrossing asks again
		q.shard.mu.Unlock()
		return
	}
	s.e.retire(q) // what was removed by its id has not been popped
	due, all := b.recordDue, slices.DeleteFunc(slices.Clone(b.runs), func(r *run) bool { return r.writer == nil && !r.broken })
	b.recordDue = false
	q.shard.mu.Unlock()
	for _, r := range all { // oldest first: what is recorded leaves no gap
		if !s.recordRun(q, b, r, due) || !s.mended(q, b, r) {
			break
		}
	}
	if err := s.reclaim(q, b); err != nil && !s.e.journal.Failing() {
		s.e.report("backlog: used-up files could not be removed; trying again", err) // tend tries again
	}
}

// recordRun syncs what has been written to a run and has the journal say so, if that is due or the run grows no more.
// In the latter case it closes the run's writer. From then on the journal's own copy of those items is not needed. It
// reports false if it could not try the sync. Then the writer stays open, nothing behind r may be recorded before it,
// and tend asks again. The caller holds recordMu.
func (s *spool) recordRun(q *queue, b *backlog, r *run, due bool) (tried bool) {
	sh := q.shard
	sh.mu.Lock()
	w, state, epoch, ended := r.writer, r.written, b.epoch, r != b.growing
	unrecorded := state.End - max(r.recorded.End, segment.RunStart)
	wanted := r.recorded.End != state.End && q.inJournal() && !r.broken &&
		(due || ended || unrecorded >= recordEvery)
	sh.mu.Unlock()
	if w == nil {
		return true
	}
	if wanted {
		began := time.Now()
		err := s.dir.Sync(w, s.nameInDoubt(r))
		s.stats.took(&s.stats.syncs, began)
		if segment.OutOfFiles(err) {
			s.e.log.Error("backlog could not be synced: no file descriptor is left; trying again", "queue", q.name, "err", err)
			return false
		}
		if err == nil {
			s.e.tellGone(q, state.LastID)
		}
		sh.mu.Lock()
		switch {
		case err != nil:
			b.breakRun(r)
		case b.epoch == epoch && slices.Contains(b.runs, r) && q.inJournal():
			s.e.recordSynced(q, r, state)
		}
		sh.mu.Unlock()
		q.letGoOf()
		if err != nil {
			s.e.log.Error("backlog could not be synced: its unsynced items go to another file",
				"queue", q.name, "err", err)
		}
	}
	if ended {
		s.closeWriter(q, r)
	}
	return true
}

// closeWriter closes the writer of a run that grows no more, unless a last batch is being written.
func (s *spool) closeWriter(q *queue, r *run) (closed bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if b := q.backlog; r.busy || b != nil && b.growing == r {
		return false // addBatch or putBack asks again
	}
	if r.writer != nil {
		r.writer.Close() // what is to last has been synced
		r.writer = nil
		s.writerClosed()
	}
	return true
}

// tellGone records, in pieces, what is gone of a run of q that is about to be recorded up to the item last. Some were
// handed out meanwhile, or gone before they were written. Their removals may stand in a segment that is dropped before
// the record of the run is. From now on checkpoints record it too. The caller holds recordMu.
func (e *Engine) tellGone(q *queue, last uint64) {
	q.shard.mu.Lock()
	ids := idset.Between(q.spilledTo+1, last)
	needed := q.inJournal() && ids.First <= ids.Last
	q.spilled = q.spilled || needed
	t := telling{e: e, q: q, number: q.number, yield: func(int64) bool { e.pause(); return true }}
	gone := q.beginGone(needed)
	q.shard.mu.Unlock()
	if all := gone.end(); needed {
		t.ranges(all.Within(ids))
	}
}

// recordSynced has the journal say that a run of q is synced as far as state says. Behind tellGone that takes one
// record. The caller holds the shard's mutex, and then calls letGoOf.
func (e *Engine) recordSynced(q *queue, r *run, state runs.State) {
	r.recorded = state
	e.recordSpilled(q, r)
	if q.headID() > q.spilledTo+1 { // some of them have been taken
		q.letting = r
	}
	q.spilledTo = max(q.spilledTo, state.LastID)
	q.trimSegments()
}

// letGoOf unpins, in pieces, the segments of reads whose items are in the run that was just recorded. A read that
// leaves its list before lets go of its segment then.
func (q *queue) letGoOf() {
	var at readCursor
	processor.InPieces(&q.shard.mu, processor.Yield, func() (more bool) {
		if more = q.letting != nil && q.letGoOfSome(&at); !more {
			q.letting = nil
		}
		return more
	})
}

func (q *queue) letGoOfSome(at *readCursor) (more bool) {
	seen := 0
	for read := range at.reads(q, &q.returned, &q.open, &q.moving) {
		read.letGo()
		if seen++; seen == readBatch {
			return true // the next piece looks at the last one again
		}
	}
	return false
}

// enterRounds is how often whenSynced writes what a queue was given while the spool wrote and synced what was there.
// A client may put faster than the disk takes; then the rest goes to the journal.
const enterRounds = 8

// whenSynced calls f with the shard of q locked when nothing is on its way to the backlog and its
// runs are synced. It waits for the disk, and returns the error that keeps it from calling f.
//
// f copies what is in memory alone to the journal, with the shard locked. So whenSynced writes the queue to its backlog
// before, up to smallBytes.
func (s *spool) whenSynced(q *queue, f func()) error {
	s.freeWriters()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	sh := q.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for round := 0; ; round++ {
		if round < enterRounds && !q.deleted && q.isLong() {
			s.e.spillAll(q, false)
		}
		b := q.backlog
		if b == nil || round > 0 && b.leaving.Count == 0 {
			f()
			return nil
		}
		if err := s.writeSynced(q, b); err != nil {
			return err
		}
	}
}

// writeSynced writes what leaves q to its backlog, and syncs the runs. It unlocks the shard meanwhile. When it
// returns, nothing is on its way to them. The caller holds writeMu, recordMu and the shard's mutex.
func (s *spool) writeSynced(q *queue, b *backlog) error {
	sh := q.shard
	b.hold = true
	defer func() { b.hold = false }()
	for b.leaving.Count > 0 {
		sh.mu.Unlock()
		_, err := s.writeChunks(q, b)
		sh.mu.Lock()
		if err != nil {
			return err
		}
	}
	all := slices.Clone(b.runs) // no others come about, as long as writeMu is held
	sh.mu.Unlock()
	defer sh.mu.Lock()
	if err := s.syncRuns(q, b, all); err != nil {
		return err
	}
	for _, r := range all { // the next round makes others
		s.closeWriter(q, r)
	}
	return nil
}

// syncRuns makes runs durable, whether they were meant to be or not. Those that are recorded to
// their end are durable already: a sync that fails would put nothing of them in doubt.
func (s *spool) syncRuns(q *queue, b *backlog, all []*run) error {
	breakRun := func(r *run) { // another sync would prove nothing
		q.shard.mu.Lock()
		b.breakRun(r)
		q.shard.mu.Unlock()
	}
	for _, r := range all {
		if s.nameInDoubt(r) {
			breakRun(r)
		}
		if r.broken { // changed only with recordMu held
			if err := s.rewrite(q, b, r); err != nil {
				return err
			}
			continue
		}
		if r.recorded.End == r.written.End {
			continue
		}
		f, err := s.fs.Open(r.Path)
		if err != nil {
			return fmt.Errorf("sync backlog file: %w", err)
		}
		err = f.Datasync()
		if err := errors.Join(err, f.Close()); err != nil {
			breakRun(r)
			return fmt.Errorf("sync backlog file: %w", err)
		}
	}
	return s.dir.SyncNames()
}

// reclaim removes the files of spent runs. What the journal says about their items is synced first. It records open
// reads whose place is in such a run, because a restart must not look for them in a file that is gone. The caller
// holds recordMu.
func (s *spool) reclaim(q *queue, b *backlog) error {
	sh := q.shard
	sh.mu.Lock()
	spent := slices.Clone(b.spent)
	sh.mu.Unlock()
	// The journal may have to wait; their descriptors need not.
	spent = slices.DeleteFunc(spent, func(r *run) bool { return !s.closeWriter(q, r) })
	if s.e.backing.Runs.Load() {
		return nil // tend asks again
	}
	spent, end := s.e.forgo(q, spent)
	if err := s.e.journal.Sync(end); err != nil {
		return err
	}
	var err error
	for i := 0; i < len(spent) && err == nil; i++ {
		s.closeReader(spent[i].File)
		err = s.dir.Remove(spent[i].Path)
		spent[i].removed = err == nil
	}
	sh.mu.Lock()
	b.spent = slices.DeleteFunc(b.spent, func(r *run) bool { return r.removed })
	sh.mu.Unlock()
	if err == nil {
		err = s.removeMarks(q, b)
	}
	if err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !b.inReadBehind && !b.overfull && !b.back && len(b.runs)+len(b.spent) == 0 && !b.spilling && b.marks == nil &&
		len(b.spentMarks) == 0 {
		q.backlog = nil
		s.queues.Remove(q)
	}
	return nil
}

// freeWriters ends runs, and records them, until one more can be written, if that can be done now. No lock is held.
func (s *spool) freeWriters() {
	s.writeMu.Lock()
	s.endOldest()
	s.writeMu.Unlock()
	for s.openWriters.Load() >= int64(s.e.files.Writers) {
		q := s.records.Take()
		if q == nil {
			return
		}
		s.record(q)
	}
}

// breakRun notes that a sync of r failed. The caller holds the shard's mutex.
func (b *backlog) breakRun(r *run) {
	if r.broken = true; b.growing == r {
		b.growing = nil
	}
}

// mended writes what is in doubt of a run to another one, if a sync of it failed. It reports false if that did not
// succeed: then the journal keeps what is in that run and behind it, and tend tries again. The caller holds recordMu.
func (s *spool) mended(q *queue, b *backlog, r *run) bool {
	if !r.broken {
		return true
	}
	err := s.rewrite(q, b, r)
	if err != nil && err != errBeingWritten && !s.e.journal.Failing() {
		s.e.report("backlog: unsynced items could not be written to another file; trying again", fmt.Errorf("queue %q: %w", q.name, err))
	}
	return err == nil
}

// errBeingWritten puts a rewrite off: a last batch is on its way to the run.
var errBeingWritten = errors.New("backlog file is being written")

// rewrite copies what was not synced of a run of q to a new one, which it syncs, and puts that in its place. Checksums
// show whether the bytes can still be read. The caller holds recordMu.
func (s *spool) rewrite(q *queue, b *backlog, r *run) error {
	sh := q.shard
	sh.mu.Lock()
	from, end, epoch := max(r.recorded.End, segment.RunStart), r.written.End, b.epoch
	busy, mode := r.busy, s.runIO(q)
	sh.mu.Unlock()
	if busy {
		return errBeingWritten
	}
	old := runs.NewReader(s.fs, s.e.newReadAhead(), 1)
	defer old.Close()
	fresh := &run{}
	made, err := s.dir.Make(mode, nil, func(w *segment.RunWriter) (err error) {
		fresh.written, err = old.Copy(w, s.e.opts.BacklogCompression, r.File, from, end, spillBatch)
		return err
	})
	if err != nil {
		return err
	}
	fresh.File, fresh.made = made.File, made.Birth
	s.e.tellGone(q, fresh.written.LastID)
	sh.mu.Lock()
	if b.epoch != epoch || !slices.Contains(b.runs, r) { // nobody needs either any more
		b.spent = append(b.spent, fresh)
	} else if b.replace(r, fresh); q.inJournal() {
		s.e.recordSynced(q, fresh, fresh.written)
	}
	sh.mu.Unlock()
	q.letGoOf()
	return nil
}

// replace puts fresh, which holds what is not durable of r, behind r, or in its place. What is read next of r may be
// behind what r has then: fill goes on by its id. The caller holds the shard's mutex.
func (b *backlog) replace(r, fresh *run) {
	i := slices.Index(b.runs, r)
	r.written, r.broken = r.recorded, false
	if r.recorded.End > 0 {
		b.runs = slices.Insert(b.runs, i+1, fresh)
		return
	}
	b.runs[i] = fresh
	b.spent = append(b.spent, r)
}

// When much has been removed from the middle of a run, the spool writes the run again without that, to free room on the
// disk. The new file has a higher number and the same live items. What it leaves out is gone, as the journal says.

const (
	// thinShare is the part of a run, one in so many of its items, that is gone when it is written again at once.
	// thinQuietShare is that part when nothing has been removed from it for quietTends looks.
	thinShare, thinQuietShare, quietTends = 2, 4, 10
	// thinRetry is how long a queue is left alone in which that failed.
	thinRetry = 10 * time.Second
	// leavePiece is how many keys are forgotten, and thinPiece how many runs looked at, before the shard is unlocked.
	leavePiece, thinPiece = 256, 1024
)

// thinning is what a run knows of what is gone of it. The shard's mutex guards it.
type thinning struct {
	gone  uint64 // of its items, when tend looked last
	quiet int    // looks since that changed
}

// mayThin reports whether nothing of r has been read, or is being written, and the journal has all of it.
func (q *queue) mayThin(r *run) bool {
	b := q.backlog
	return q.inJournal() && !q.crossing && b.inReadBehind && r != b.growing && r != b.next.Run && r.writer == nil && !r.busy && !r.broken &&
		r.recorded.End > 0 && r.recorded == r.written && r.written.FirstID > b.nextID && b.onDisk > 0
}

// lookThin notes what is gone of the runs of q, in pieces, and asks for one to be written again if one is to be.
func (s *spool) lookThin(q *queue) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	b := q.backlog
	if b == nil || b.gone.IsEmpty() || s.now() < b.thinAt {
		return
	}
	for i := 0; i < len(b.runs) && q.backlog == b; i++ {
		if r := b.runs[i]; q.mayThin(r) {
			gone := r.written.Gone(&b.gone)
			if r.thin.quiet++; gone != r.thin.gone {
				r.thin = thinning{gone: gone}
			}
			if b.isThin(r) {
				b.thin = true
				s.wantRecord(q)
			}
		}
		if i%thinPiece == thinPiece-1 {
			q.shard.mu.Unlock()
			s.e.opts.yield()
			q.shard.mu.Lock()
		}
	}
}

// isThin reports whether enough of r is gone for it to be written again.
func (b *backlog) isThin(r *run) bool {
	gone, count := r.written.Gone(&b.gone), uint64(r.written.Count)
	return gone*thinShare >= count || r.thin.quiet >= quietTends && gone*thinQuietShare >= count
}

// recordAndThin does for q what there is to do on the recording side, and writes one run again if one is to be.
func (s *spool) recordAndThin(q *queue) {
	s.record(q)
	s.thinOut(q)
}

// thinOut writes one run of q again, if one of a piece is to be, and asks for the next.
func (s *spool) thinOut(q *queue) {
	q.shard.mu.Lock()
	b := q.backlog
	if b == nil || !b.thin {
		q.shard.mu.Unlock()
		return
	}
	some := b.runsFrom(b.thinFrom)
	b.thin = len(some) > thinPiece
	some = some[:min(len(some), thinPiece)]
	i := slices.IndexFunc(some, func(r *run) bool { return q.mayThin(r) && b.isThin(r) })
	if i < 0 {
		if b.thinFrom = 0; b.thin {
			b.thinFrom = some[len(some)-1].written.LastID + 1
			s.wantRecord(q)
		}
		q.shard.mu.Unlock()
		return
	}
	b.thin, b.thinFrom = false, some[i].written.LastID+1
	job := thinJob{q: q, b: b, run: some[i], epoch: b.epoch, io: s.runIO(q), seed: q.keySeed()}
	b.beginThin(&job)
	q.shard.mu.Unlock()
	err := s.thinRun(&job)
	if err != nil && !s.e.journal.Failing() && !s.e.closed.Load() {
		s.e.report("backlog: files could not be rewritten without removed items; trying again", fmt.Errorf("queue %q: %w", q.name, err))
	}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err != nil {
		b.thinAt, b.thinFrom = s.now().After(thinRetry), 0
	} else if q.backlog == b && !q.deleted {
		b.thin = true
		s.wantRecord(q)
	}
}

// thinJob is a run that is being written again.
type thinJob struct {
	q     *queue
	b     *backlog
	run   *run
	epoch uint64
	io    segment.IO

	seed *keyindex.Seed // of the queue's keys; nil without any

	gone, unsized idset.Bitmap     // as they were before
	leftOut       int64            // bytes of what was unsized, and is left out
	left          []keyindex.Entry // keys of what is left out
}

// beginThin notes for a job what is gone of its run.
func (b *backlog) beginThin(job *thinJob) {
	ids := job.run.written.IDs()
	job.gone, job.unsized = b.gone.Part(ids), b.unsized.Part(ids)
}

// thinRun writes what lives of the run of a job to another one, and has that take its place. It takes recordMu.
func (s *spool) thinRun(job *thinJob) error {
	reader := runs.NewReader(s.fs, s.e.newReadAhead(), 1)
	defer reader.Close()
	fresh, err := (*run)(nil), error(nil)
	if r := job.run; uint64(r.written.Count) > r.written.Gone(&job.gone) {
		fresh, err = s.writeThinned(job, reader)
	} else if job.seed != nil || job.unsized.Count(r.written.IDs()) > 0 {
		err = reader.Each(r.File, r.written.End, job.drop)
	}
	if err != nil {
		job.q.shard.mu.Lock()
		defer job.q.shard.mu.Unlock()
		if !slices.Contains(job.b.runs, job.run) { // it is spent, and its file may be gone
			return nil
		}
		return err
	}
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	used := s.replaceThinned(job, fresh)
	if !used && fresh != nil {
		return s.dir.Remove(fresh.Path)
	}
	for some := range slices.Chunk(job.left, leavePiece) {
		job.q.shard.mu.Lock()
		for _, e := range some {
			if job.q.keys != nil && job.q.locate(e.ID).where == nowhere {
				job.q.keys.Delete(e.Hash, e.ID)
			}
		}
		job.q.shard.mu.Unlock()
	}
	return nil
}

// drop notes an item that is left out.
func (job *thinJob) drop(it Item) {
	if job.unsized.Has(it.ID) {
		job.leftOut += int64(len(it.Data))
	}
	if job.seed != nil && it.HasKey() {
		job.left = append(job.left, keyindex.Entry{Hash: job.seed.Hash(it.Key()), ID: it.ID})
	}
}

// writeThinned makes the new file of a job, and syncs it.
func (s *spool) writeThinned(job *thinJob, reader *runs.Reader) (fresh *run, err error) {
	coder := segment.NewCoder(s.e.opts.BacklogCompression)
	defer coder.Close()
	fresh = &run{extended: job.run.extended}
	made, err := s.dir.Make(job.io, &s.recordMu, func(w *segment.RunWriter) (err error) {
		packer := runs.Packer{W: w, Coder: coder, Keys: keyindex.Gatherer{Seed: job.seed}}
		fresh.written, err = reader.Thin(&packer, job.run.File, job.run.written.End, &job.gone, job.drop)
		return err
	})
	fresh.File, fresh.made, fresh.recorded = made.File, made.Birth, fresh.written
	return fresh, err
}

// replaceThinned puts fresh, which is nil if nothing lives, in the place of the run of a job, and reports whether it
// could. It does not if somebody has seen meanwhile how large something is that is left out, and has counted that. The
// caller holds recordMu.
func (s *spool) replaceThinned(job *thinJob, fresh *run) bool {
	q, b, r := job.q, job.b, job.run
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	i := slices.Index(b.runs, r)
	job.unsized.RemoveAll(&b.unsized)
	if q.backlog != b || b.epoch != job.epoch || i < 0 || !q.mayThin(r) || !job.unsized.IsEmpty() {
		return false
	}
	if fresh == nil {
		b.runs = slices.Delete(b.runs, i, i+1)
	} else {
		b.runs[i] = fresh
		s.e.recordSpilled(q, fresh)
	}
	b.spent = append(b.spent, r)
	b.unsized.RemoveAll(&job.gone)
	b.bytes -= job.leftOut
	s.wantRecord(q)
	return true
}
