package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment"
)

// This file has what the background does now and then, a move of the journal, and the ends of reads that are overdue.

const (
	maintainInterval = 100 * time.Millisecond // also the resolution of open-read timeouts
	trimInterval     = 5 * time.Second
	markInterval     = time.Second
	relieveInterval  = 10 * time.Millisecond // at least, between looks for the largest queues
	spareInterval    = 10 * time.Second      // files that the journal has not needed for as long are removed
	poolInterval     = 30 * time.Second      // what a pool keeps for as long unused, it lets go
)

// maintain does, on a goroutine of its own, what no client waits for.
func (e *Engine) maintain() {
	tick := time.NewTicker(maintainInterval)
	defer tick.Stop()
	var trimmed, marked, swept, relieved time.Time
	pooled, spared := time.Now(), time.Now()
	failing := false // as last reported
	for {
		select {
		case <-e.stop:
			return
		case <-e.journal.Sealed():
			e.journal.SyncSealed()
			trimmed = time.Time{}
		case <-e.pressed:
			if time.Since(relieved) >= relieveInterval {
				e.relieve()
				relieved = time.Now()
			}
		case <-tick.C:
		}
		at := time.Now()
		failing = e.reportFailure(failing)
		if failing || e.journal.Full() {
			e.retryJournal()
			failing = e.reportFailure(failing)
		}
		if at.Sub(trimmed) >= trimInterval {
			held := e.boundJournal()
			e.report("journal: old segments could not be dropped; trying again", e.trimJournal())
			if trimmed = at; held { // look again when the spool has done its work
				trimmed = at.Add(maintainInterval - trimInterval)
			}
		}
		if at.Sub(marked) >= markInterval {
			e.spool.tend()
			e.relieve()
			e.journal.Mark()
			e.journal.AskPrepare()
			e.arena.Release()
			marked = at
		}
		if at.Sub(spared) >= spareInterval && !failing {
			e.tidy()
			spared = at
		}
		if at.Sub(pooled) >= poolInterval {
			e.trimPools()
			pooled = at
		}
		e.measureDisk() // each time: a quick disk takes the reserve in a second
		e.endOverdueReads(At(at))
		if d := e.opts.SweepInterval; d > 0 && at.Sub(swept) >= d {
			e.FlushAllExpired(At(at))
			e.expireQueues(At(at))
			swept = at
		}
		e.writeLeftOver()
	}
}

// tidy removes files that nothing needs any more, those included that could not be removed before.
func (e *Engine) tidy() {
	if e.journals.OthersLeft() {
		e.removeOtherJournals()
	}
	e.report("journal: spare files could not be removed; trying again", e.journal.TrimSpares(idleSegments))
}

// reportFailure logs that the journal has begun to fail, or works again, if that is not as last
// reported. It returns what it is.
func (e *Engine) reportFailure(reported bool) bool {
	err := e.journal.Failure()
	switch {
	case err != nil && !reported && errors.Is(err, ErrOutOfDisk):
		e.log.Error("disk is full: puts are refused", "err", err)
	case err != nil && !reported:
		e.log.Error("journal fails: puts are refused", "err", err)
	case err == nil && reported:
		e.log.Info("journal works again: puts are accepted")
	}
	return err != nil
}

// retryJournal tries again what failed, and makes room where it can. Errors are those that clients get.
func (e *Engine) retryJournal() {
	if e.journal.Poisoned() {
		e.retryMove()
		return
	}
	e.journal.Retry()
	e.trimJournal()
}

// trimPools leaves to the collector what the pools have kept since the last call and not needed.
func (e *Engine) trimPools() {
	for i := range e.shards {
		sh := &e.shards[i]
		processor.InPieces(&sh.mu, e.opts.yield, func() (more bool) { return !sh.trim() })
	}
}

// expireQueues deletes the queues that have outlived their MaxQueueAge and hold nothing for anybody.
func (e *Engine) expireQueues(now Time) {
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		age := q.opts.MaxQueueAge
		busy := q.items() > 0 || q.leased() > 0 || q.open.Len() > 0 || q.moving.Len() > 0 || q.waiters.Len()+q.watchers.Len() > 0
		if age == 0 || q.deleted || busy || q.created.After(age) >= now {
			q.shard.mu.Unlock()
			return
		}
		_, left := e.delete(q)
		q.shard.mu.Unlock()
		left.disposeAll(e.opts.yield)
		e.expires.Add(1)
		e.log.Info("queue expired", "queue", q.name)
	})
}

const (
	minMoveDelay = time.Second // from one try to the next; doubled up to maxMoveDelay
	maxMoveDelay = time.Minute
)

// retryMove moves a poisoned journal, unless it was tried a moment ago.
func (e *Engine) retryMove() {
	if time.Now().Before(e.nextMove) {
		return
	}
	e.moveDelay = min(max(2*e.moveDelay, minMoveDelay), maxMoveDelay)
	err := e.moveJournal()
	if e.nextMove = time.Now().Add(e.moveDelay); err == nil {
		e.moveDelay = 0
	}
	e.report("journal: live items could not be written to a new one; trying again", err)
}

