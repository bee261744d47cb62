package engine

import (
	"errors"
	"time"
)

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
		case <-e.journal.sealed:
			e.syncSealed()
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
		if failing || e.journal.noDisk.Load() {
			e.retryJournal()
			failing = e.reportFailure(failing)
		}
		if at.Sub(trimmed) >= trimInterval {
			held := e.boundJournal()
			e.report("trim journal", e.trimJournal())
			if trimmed = at; held { // look again when the spool has done its work
				trimmed = at.Add(maintainInterval - trimInterval)
			}
		}
		if at.Sub(marked) >= markInterval {
			e.spool.tend()
			e.relieve()
			e.markIdle()
			e.askPrepare()
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
	if e.othersLeft {
		e.removeOtherJournals()
	}
	e.report("remove spare files of the journal", e.journal.log.TrimSpares(idleSegments))
}

// writeLeftOver writes what nobody waits for: what expired in the background, or while something
// else was done, and where it went. It would otherwise gather in memory until a client's request is
// written, and be undone by the death of the process. Failures are reported in the next round.
func (e *Engine) writeLeftOver() {
	if !e.journal.failing() {
		e.journal.write(e.journal.appendedEnd())
	}
}

// report logs an error of background work.
func (e *Engine) report(what string, err error) {
	if err != nil && !e.closed.Load() {
		e.log.Error(what, "err", err)
	}
}

// reportFailure logs that the journal has begun to fail, or works again, if that is not as last
// reported. It returns what it is.
func (e *Engine) reportFailure(reported bool) bool {
	err := e.journal.failure.Load()
	switch {
	case err != nil && !reported && errors.Is(*err, ErrOutOfDisk):
		e.log.Error("disk is full: puts are refused", "err", *err)
	case err != nil && !reported:
		e.log.Error("journal fails: puts are refused", "err", *err)
	case err == nil && reported:
		e.log.Info("journal works again: puts are accepted")
	}
	return err != nil
}

// syncSealed makes the segments durable that the journal has left, so that where nobody syncs a
// power cut loses the last segment at most.
func (e *Engine) syncSealed() {
	if e.journal.failing() {
		return
	}
	began := time.Now()
	if err := e.journal.log.SyncSealed(); err != nil {
		e.journal.syncs.count(time.Since(began), err)
		e.report("sync sealed segments", e.journal.failed(err))
	}
}

// retryJournal tries again what failed, and makes room where it can. Errors are those that clients
// get.
func (e *Engine) retryJournal() {
	if e.journal.poisoned() {
		e.retryMove()
		return
	}
	if e.journal.log.NeedsPrepare() || !e.journal.failing() {
		e.prepareSegment()
	}
	e.journal.write(e.journal.appendedEnd()) // ends the failure if it succeeds
	e.trimJournal()
}

// markIdle makes an idle journal say on disk how far it was synced; see segment.Log.Mark.
func (e *Engine) markIdle() {
	if e.journal.failing() {
		return
	}
	wrote, err := e.journal.log.Mark()
	if wrote && err == nil {
		err = e.journal.syncLog()
	}
	e.report("mark journal", err)
}

// trimPools leaves to the collector what the pools have kept since the last call and not needed.
func (e *Engine) trimPools() {
	for i := range e.shards {
		sh := &e.shards[i]
		for all := false; !all; {
			sh.mu.Lock()
			all = sh.trim()
			sh.mu.Unlock()
		}
	}
}

// endOverdueReads brings back open reads that have been open for longer than their queue allows.
func (e *Engine) endOverdueReads(now Time) {
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		for q := range sh.timed {
			e.endOverdueReadsOf(q, now)
			if q.open.count == 0 || q.opts.OpenReadTimeout == 0 {
				delete(sh.timed, q)
			}
		}
		e.unlock(sh, now)
	}
}

func (e *Engine) endOverdueReadsOf(q *queue, now Time) {
	if q.opts.OpenReadTimeout == 0 {
		return
	}
	last := q.open.head // newest of those that are overdue
	if last == nil || last.opened.After(q.opts.OpenReadTimeout) > now {
		return
	}
	for last.next != nil && last.next.opened.After(q.opts.OpenReadTimeout) <= now {
		last = last.next
	}
	for r := last; r != nil; { // newest first, so that the oldest ends up at the head
		prev := r.prev
		if !r.held {
			e.giveBack(r)
		}
		r = prev
	}
	e.serve(q, now)
}

// expireQueues deletes the queues that have outlived their MaxQueueAge and hold nothing for
// anybody.
func (e *Engine) expireQueues(now Time) {
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		age := q.opts.MaxQueueAge
		busy := q.items() > 0 || q.open.count > 0 || q.moving.count > 0 || q.waiters.count > 0
		if age == 0 || q.deleted || busy || q.created.After(age) >= now {
			return
		}
		e.delete(q) // it leaves nothing to give back
		e.expires.Add(1)
		e.log.Info("queue expired", "queue", q.name)
	})
}

// syncPeriodically syncs the journal, on a goroutine of its own, when the oldest write of a queue
// with a sync period is due.
func (e *Engine) syncPeriodically() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-e.journal.due:
		case <-timer.C:
		}
		due := time.Duration(e.journal.dueAt.Load())
		if due == 0 {
			continue
		}
		if wait := due - time.Since(e.journal.epoch); wait > 0 {
			timer.Reset(wait)
			continue
		}
		if e.journal.syncDue() != nil { // maintain reports it
			timer.Reset(maintainInterval)
		}
	}
}
