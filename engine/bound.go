package engine

import (
	"cmp"
	"slices"
)

const (
	// keepBytes is how many bytes of items a queue may have in the journal to be told again there,
	// rather than spilled, when it holds old segments: ten thousand queues of a few items each need
	// no file.
	keepBytes = 64 << 10
	// keepShare is the part of the journal, one in so many bytes, that may be told again in one go.
	// What is more is spilled, or telling it again would fill the journal that it is to empty.
	keepShare = 4
	// tinyBytes is how much of the journal a queue may take that is not worth a file, and
	// keepGrowth how many times its size the journal may have to hold such queues: a hundred
	// thousand of them would otherwise make as many files.
	tinyBytes  = 8 << 10
	keepGrowth = 16
	// keepBatch is how many bytes of open reads are told again before the shard is unlocked.
	keepBatch = 256 << 10
)

// boundJournal has queues let go of the oldest segments of a journal that has outgrown its size:
// few items, and open reads, are told again at its end; many are spilled. It reports whether any
// queue held one.
func (e *Engine) boundJournal() (held bool) {
	segments := e.journal.log.Segments()
	var total int64
	for _, s := range segments {
		total += int64(s.End - s.Base)
	}
	if total <= e.opts.JournalSize || e.journal.failing() || e.journal.noDisk.Load() {
		return false
	}
	limit := e.journalLimit()
	e.journal.setMost(limit, e.opts.SegmentSize)
	if total <= limit {
		return false
	}
	target := uint64(0) // what holds a segment before it is to let go
	for _, s := range segments[:len(segments)-1] {
		if total <= limit*3/4 {
			break
		}
		total -= int64(s.End - s.Base)
		target = s.Number + 1
	}
	budget := keepBudget{left: limit / keepShare, tiny: (limit - e.opts.JournalSize) / keepShare}
	e.eachQueue(func(q *queue) {
		for more := true; more; {
			q.shard.mu.Lock()
			if segment, ok := q.oldestSegment(); ok && segment < target {
				held = true
			}
			more = e.letGo(q, target, &budget)
			q.shard.mu.Unlock()
		}
	})
	return held
}

// keepBudget is how many bytes may be told again in one go.
type keepBudget struct {
	left int64
	tiny int64 // of left: for tiny queues alone
}

// journalLimit is how large the journal may be now: JournalSize, or so much more that a quarter of
// the rest holds all that tiny queues hold.
func (e *Engine) journalLimit() int64 {
	var tiny int64
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if n := q.toldAgain(); n <= tinyBytes && q.isSmall() {
			tiny += n
		}
	})
	size := e.opts.JournalSize
	if tiny <= size/keepShare {
		return size
	}
	return min(size+keepShare*tiny, keepGrowth*size)
}

// isSmall reports whether the queue is to be told again rather than spilled. The caller holds the
// shard's mutex.
func (q *queue) isSmall() bool {
	return q.inJournal() && (q.backlog == nil || !q.backlog.inReadBehind) &&
		q.window.bytes <= keepBytes && q.window.count <= keepBytes/plainImageSize &&
		q.writtenTo == q.spilledTo
}

// toldAgain is about how many bytes it takes to tell the window of the queue again.
func (q *queue) toldAgain() int64 { return q.window.bytes + q.window.count*plainImageSize }

// letGo has q need no segment before target any more, now or as soon as the spool has done its
// work. It reports whether there is more to do at once. The caller holds the shard's mutex.
func (e *Engine) letGo(q *queue, target uint64, budget *keepBudget) (more bool) {
	if !q.inJournal() {
		return false
	}
	if e.keepOldReads(q, target, &budget.left) {
		return true
	}
	first, ok := q.journaled()
	if !ok || len(q.segments) == 0 || max(q.markOf(first), q.segments[0].segment) >= target {
		return false
	}
	n := q.toldAgain()
	if q.isSmall() && (n <= budget.left-budget.tiny || n <= tinyBytes && n <= budget.left) {
		if n <= tinyBytes {
			budget.tiny = max(budget.tiny-n, 0)
		}
		budget.left -= n
		e.keepWindow(q)
		return false
	}
	e.spillAll(q, false)
	return false
}

// keepOldReads tells a batch of open reads again that hold a segment before target. It reports
// whether there may be more. Items on their way to another queue are left out: the journal may say
// already that they have arrived, and they let go of their segment in a moment.
func (e *Engine) keepOldReads(q *queue, target uint64, budget *int64) (more bool) {
	n := int64(0)
	for _, list := range [...]*readList{&q.returned, &q.open} {
		for r := list.head; r != nil; r = r.next {
			if r.segment == 0 || r.segment >= target {
				continue
			}
			if n >= keepBatch {
				return true
			}
			r.segment = e.journal.keep(q, r.item)
			size := int64(len(r.item.Data)) + plainImageSize
			n += size
			*budget -= size
		}
	}
	return false
}

// keepWindow tells the items of the window again that have their place in the journal.
func (e *Engine) keepWindow(q *queue) {
	q.segments = q.segments[:0]
	q.window.each(func(it Item) bool {
		if it.ID > q.spilledTo {
			q.mark(e.journal.keep(q, it), it.ID)
		}
		return true
	})
}

// spillAll has everything in memory leave that is not in a run, and be recorded; and, if unload is
// set, forget what is.
func (e *Engine) spillAll(q *queue, unload bool) {
	e.enterReadBehind(q)
	b := q.backlog
	e.detach(q, -1)
	if unload && q.window.count > 1 {
		e.unload(q)
	}
	if b.count == 0 {
		e.leaveReadBehind(q)
	}
	b.recordDue = true
	e.spool.wantRecord(q)
}

// relieve has the queues that hold most in memory spill it while too much memory is in use.
func (e *Engine) relieve() {
	excess := e.memory.Load() - e.opts.MemoryLimit/2
	if excess <= 0 || !e.memoryPressing() {
		return
	}
	type holder struct {
		q     *queue
		bytes int64
	}
	var holders []holder
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if n := q.inMemory(); n >= keepBytes && !q.deleted {
			holders = append(holders, holder{q, n})
		}
	})
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, h := range holders {
		if excess <= 0 {
			return
		}
		h.q.shard.mu.Lock()
		if !h.q.deleted {
			e.spillAll(h.q, true)
		}
		h.q.shard.mu.Unlock()
		excess -= h.bytes
	}
}

// inMemory is how many bytes of items spilling the queue would take out of memory.
func (q *queue) inMemory() int64 {
	n := q.window.bytes
	if b := q.backlog; b != nil {
		n += b.recent.bytes
	}
	return n
}
