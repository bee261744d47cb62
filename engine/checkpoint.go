package engine

import "math"

const (
	// spareSegments is how many dropped segments the journal keeps at most to use again: as many as
	// it takes for a queue that spills at full speed never to ask for a new one. A new file, and new
	// pages of the cache, cost more than writing over old ones, and whoever writes pays for them.
	spareSegments = 16
	// idleSegments is how many it keeps when they are not needed.
	idleSegments = 5
)

// checkpoint records the state of every queue, so that segments before the one in which it began
// are needed for items only. It waits for the disk. It returns the number of that segment.
func (e *Engine) checkpoint() (segment uint64, err error) {
	segment = e.journal.segment.Load()
	var end LSN
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if q.inJournal() {
			from := e.journal.appendedEnd()
			end = e.recordQueue(q)
			e.rewriting.wrote(int64(end - from))
		}
	})
	return segment, e.Commit(Ticket{Written: end, Synced: end})
}

// recordQueue records the state of q: its name and next id and, if it had a backlog, what is in it.
// The caller holds the shard's mutex.
func (e *Engine) recordQueue(q *queue) LSN {
	return max(e.journal.queue(q), e.recordBacklog(q))
}

// recordBacklog records the runs of q and what is gone of the items in them, and in those runs that
// are gone as a whole: what the journal says of them may outlive what it says of their items.
func (e *Engine) recordBacklog(q *queue) (end LSN) {
	var runs []*run
	if b := q.backlog; b != nil {
		for _, list := range [...][]*run{b.spent, b.runs} {
			for _, r := range list {
				if r.recorded.end > 0 {
					runs = append(runs, r)
				}
			}
		}
	}
	if len(runs) == 0 && !q.spilled {
		return end
	}
	return e.recordRuns(q, runs, true)
}

// recordRuns records what of runs of q is synced and, if gone is set, all that is gone of what q ever
// had: in one frame, so that no crash leaves the one without the other (B6).
func (e *Engine) recordRuns(q *queue, runs []*run, gone bool) LSN {
	q.spilled = q.spilled || len(runs) > 0
	return e.journal.record(q.number, func(buf []byte) []byte {
		for _, r := range runs {
			buf = appendSpill(buf, q.number, r.id, r.recorded)
		}
		if gone {
			buf = q.appendGone(buf)
		}
		return buf
	})
}

// appendGone appends records of what is gone of the items that q ever had, as far as runs may name
// them.
func (q *queue) appendGone(buf []byte) []byte {
	var except []uint64
	for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
		for r := list.head; r != nil; r = r.next {
			except = append(except, r.item.ID)
		}
	}
	head := q.headID()
	buf = appendFlush(buf, q.number, head, except)
	if q.backlog == nil {
		return buf
	}
	for _, r := range q.backlog.gone {
		for first := max(r.first, head); first <= r.last; {
			more := min(r.last-first, math.MaxUint32)
			buf = appendRemove(buf, q.number, first, uint32(more))
			first += more + 1
		}
	}
	return buf
}

// trimJournal drops the segments at the front of the journal that no item needs any more. It waits
// for the disk.
//
// What made them unneeded is made durable first. Otherwise a crash could leave, of a queue whose
// deletion was not written yet, items without the name that was dropped; or of two items, confirmed
// one after the other, only the one confirmed first.
func (e *Engine) trimJournal() error {
	if e.journal.failing() {
		return nil // a checkpoint could not be written now; do not gather one after the other
	}
	segments := e.journal.log.Segments()
	if len(segments) == 1 {
		return nil
	}
	oldest := segments[0].Number
	needed := e.oldestSegment(segments[len(segments)-1].Number)
	if needed <= oldest {
		return nil
	}
	if free := bytesBefore(segments, needed); e.checkpointed <= oldest &&
		e.measureUse(segments).state > e.rewriting.affords(free) {
		return nil // not worth a checkpoint
	}
	unneeding := e.journal.appendedEnd()
	if err := e.journal.writeOut(); err != nil {
		return err
	}
	if e.checkpointed <= oldest {
		at, err := e.checkpoint()
		if err != nil {
			return err
		}
		e.checkpointed = at
	}
	if err := e.journal.sync(unneeding); err != nil {
		return err
	}
	n, err := e.journal.log.DropBefore(min(needed, e.checkpointed))
	e.rewriting.dropped(allBytes(segments[:n]))
	e.journal.setOldest()
	return err
}

// oldestSegment returns the oldest segment of the journal that holds an item, or tail if none does.
// Items move from the window of a queue to its shard's reads, never back: so these come last.
func (e *Engine) oldestSegment(tail uint64) uint64 {
	oldest := tail
	e.eachShard(func(sh *shard, queues []*queue) {
		for _, q := range queues {
			sh.mu.Lock()
			if segment, ok := q.windowSegment(); ok && segment < oldest {
				oldest = segment
			}
			sh.mu.Unlock()
		}
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if sh.pins.before(oldest) {
			oldest = sh.pins[0].segment
		}
	})
	return oldest
}
