package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// This file writes hidden runs, writes them again, and reads them back; hidden.go says when.

const (
	// hideRun is how many bytes of items a hidden run gets at most. hidePiece is how many items the engine looks at, and
	// hideBytes how many bytes it copies, about, before it unlocks the shard.
	hideRun   = 32 << 20
	hidePiece = 128
	hideBytes = 64 << 10
	// quietShare is how far away the last item of a run must be due for the run to be written again, in times of
	// readBack. Other runs go as a whole in a moment, with what is gone of them.
	quietShare = 20
)

// hideJob is a hidden run that is being written.
type hideJob struct {
	q     *queue
	run   *hidden.Run
	io    segment.IO
	until Time // items that are due earlier stay
	left  int  // of what is aside, so many are still to be looked at
	old   []*hidden.Run
	large hidden.Entry // is to be added when the shard is unlocked; no id: none
}

// hide writes delayed items of q to a hidden run, and again what lives of runs that are mostly gone.
func (s *spool) hide(q *queue) {
	s.hideMu.Lock()
	defer s.hideMu.Unlock()
	q.shard.mu.Lock()
	h := &q.aside.hidden
	urgent := h.urgent
	h.queuedHide, h.urgent = false, false
	q.shard.mu.Unlock()
	hid, err := s.hideDelayed(q, urgent)
	if err == nil {
		err = s.hideAgain(q)
	}
	s.reportOnce("delayed items could not be written to disk: they stay in memory", q, err, &s.hideFailing)
	now := s.e.precise.Now()
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err != nil || !hid {
		h.retryAt = now.After(hideRetry)
	} else if !q.deleted {
		s.e.hideMany(q) // there may be more than a run takes
	}
}

// hideDelayed writes a run of delayed items of q that are in no run. It reports whether there were any that are
// worth it. The caller holds hideMu.
func (s *spool) hideDelayed(q *queue, urgent bool) (hid bool, err error) {
	job, ok := s.beginHide(q, func(*hideJob) bool { return true })
	if !ok {
		return false, nil
	}
	defer s.endBatch()
	most := int64(0)
	for more := true; more && !s.hideBatch.Full(hideRun); s.accountBatch() {
		q.shard.mu.Lock()
		more, most = s.gather(job), q.opts.MaxMemorySize
		q.shard.mu.Unlock()
		if job.large.ID != 0 {
			s.hideBatch.Add(job.large)
			job.large = hidden.Entry{}
		}
	}
	t := s.hideBatch.Tally()
	worth := t.Bytes+delayedOverhead*t.Count >= most/smallShare || urgent
	if t.Count == 0 || !worth {
		s.dropJob(job)
		return false, nil
	}
	return true, s.writeHidden(job)
}

// beginHide makes a job whose run is among those of q, if q exists and choose says so.
func (s *spool) beginHide(q *queue, choose func(*hideJob) bool) (job *hideJob, ok bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	job = &hideJob{q: q, io: s.runIO(q), until: s.e.precise.Now() + 2*s.e.readBack, left: q.aside.Len()}
	if q.deleted || !choose(job) {
		return nil, false
	}
	job.run = hidden.NewRun(s.dir.File(segment.RunID{Number: s.dir.Last.Add(1)}))
	q.aside.hidden.Add(job.run)
	s.registerHidden(q)
	return job, true
}

// gather adds to the batch delayed items that are in no run, and reports whether there may be more. It leaves a large
// one, which ends the piece, to the caller: nobody changes its memory. It walks from the last item down: the last
// takes the place of what is removed, and was visited or added since. The caller holds the shard's mutex.
func (s *spool) gather(job *hideJob) (more bool) {
	a := job.q.aside
	job.left = min(job.left, a.Len())
	full := s.hideBatch.Tally().Bytes + hideBytes
	for n := 0; job.left > 0 && n < hidePiece && s.hideBatch.Tally().Bytes < full && job.large.ID == 0; n++ {
		job.left--
		ref := aside.Ref(job.left)
		entry, it := a.Get(ref), a.Item(ref)
		if a.IsDropped(ref) || entry.State != aside.Delayed || entry.Token != 0 || entry.Due <= job.until || a.hidden.Find(it.ID) != nil ||
			s.hideBatch.Has(it.ID) { // it was changed since, and comes again
			continue
		}
		e := hidden.Entry{Item: it, Due: entry.Due, Count: entry.Count}
		if it.HasOwnMemory() {
			job.large = e
		} else {
			s.hideBatch.Add(e)
		}
		a.hidden.Join(job.run, it.ID, len(it.Data))
	}
	a.hidden.Account(job.run)
	return job.left > 0 && !job.q.deleted
}

