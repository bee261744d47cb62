package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

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
// could. The caller holds recordMu.
func (s *spool) replaceThinned(job *thinJob, fresh *run) bool {
	q, b, r := job.q, job.b, job.run
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	i := slices.Index(b.runs, r)
	if q.backlog != b || b.epoch != job.epoch || i < 0 || !q.mayThin(r) {
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
