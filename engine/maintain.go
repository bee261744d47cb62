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
			e.report("trim journal", e.trimJournal())
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
	e.report("remove spare files of the journal", e.journal.TrimSpares(idleSegments))
}

// writeLeftOver writes what nobody waits for: what expired in the background, or while something
// else was done, and where it went. It would otherwise gather in memory until a client's request is
// written, and be undone by the death of the process. Failures are reported in the next round.
func (e *Engine) writeLeftOver() {
	if !e.journal.Failing() {
		e.journal.Write(e.journal.End())
	}
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

// retryJournal tries again what failed, and makes room where it can. Errors are those that clients
// get.
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
			if q.open.Len() == 0 || q.opts.OpenReadTimeout == 0 {
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
	last := q.open.First() // newest of those that are overdue
	if last == nil || last.opened.After(q.opts.OpenReadTimeout) > now {
		return
	}
	for next := last.link.Next(); next != nil && next.opened.After(q.opts.OpenReadTimeout) <= now; {
		last, next = next, next.link.Next()
	}
	for r := last; r != nil; { // newest first, so that the oldest ends up at the head
		prev := r.link.Prev()
		if !r.held {
			e.giveBack(r, Return{How: Lost})
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
		busy := q.items() > 0 || q.leased() > 0 || q.open.Len() > 0 || q.moving.Len() > 0 || q.waiters.Len() > 0
		if age == 0 || q.deleted || busy || q.created.After(age) >= now {
			return
		}
		e.delete(q) // it leaves nothing to give back
		e.expires.Add(1)
		e.log.Info("queue expired", "queue", q.name)
	})
}