// accountBatch has the ledger of memory count what the batch takes.
func (s *spool) accountBatch() {
	now := s.hideBatch.Size()
	s.e.Account(now - s.batchCounted)
	s.batchCounted = now
}

// endBatch lets go of the batch.
func (s *spool) endBatch() {
	s.hideBatch = hidden.Batch{}
	s.accountBatch()
}

// writeHidden writes the batch to the run of a job, syncs it, and makes it the place of what lives in it. Then it drops that
// from memory, also what was read back early from an old run. After an error nothing is changed.
func (s *spool) writeHidden(job *hideJob) error {
	began := time.Now()
	w, out, err := s.writeBatch(job)
	if err != nil {
		if w != nil {
			err = errors.Join(err, w.Close(), s.dir.Remove(w.Path()))
		}
		s.dropJob(job)
		return err
	}
	s.stats.took(&s.stats.spills, began)
	q, h := job.q, &job.q.aside.hidden
	q.shard.mu.Lock()
	needed := !job.run.IsDropped() && !q.deleted
	if needed {
		if job.run.ID = w.ID(); job.old == nil {
			h.Finish(job.run, out)
		} else {
			h.Replace(job.run, job.old, out)
		}
		if q.inJournal() {
			s.e.recordHidden(q, job.run)
		}
		for _, old := range job.old { // behind the record: removeSpent syncs what has been recorded when it sees them
			s.spend(old.File)
		}
	}
	q.shard.mu.Unlock()
	s.e.report("delayed items: a written file could not be closed", w.Close()) // it is synced
	if !needed {
		return s.dir.Remove(w.Path())
	}
	s.unload(job)
	return nil
}

// writeBatch makes the file of a job, and syncs it.
func (s *spool) writeBatch(job *hideJob) (w *segment.RunWriter, out hidden.Written, err error) {
	w, made, err := s.dir.CreateAs(job.run.ID.Number, job.io)
	if err != nil {
		return nil, out, err
	}
	if s.hideBatch.IsRich() {
		w.Extend(true)
	}
	job.q.shard.mu.Lock()
	seed := job.q.keySeed()
	job.q.shard.mu.Unlock()
	if out, err = s.hideBatch.Write(w, s.hideCoder, seed); err != nil {
		return w, out, err
	}
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	return w, out, s.dir.Sync(w, s.dir.InDoubt(made))
}

// dropJob forgets a run that is not written.
func (s *spool) dropJob(job *hideJob) {
	job.q.shard.mu.Lock()
	defer job.q.shard.mu.Unlock()
	job.q.aside.hidden.Drop(job.run)
}

// unload drops the items of a run that was just written from memory, in pieces. Nobody reads a frame back meanwhile, and
// sees that an item is in memory which leaves it before the frame is passed.
func (s *spool) unload(job *hideJob) {
	q, h := job.q, &job.q.aside.hidden
	for ids := range s.hideBatch.IDs(hidePiece) {
		s.readMu.Lock()
		q.shard.mu.Lock()
		soon := s.e.precise.Now() + s.e.readBack
		for _, id := range ids {
			ref, ok := q.aside.Find(id)
			if !ok || !job.run.Contains(id) {
				continue
			}
			if entry := q.aside.Get(ref); entry.State != aside.Delayed || entry.Due <= soon {
				q.lieIn(ref, 0)
				continue
			}
			size := len(q.aside.Item(ref).Data)
			q.noteTaken(id, false)
			q.dropAside(ref)
			h.Unload(job.run, id, size)
		}
		h.Account(job.run)
		s.e.setAlarm(q)
		q.shard.mu.Unlock()
		s.readMu.Unlock()
	}
}

