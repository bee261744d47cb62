package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/segment"
)

// A sync that fails poisons the log: the kernel may have dropped what it could not write, and says
// so once. Nothing more is acknowledged from it. What is live is in memory, so it is written to a
// new journal, in a directory of its own, and that one takes the place of the old.
//
// From the start of the move on, records of the old journal's queues are left out: what they say is
// in the queues when they enter the new one, each as a whole, under its shard's lock and with a new
// number. Until the new journal counts no ticket becomes good and puts are refused, so that a crash
// may find either journal: both hold all that was acknowledged.
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
	e.lastJournal++
	dir := journalDir(e.opts.Dir, e.lastJournal)
	old := e.journal.log
	completing := false // then it may count, also if that fails, and must stay
	err := e.fillJournal(dir, func() error {
		completing = true
		return completeJournal(e.fs, dir)
	})
	if err != nil {
		if !completing {
			err = errors.Join(err, removeJournal(e.fs, dir))
		}
		return fmt.Errorf("to %s: %w", dir, err)
	}
	e.log.Warn("journal rewritten after a sync that failed", "dir", dir)
	old.Close() // poisoned: there is nothing left to lose
	e.letGoDir(e.journalDir)
	e.journalDir = dir
	e.prepareSegment()
	e.removeOtherJournals()
	return nil
}

// fillJournal makes a journal in dir, writes everything live to it, calls complete when that is
// durable, and has it take the place of the old one.
func (e *Engine) fillJournal(dir string, complete func() error) error {
	log, _, err := segment.Open(dir, e.logOptions(), noFrame)
	if err != nil {
		return err
	}
	if err = e.holdDirs(dir); err == nil {
		first := e.journal.beginMove(e, log)
		e.checkpointed, e.rewriting = 0, rewriting{}
		err = e.enterAll(first, log)
	}
	if err == nil {
		err = e.journal.endMove(log, complete)
	}
	if err != nil {
		log.Close() // it has nothing that is not in memory
		e.letGoDir(dir)
	}
	return err
}

func noFrame(segment.Frame) error { return errors.New("a new journal has frames") }

// removeOtherJournals removes all journals but the one that counts.
func (e *Engine) removeOtherJournals() {
	_, others, err := findJournals(e.fs, e.opts.Dir)
	for _, n := range others {
		if journalDir(e.opts.Dir, n) != e.journalDir {
			err = errors.Join(err, removeJournal(e.fs, journalDir(e.opts.Dir, n)))
		}
	}
	e.othersLeft = err != nil // tidy tries again
	e.report("remove journals that were replaced", err)
}

// enterAll records every queue with a number below first in the journal's buffer, under a new one,
// and has log take what gathers.
func (e *Engine) enterAll(first uint64, log *segment.Log) (err error) {
	batch := int(min(maxBatch, e.opts.SegmentSize/4))
	e.eachQueue(func(q *queue) {
		if err != nil {
			return
		}
		if e.closed.Load() {
			err = ErrClosed
			return
		}
		if err = e.enter(q, first); err == nil {
			_, err = e.journal.drain(log, batch)
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

// beginMove drops what has been recorded and not been written, and leaves out the records of all
// queues with numbers below the one that it returns.
func (j *journal) beginMove(e *Engine, log *segment.Log) (first uint64) {
	j.writeMu.Lock() // nobody is writing, and nobody will
	defer j.writeMu.Unlock()
	j.moving.Store(true)
	clear(j.pending)
	j.pending = j.pending[:0]
	segments := log.Segments()
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.full)
	j.full = j.full[:0]
	j.swap()
	// A queue with this number or a higher one will be recorded behind this point.
	j.first = e.lastNumber.Load() + 1
	j.segment.Store(segments[len(segments)-1].Number)
	return j.first
}

// drain has log take what has gathered, if it is least bytes or more, and returns the LSN behind
// it.
func (j *journal) drain(log *segment.Log, least int) (end LSN, err error) {
	j.mu.Lock()
	gathered := len(j.active) - segment.FrameHeaderSize
	for _, buf := range j.full {
		gathered += len(buf)
	}
	if end = j.end; gathered == 0 || gathered < least {
		j.mu.Unlock()
		return end, nil
	}
	bufs := append(j.full, j.active)
	j.full = nil
	j.swap()
	j.mu.Unlock()
	for _, buf := range bufs {
		if len(buf) == segment.FrameHeaderSize {
			continue
		}
		at, _, err := log.Append(buf)
		if err != nil {
			return end, err
		}
		j.segment.Store(at.Segment)
	}
	return end, nil
}

// endMove makes what log holds durable, calls complete, and has log take the place of the old one.
func (j *journal) endMove(log *segment.Log, complete func() error) error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	end, err := j.drain(log, 0)
	if err != nil {
		return err
	}
	if _, err := log.Sync(); err != nil {
		return err
	}
	if err := complete(); err != nil {
		return err
	}
	j.mu.Lock()
	j.log = log
	j.mu.Unlock()
	j.written.Store(uint64(end))
	j.synced.Store(uint64(end))
	j.setOldest()
	j.moving.Store(false)
	j.failure.Store(nil)
	return nil
}

// poisoned reports whether the log has failed for good.
func (j *journal) poisoned() bool {
	err := j.failure.Load()
	return err != nil && errors.Is(*err, segment.ErrPoisoned)
}

// refusal is why nothing is written or synced while the journal is being moved; nil if it is not.
func (j *journal) refusal() error {
	if !j.moving.Load() {
		return nil
	}
	if err := j.failure.Load(); err != nil {
		return *err
	}
	return nil // the move has ended
}