// moveJournal writes everything live to a new journal and has that take the place of the old one.
// It waits for the disk. After an error the old one is still in place, and poisoned.
func (e *Engine) moveJournal() error {
	if len(e.withheld.queues) > 0 { // what the old journal has of them cannot be written again
		return fmt.Errorf("not possible while a queue is withheld: restore or repair it, and restart: %w", e.withheld.queues[0].Reason)
	}
	if err := e.journals.Retract(); err != nil { // that of a move before
		return err
	}
	was, dir := e.journals.Current(), e.journals.Next()
	old, err := e.fillJournal(dir, func() error { return e.journals.Complete(dir) })
	if err != nil {
		if !e.journals.MayCount(dir) {
			err = errors.Join(err, e.journals.Abandon(dir))
		}
		return fmt.Errorf("new journal %s: %w", dir, err)
	}
	e.log.Warn("journal rewritten after a sync that failed", "dir", dir)
	old.Close() // poisoned: there is nothing left to lose
	e.closeDir(was)
	e.journal.Prepare()
	e.removeOtherJournals()
	return nil
}

// fillJournal makes a log in dir and writes everything live to it. When that is durable it calls
// complete and puts the new log in place of the old one, which it returns.
func (e *Engine) fillJournal(dir string, complete func() error) (old *segment.Log, err error) {
	log, _, err := segment.Open(dir, e.logOptions(), noFrame)
	if err != nil {
		return nil, err
	}
	if err = e.leaveDirsOpen(dir); err == nil {
		batch := int(min(journal.MaxBatch, e.opts.SegmentSize/4))
		m, first := e.journal.Move(log, batch, func() uint64 { return e.lastNumber.Load() + 1 })
		e.checkpointed, e.debt = 0, trim.Debt{}
		if err = e.enterAll(first, m); err == nil {
			old, err = m.End(complete)
		}
	}
	if err != nil {
		log.Close() // it has nothing that is not in memory
		e.closeDir(dir)
	}
	return old, err
}

func noFrame(segment.Frame) error {
	return errors.New("the directory of the new journal already has a journal")
}

// removeOtherJournals removes all journals but the one that counts. If that fails, tidy tries again.
func (e *Engine) removeOtherJournals() {
	e.report("journal: those that were replaced could not be removed; trying again", e.journals.RemoveOthers())
}

// enterAll records every queue with a number below first in the journal's buffer, under a new one,
// and has the new log take what gathers.
func (e *Engine) enterAll(first uint64, m *journal.Move) (err error) {
	e.eachQueue(func(q *queue) {
		if err != nil {
			return
		}
		if e.closed.Load() {
			err = ErrClosed
			return
		}
		if err = e.enter(q, first, m); err == nil {
			err = m.Drain()
		}
	})
	return err
}

// enter records q under a new number if it has one below first. It has q leave the journal and enter it again, in
// pieces, as two reloads would. What its backlog holds is made durable before, most of it before fetches wait.
func (e *Engine) enter(q *queue, first uint64, m *journal.Move) (err error) {
	e.reloadMu.Lock() // a reload may have q cross too
	defer e.reloadMu.Unlock()
	hold := func(f func()) error {
		q.shard.mu.Lock()
		if q.opts.KeepJournal && (q.backlog != nil || q.isLong()) {
			q.shard.mu.Unlock()
			return e.spool.whenSynced(q, f)
		}
		defer q.shard.mu.Unlock()
		f()
		return nil
	}
	crosses := false
	err = hold(func() {
		if !q.inJournal() || q.number >= first {
			return
		}
		if crosses = q.hasMore(); crosses {
			q.entering = true
			q.beginCrossing()
		} else {
			e.beginEntering(q)
		}
	})
	if err != nil || !crosses {
		return err
	}
	e.letGoAll(q)
	e.opts.yield()
	err = hold(func() {
		if q.entering = false; q.inJournal() {
			e.beginEntering(q)
		}
	})
	if err != nil { // the next move begins anew
		e.endCrossing(q)
		return err
	}
	e.enterRest(q, func() {
		if err == nil {
			err = m.Drain()
		}
		e.opts.yield()
	})
	return err
}

func (e *Engine) logOptions() segment.Options {
	return segment.Options{
		FS: e.fs, SegmentSize: e.opts.SegmentSize, Spares: spareSegments, MaxUnsynced: e.files.Unsynced,
	}
}

// leaveDirsOpen leaves directories open whose names are changed and synced later on.
func (e *Engine) leaveDirsOpen(dirs ...string) (err error) {
	for _, dir := range dirs {
		if e.dirs != nil {
			err = errors.Join(err, e.dirs.Hold(dir))
		}
	}
	return err
}

// closeDir closes a directory that is not needed any more.
func (e *Engine) closeDir(dir string) {
	if e.dirs != nil {
		e.dirs.LetGo(dir)
	}
}

// Open reads end by themselves when they have been open for longer than their queue allows. There may be hundreds of
// thousands of them, so they are brought back in pieces, as by Return. The newest comes first, and a fetch from the
// queue waits until the oldest is back.