// hideAgain writes what lives of those runs of q that are mostly gone to one run. The caller holds hideMu.
func (s *spool) hideAgain(q *queue) error {
	now, size, items := s.e.precise.Now(), int64(0), int64(0)
	var old []*hidden.Run
	s.eachHidden(q, func(r *hidden.Run) {
		n := r.Live()
		if s.isWasteful(r, now) && size+n.Bytes <= hideRun && items+n.Count <= hidden.MaxItems {
			old, size, items = append(old, r), size+n.Bytes, items+n.Count
		}
	})
	if len(old) == 0 {
		return nil
	}
	job, ok := s.beginHide(q, func(job *hideJob) bool {
		job.old = slices.DeleteFunc(old, (*hidden.Run).IsDropped)
		return len(job.old) > 0
	})
	if !ok {
		return nil
	}
	defer s.endBatch()
	for _, r := range job.old {
		if err := s.copyLiving(q, r); err != nil {
			s.dropJob(job)
			return fmt.Errorf("copy the items that are left in %s: %w", r.Path, err)
		}
	}
	if s.hideBatch.Tally().Count == 0 { // they are dropped
		s.dropJob(job)
		return nil
	}
	return s.writeHidden(job)
}

// isWasteful reports whether a run is to be written again. The caller holds the shard's mutex.
func (s *spool) isWasteful(r *hidden.Run, now Time) bool {
	if r.Err != nil || !r.MostlyGone() {
		return false
	}
	last, quiet := r.LastDue(), quietShare*s.e.readBack
	return last < now-quiet || last > now+quiet
}

// copyLiving adds to the batch what lives in a run.
func (s *spool) copyLiving(q *queue, r *hidden.Run) error {
	q.shard.mu.Lock()
	live, from := r.IDs().Clone(), r.From()
	q.shard.mu.Unlock()
	reader := hidden.Reader{Runs: runs.NewReader(s.fs, s.e.newReadAhead(), 1)}
	defer reader.Runs.Close()
	for i := from; i < len(r.Frames); i++ {
		entries, err := reader.Frame(r, i)
		if err != nil {
			q.shard.mu.Lock()
			defer q.shard.mu.Unlock()
			if r.IsDropped() { // nothing lives in it any more, and its file may be gone
				return nil
			}
			return err
		}
		for _, e := range entries {
			if live.Has(e.ID) {
				s.hideBatch.Add(e)
			}
		}
		s.accountBatch()
	}
	return nil
}

// spendRuns has the spool remove, in pieces, the files of runs in which nothing lives any more.
func (e *Engine) spendRuns(q *queue) {
	at, goes := 0, false
	processor.InPieces(&q.shard.mu, e.opts.yield, func() (more bool) {
		h := &q.aside.hidden
		if goes = goes || h.Used() || q.deleted; goes {
			var spent []runs.File
			at = h.DropSome(at, hiddenPiece, func(r *hidden.Run) bool {
				if !r.IsWriting() && (q.deleted || r.IsUsed()) { // else its writer finds that it is of no use
					spent = append(spent, r.File)
				}
				return q.deleted || r.IsUsed()
			})
			e.spool.spend(spent...)
		}
		if len(h.Runs()) == 0 && h.registered {
			h.registered = false
			e.spool.hiders.Remove(q)
		}
		return goes && at < len(h.Runs())
	})
}

// tendHidden asks for what has been left undone for hidden runs, and removes the files of those that are spent.
func (s *spool) tendHidden() {
	now := s.e.precise.Now()
	for q := range processor.InTurn(s.hiders.All(s.e.opts.yield), new(int), s.e.opts.yield) {
		h, wasteful := &q.aside.hidden, false
		s.eachHidden(q, func(r *hidden.Run) {
			if r.Err != nil && !runs.IsDamage(r.Err) {
				h.Mend(r)
			}
			wasteful = wasteful || s.isWasteful(r, now)
		})
		s.e.spendRuns(q)
		q.shard.mu.Lock()
		if !q.deleted {
			if wasteful {
				s.e.wantHide(q, false)
			}
			s.e.hideMany(q)
			h.blocked = false
			s.e.readSoon(q)
			s.e.setAlarm(q)
		}
		q.shard.mu.Unlock()
	}
	if err := s.removeSpent(); err != nil && !s.e.journal.Failing() {
		s.e.report("delayed items: used-up files could not be removed; trying again", err) // tend tries again
	}
}

