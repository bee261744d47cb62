package engine

import "runtime"

const (
	// spareSegments is how many dropped segments the journal keeps at most to use again: as many as
	// it takes for a queue that spills at full speed never to ask for a new one. A new file, and new
	// pages of the cache, cost more than writing over old ones, and whoever writes pays for them.
	spareSegments = 16
	// idleSegments is how many it keeps when they are not needed.
	idleSegments = 5
	// checkpointBatch is how many bytes of a checkpoint gather before they are written: a fraction of a
	// millisecond of work.
	checkpointBatch = 32 << 10
)

// checkpoint records the state of every queue, so that segments before the one in which it began
// are needed for items only. It waits for the disk. It returns the number of that segment.
//
// Others go on meanwhile, and must not wait for all of it: what has gathered is written every now and
// then, or the next commit of a client would have to, and the processor left to who wants it.
func (e *Engine) checkpoint() (seg uint64, err error) {
	seg = e.journal.Segment()
	end, gathered := e.journal.End(), int64(0)
	for n := range e.recordState() {
		e.rewriting.wrote(n)
		if gathered += n; gathered < checkpointBatch {
			continue
		}
		gathered = 0
		if end = e.journal.End(); e.journal.Write(end) != nil {
			break // the commit says why
		}
		runtime.Gosched()
	}
	end = e.journal.End()
	return seg, e.Commit(Ticket{Written: end, Synced: end})
}

// trimJournal drops the segments at the front of the journal that no item needs any more. It waits
// for the disk.
//
// What made them unneeded is made durable first. Otherwise a crash could leave, of a queue whose
// deletion was not written yet, items without the name that was dropped; or of two items, confirmed
// one after the other, only the one confirmed first.
func (e *Engine) trimJournal() error {
	if e.journal.Failing() {
		return nil // a checkpoint could not be written now; do not gather one after the other
	}
	segments := e.journal.Segments()
	if len(segments) == 1 {
		return nil
	}
	oldest := segments[0].Number
	needed := e.backing.segmentsTo(e.oldestSegment(segments[len(segments)-1].Number))
	if needed <= oldest {
		return nil
	}
	if free := bytesBefore(segments, needed); e.checkpointed <= oldest &&
		e.measureUse(segments).state > e.rewriting.affords(free) {
		return nil // not worth a checkpoint
	}
	unneeding := e.journal.End()
	if err := e.journal.WriteOut(); err != nil {
		return err
	}
	if e.checkpointed <= oldest {
		at, err := e.checkpoint()
		if err != nil {
			return err
		}
		e.checkpointed = at
	}
	if err := e.journal.Sync(unneeding); err != nil {
		return err
	}
	e.backing.mu.Lock() // a backup may have begun meanwhile
	defer e.backing.mu.Unlock()
	n, err := e.journal.DropBefore(e.backing.segments(min(needed, e.checkpointed)))
	e.rewriting.dropped(allBytes(segments[:n]))
	return err
}

// oldestSegment returns the oldest segment of the journal that holds an item, or tail if none does.
// Items move from the window of a queue to its shard's reads, never back: so these come last.
func (e *Engine) oldestSegment(tail uint64) uint64 {
	oldest := tail
	if n := e.withheld.oldest; n > 0 {
		oldest = min(oldest, n)
	}
	e.eachShard(func(sh *shard, queues []*queue) {
		for _, q := range queues {
			sh.mu.Lock()
			if seg, ok := q.windowSegment(); ok && seg < oldest {
				oldest = seg
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