// endOverdueReads brings back open reads that have been open for longer than their queue allows.
func (e *Engine) endOverdueReads(now Time) {
	passed := 0
	for i := range e.shards {
		for q := range processor.InTurn(e.shards[i].listTimed(), &passed, e.opts.yield) {
			e.endOverdueReadsOf(q, now)
		}
	}
}

// listTimed returns the queues whose open reads end by themselves.
func (sh *shard) listTimed() []*queue {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	queues := make([]*queue, 0, len(sh.timed))
	for q := range sh.timed {
		queues = append(queues, q)
	}
	return queues
}

func (e *Engine) endOverdueReadsOf(q *queue, now Time) {
	o := overdueReads{q: q, now: now}
	for e.endOverduePiece(&o); !o.done; e.endOverduePiece(&o) {
		e.opts.yield()
	}
}

// overdueReads are the open reads of a queue that are overdue, as they are being brought back. They are first counted,
// from the oldest on, and then ended, from the newest on.
type overdueReads struct {
	q   *queue
	now Time
	// stops are places among them, each some abortBatch reads behind the one before. Some may have ended.
	stops []ReadRef
	found bool    // the newest is behind the last of stops, by no more than abortBatch
	above ReadRef // the oldest that has been looked at and stays, because it waits to be collected
	held  bool    // the queue's aborting counts this
	done  bool
}

// isOverdue reports whether an open read is to be brought back.
func (o *overdueReads) isOverdue(r *read) bool {
	most := o.q.opts.OpenReadTimeout
	return r != nil && most > 0 && r.opened.After(most) <= o.now
}

// endOverduePiece looks at abortBatch reads, about, before the shard is unlocked.
func (e *Engine) endOverduePiece(o *overdueReads) {
	q, sh := o.q, o.q.shard
	sh.mu.Lock()
	defer e.unlock(sh, o.now)
	if !o.found {
		o.advance()
	}
	if o.found {
		o.done = e.endNewest(o)
	}
	switch {
	case !o.done && !o.held:
		o.held = true
		q.aborting++
	case o.done && o.held:
		q.aborting--
	}
	if !o.done {
		return
	}
	if q.open.Len() == 0 || q.opts.OpenReadTimeout == 0 {
		delete(sh.timed, q)
	}
	e.serveWaiters(q, o.now)
}

// from returns the last of stops that has not ended, and forgets those behind it; the oldest open read if all have.
func (o *overdueReads) from() *read {
	for n := len(o.stops) - 1; n >= 0; n-- {
		if ref := o.stops[n]; ref.live() && ref.r.state == readOpen {
			return ref.r
		}
		o.stops = o.stops[:n]
	}
	return o.q.open.First()
}

// advance goes on to the newest read that is overdue, by abortBatch reads at most.
func (o *overdueReads) advance() {
	r := o.from()
	for n := 0; o.isOverdue(r); n++ {
		if n == abortBatch {
			o.stops = append(o.stops, ReadRef{r, r.id})
			return
		}
		r = r.link.Next()
	}
	o.found = true
}

// endNewest brings the reads back that are behind the last stop, newest first, and reports whether there are no others.
func (e *Engine) endNewest(o *overdueReads) (all bool) {
	first := o.from()
	all = len(o.stops) == 0
	if !all {
		o.stops = o.stops[:len(o.stops)-1]
	}
	if !o.isOverdue(first) {
		return all
	}
	last := first
	for next := last.link.Next(); o.isOverdue(next) && !(o.above.r == next && o.above.live()); {
		last, next = next, next.link.Next()
	}
	for r := last; ; { // newest first, so that the oldest ends up at the head
		prev := r.link.Prev()
		if r.held {
			o.above = ReadRef{r, r.id}
		} else {
			e.giveBack(r, Return{How: Lost})
		}
		if r == first {
			return all
		}
		r = prev
	}
}

// tend asks for everything that has been left undone. That is failed writes, items written and not recorded yet, and
// runs that could not be removed. Reads that failed for another reason than damage are tried again too.
func (s *spool) tend() {
	s.mu.Lock()
	starving := len(s.starved) > 0
	s.mu.Unlock()
	defer s.feed()
	s.tendHidden()
	queues := s.each(func(q *queue, b *backlog) {
		b.recordDue = b.recordDue || b.unrecorded() || starving && b.unclosed()
		if b.back {
			b.back = false
			s.e.shrink(q)
			s.wantRecord(q)
		}
		if b.leaving.Count > 0 {
			s.wantSpill(q)
		}
		if b.recordDue || len(b.spent)+len(b.spentMarks) > 0 || b.marks != nil && len(b.runs) == 0 {
			s.wantRecord(q)
		}
		if b.failed != nil && !runs.IsDamage(b.failed) {
			b.failed = nil
			if q.waiters.First() != nil {
				s.e.wantFill(q)
			}
		}
	})
	for q := range processor.InTurn(queues, new(int), s.e.opts.yield) {
		s.lookThin(q)
	}
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
