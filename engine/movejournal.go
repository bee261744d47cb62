package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/segment"
)

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
	e.report("move journal", err)
}

// moveJournal writes everything live to a new journal and has that take the place of the old one.
// It waits for the disk. After an error the old one is still in place, and poisoned.
func (e *Engine) moveJournal() error {
	if len(e.withheld.queues) > 0 { // what the old journal has of them cannot be written again
		return fmt.Errorf("not while a queue is withheld: %w", e.withheld.queues[0].Reason)
	}
	was, dir := e.journals.Current(), e.journals.Next()
	completing := false // then it may count, also if that fails, and must stay
	old, err := e.fillJournal(dir, func() error {
		completing = true
		return e.journals.Complete(dir)
	})
	if err != nil {
		if !completing {
			err = errors.Join(err, e.journals.Abandon(dir))
		}
		return fmt.Errorf("to %s: %w", dir, err)
	}
	e.log.Warn("journal rewritten after a sync that failed", "dir", dir)
	old.Close() // poisoned: there is nothing left to lose
	e.letGoDir(was)
	e.journal.Prepare()
	e.removeOtherJournals()
	return nil
}

// fillJournal makes a log in dir, writes everything live to it, calls complete when that is
// durable, and has it take the place of the old one, which it returns.
func (e *Engine) fillJournal(dir string, complete func() error) (old *segment.Log, err error) {
	log, _, err := segment.Open(dir, e.logOptions(), noFrame)
	if err != nil {
		return nil, err
	}
	if err = e.holdDirs(dir); err == nil {
		batch := int(min(journal.MaxBatch, e.opts.SegmentSize/4))
		m, first := e.journal.Move(log, batch, func() uint64 { return e.lastNumber.Load() + 1 })
		e.checkpointed, e.rewriting = 0, rewriting{}
		if err = e.enterAll(first, m); err == nil {
			old, err = m.End(complete)
		}
	}
	if err != nil {
		log.Close() // it has nothing that is not in memory
		e.letGoDir(dir)
	}
	return old, err
}

func noFrame(segment.Frame) error { return errors.New("a new journal has frames") }

// removeOtherJournals removes all journals but the one that counts. If that fails, tidy tries again.
func (e *Engine) removeOtherJournals() {
	e.report("remove journals that were replaced", e.journals.RemoveOthers())
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
		if err = e.enter(q, first); err == nil {
			err = m.Drain()
		}
	})
	return err
}

// enter records q in the journal's buffer under a new number if it has one below first. What its
// backlog holds is made durable before.
func (e *Engine) enter(q *queue, first uint64) error {
	enter := func() {
		if q.inJournal() && q.number < first {
			e.enterJournal(q)
		}
	}
	q.shard.mu.Lock()
	if q.opts.KeepJournal && q.backlog != nil {
		q.shard.mu.Unlock()
		return e.spool.whenSynced(q, enter)
	}
	enter()
	q.shard.mu.Unlock()
	return nil
}

func (e *Engine) logOptions() segment.Options {
	return segment.Options{
		FS: e.fs, SegmentSize: e.opts.SegmentSize, Spares: spareSegments, MaxUnsynced: e.files.unsynced,
	}
}

// holdDirs keeps directories open whose names are changed and synced later on.
func (e *Engine) holdDirs(dirs ...string) (err error) {
	for _, dir := range dirs {
		if e.dirs != nil {
			err = errors.Join(err, e.dirs.Hold(dir))
		}
	}
	return err
}

// letGoDir closes a directory that is not needed any more.
func (e *Engine) letGoDir(dir string) {
	if e.dirs != nil {
		e.dirs.LetGo(dir)
	}
}