// removeSpent removes the files of spent hidden runs. That nothing lives in them is made durable before.
func (s *spool) removeSpent() error {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if s.e.backing.Runs.Load() {
		return nil // tend asks again
	}
	s.mu.Lock()
	spent := slices.Clone(s.spent)
	s.mu.Unlock()
	if len(spent) == 0 {
		return nil
	}
	if err := s.e.journal.Sync(s.e.journal.End()); err != nil {
		return err
	}
	var err error
	for i, f := range spent {
		s.closeReader(f)
		if err = s.dir.Remove(f.Path); err != nil {
			spent = spent[:i]
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = slices.Delete(s.spent, 0, len(spent))
	return err
}

const (
	// unhideBatch is how many frames of a queue are read back before others have their turn. unhidePiece is how many
	// items are read back before the shard is unlocked.
	unhideBatch = 16
	unhidePiece = 128
)

// unhide reads frames of hidden runs of q back, as long as they are needed now.
func (s *spool) unhide(q *queue) {
	q.shard.mu.Lock()
	if q.aside == nil {
		q.shard.mu.Unlock()
		return
	}
	h := &q.aside.hidden
	h.queuedRead, h.reading = false, len(h.Runs()) > 0 // they may have gone meanwhile
	if !h.reading {
		q.shard.mu.Unlock()
		return
	}
	overdue := s.e.hiddenComing(q)
	q.shard.mu.Unlock()
	for range unhideBatch {
		q.shard.mu.Lock()
		wanted := s.e.mayReadBack(q)
		q.shard.mu.Unlock()
		if !wanted {
			break
		}
		s.unhideFrame(q)
	}
	now := s.now()
	q.shard.mu.Lock()
	s.e.readSoon(q)
	h.reading = false
	s.e.setAlarm(q)
	if overdue && q.waiters.First() != nil { // some may wait for what has come, or has not come
		s.e.wake(q, now)
		s.e.serveWaiters(q, now)
	}
	s.e.unlock(q.shard, now)
}

// unhideFrame reads the next frame of the hidden runs of q back.
func (s *spool) unhideFrame(q *queue) {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	h := &q.aside.hidden
	q.shard.mu.Lock()
	r, _ := h.Soonest()
	if r == nil || q.deleted || s.closed {
		q.shard.mu.Unlock()
		return
	}
	n := r.Next()
	first := r.Frames[n].First
	q.shard.mu.Unlock()
	entries, err := s.hiddenReader.Frame(r, n)
	stale := func() bool { return q.deleted || r.IsDropped() || r.Next() != n }
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err != nil {
		if !stale() {
			s.hiddenFailed(q, r, err)
		}
		return
	}
	until := s.e.precise.Now() + 2*s.e.readBack
	later := Time(0) // when the first is due that stays on disk
	if i := slices.IndexFunc(entries, func(e hidden.Entry) bool { return e.Due > until && e.Due > first }); i >= 0 {
		entries, later = entries[:i], entries[i].Due
	}
	for some := range slices.Chunk(entries, unhidePiece) {
		if stale() {
			return
		}
		for _, e := range some {
			if h.ReadBack(r, n, e.ID, len(e.Data)) {
				s.e.setAside(q, &e.Item, 0, aside.Entry{State: aside.Delayed, Due: e.Due, Count: e.Count})
			}
		}
		q.shard.mu.Unlock()
		q.shard.mu.Lock()
	}
	switch {
	case stale():
	case later > 0:
		h.Postpone(r, n, later)
	default:
		h.Pass(r, n)
	}
}

// hiddenFailed notes that a hidden run cannot be read on. The caller holds the shard's mutex.
func (s *spool) hiddenFailed(q *queue, r *hidden.Run, err error) {
	q.aside.hidden.Fail(r, err)
	q.counters.readErrors++
	s.e.log.Error("delayed items could not be read: those in this file are not served", "queue", q.name, "file", r.Path, "err", err)
}
