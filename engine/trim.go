package engine

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment"
)

// This file makes the oldest segments of the journal free, and memory of the largest queues.

const (
	// spareSegments is how many dropped segments the journal keeps at most to use again. With so many, a queue that
	// spills at full speed never asks for a new one. A new file, and new pages of the cache, cost more than writing
	// over old ones, and the next writer pays for them.
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
// Others go on meanwhile, and must not wait for all of it. So now and then it writes the records that have gathered,
// and yields the processor. Otherwise the next commit of a client would have to write them.
func (e *Engine) checkpoint() (seg uint64, err error) {
	seg = e.journal.Segment()
	gathered := int64(0)
	for n := range e.recordState() {
		e.debt.Wrote(n)
		if gathered += n; gathered < checkpointBatch {
			continue
		}
		gathered = 0
		if err = e.journal.Write(e.journal.End()); err != nil {
			return seg, err // the next write may succeed, and the rest is not recorded
		}
		processor.Yield()
	}
	end := e.journal.End()
	return seg, e.Commit(Ticket{Written: end, Synced: end})
}

// trimJournal drops the segments at the front of the journal that no item needs any more. It waits for the disk.
//
// What made them unneeded is made durable first. Otherwise a crash could leave items of a queue without its name, if
// its deletion was not written yet and the name was dropped. Or, of two items confirmed one after the other, it could
// leave only the one confirmed first.
func (e *Engine) trimJournal() error {
	if e.journal.Failing() {
		return nil // a checkpoint could not be written now; do not gather one after the other
	}
	segments := e.journal.Segments()
	if len(segments) == 1 {
		return nil
	}
	oldest := segments[0].Number
	needed := e.backing.SegmentsTo(e.oldestSegment(segments[len(segments)-1].Number))
	if needed <= oldest {
		return nil
	}
	if free := trim.SizeBefore(segments, needed); e.checkpointed <= oldest &&
		e.measureUse(segments).State > e.debt.Affords(free) {
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
	e.backing.Lock() // a backup may have begun meanwhile
	defer e.backing.Unlock()
	n, err := e.journal.DropBefore(e.backing.Segments(min(needed, e.checkpointed)))
	e.debt.Dropped(segments[:n])
	return err
}

// oldestSegment returns the oldest segment of the journal that holds an item, or tail if none does.
// Items move from the window of a queue to its shard's reads, never back: so these come last.
func (e *Engine) oldestSegment(tail uint64) uint64 {
	oldest := tail
	if n := e.withheld.oldest; n > 0 {
		oldest = min(oldest, n)
	}
	e.eachShard(func(sh *shard, queues iter.Seq[*queue]) {
		for q := range queues {
			sh.mu.Lock()
			if seg, ok := q.windowSegment(); ok && seg < oldest {
				oldest = seg
			}
			sh.mu.Unlock()
		}
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if seg, ok := sh.pins.Oldest(); ok {
			oldest = min(oldest, seg)
		}
	})
	return oldest
}

const (
	// smallBytes is how many bytes of items a queue that holds old segments may have in the journal and still be
	// rewritten there. A larger one is spilled: ten thousand queues of a few items each need no file.
	smallBytes = 64 << 10
	// rewriteShare is the part of the journal, one in so many bytes, that windows of such queues may be
	// rewritten in one go. What is more is spilled.
	rewriteShare = 4
	// tinyBytes is how much of the journal a queue may take that is not worth a file.
	tinyBytes = 8 << 10
	// rewriteBatch is how many bytes of open reads are rewritten before the shard is unlocked.
	rewriteBatch = 256 << 10
	// keepOverhead is how many bytes a keep record takes beside the body of its item, at most. The numbers in it have
	// seven bytes each at most for a very long time.
	keepOverhead = 1 + 2*7 + item.PlainLongSize + 2 + item.FlagsSize + item.TimeSize
)

// boundJournal has queues let go of the oldest segments of a journal that has outgrown its size. Open reads and small
// queues are rewritten at its end, and large queues spill. It reports whether a queue still has to let go.
func (e *Engine) boundJournal() (held bool) {
	segments := e.journal.Segments()
	total := trim.Size(segments)
	if total <= e.opts.JournalSize || e.journal.Failing() || e.journal.Full() {
		return false
	}
	asked := e.hideOld(trim.LastBytes(segments, e.opts.JournalSize/4*3))
	use := e.measureUse(segments)
	limit := use.Limit(e.opts.JournalSize)
	if e.withheld.oldest > 0 || e.backing.HasSegments() {
		// From some segment on nothing is dropped, even if no queue needs it, and clients need not wait for that.
		e.journal.SetMost(limit+total, e.opts.SegmentSize)
		return false
	}
	e.journal.SetMost(limit, e.opts.SegmentSize)
	if total <= limit {
		return asked
	}
	l, ok := use.Plan(e.opts.JournalSize, total-limit/4*3, &e.debt)
	if !ok {
		return asked
	}
	held = e.keepAllReads(&l)
	l.Small = min(l.Small, limit/rewriteShare)
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if seg, ok := q.windowSegment(); ok && !q.deleted && seg < l.Target {
			held = true
			e.letGoWindow(q, &l)
		}
	})
	return held
}

// hideOld asks for delayed items to be hidden in the queues that may hold one of the segments before target. It
// reports whether there are any.
func (e *Engine) hideOld(target uint64) (asked bool) {
	e.eachShard(func(sh *shard, queues iter.Seq[*queue]) {
		sh.mu.Lock()
		before := sh.pins.Before(target)
		sh.mu.Unlock()
		if !before {
			return
		}
		for q := range queues {
			sh.mu.Lock()
			if q.delayedMemory() >= smallBytes {
				e.wantHide(q, true)
				asked = asked || q.aside.hidden.queuedHide
			}
			sh.mu.Unlock()
		}
	})
	return asked
}

// letGoWindow has the window of q, and what is behind it, no longer need a segment before the target. That is true at
// once, or as soon as the spool has done its work. The caller holds the shard's mutex.
func (e *Engine) letGoWindow(q *queue, l *trim.Plan) {
	n := q.rewriteSize()
	most := &l.Windows
	if n > tinyBytes {
		most = &l.Small
	}
	if q.isSmall() && n <= *most && l.Take(n, &e.debt) {
		*most -= n
		e.keepWindow(q)
		return
	}
	e.spillAll(q, false)
}

// keepAllReads rewrites open and returned reads that pin a segment before the target, as long as that is allowed. It
// reports whether there were any.
func (e *Engine) keepAllReads(l *trim.Plan) (held bool) {
	e.eachShard(func(sh *shard, queues iter.Seq[*queue]) {
		sh.mu.Lock()
		before := sh.pins.Before(l.Target)
		sh.mu.Unlock()
		if !before {
			return
		}
		held = true
		for q := range queues {
			at := readCursor{}
			processor.InPieces(&sh.mu, e.opts.yield, func() (more bool) { return e.keepOldReads(q, l, &at) })
		}
	})
	return held
}

// keepOldReads rewrites a batch of reads, and of what is aside, that pin a segment before the target. It reports
// whether there may be more. It leaves out items on their way to another queue. The journal may already say that they
// have arrived, and they let go of their segment in a moment.
func (e *Engine) keepOldReads(q *queue, l *trim.Plan, at *readCursor) (more bool) {
	n, seen := int64(0), 0
	full := func() bool { return n >= rewriteBatch || seen >= readBatch }
	for r := range at.reads(q, &q.returned, &q.open) {
		if full() {
			return true
		}
		if seen++; r.pinned == 0 || r.pinned >= l.Target {
			continue
		}
		size := int64(len(r.item.Data)) + keepOverhead
		if !l.Take(size, &e.debt) {
			return false
		}
		e.keepRead(q, r)
		n += size
	}
	for r := range at.asides(q) {
		if full() {
			return true
		}
		seen++
		seg := q.aside.Segment(r)
		switch {
		case seg == 0 || seg >= l.Target:
		case q.livesInRun(q.aside.ID(r)) != nil:
			q.lieIn(r, 0)
		case q.aside.hidden.queuedHide && q.aside.Get(r).State == aside.Delayed: // it is about to leave
		default:
			size := pinSize(len(q.aside.Item(r).Data))
			if !l.Take(size, &e.debt) {
				return false
			}
			e.rewriteAside(q, r)
			n += size
		}
	}
	return false
}

// keepWindow rewrites the items of the window that have their place in the journal.
func (e *Engine) keepWindow(q *queue) {
	q.segments.Clear()
	q.window.Each(func(it Item) bool {
		if it.ID > q.spilledTo {
			q.noteSegment(e.rewriteItem(q, &it), it.ID)
		}
		return true
	})
}

// spillAll has everything in memory leave that is not in a run, and be recorded; and, if unload is set, forget what is.
func (e *Engine) spillAll(q *queue, unload bool) {
	e.enterReadBehind(q)
	b := q.backlog
	e.detach(q, -1)
	if unload && q.window.Count > 1 {
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
		if n := q.inMemory() + q.delayedMemory(); n >= smallBytes && !q.deleted {
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
			if h.q.delayedMemory() >= smallBytes {
				e.wantHide(h.q, true)
			}
		}
		h.q.shard.mu.Unlock()
		excess -= h.bytes
	}
}

// measureUse looks at every queue.
func (e *Engine) measureUse(segments []segment.Segment) trim.Use {
	u := trim.NewUse(segments)
	e.eachShard(func(sh *shard, queues iter.Seq[*queue]) {
		for q := range queues {
			sh.mu.Lock()
			addUse(&u, q)
			sh.mu.Unlock()
		}
		sh.mu.Lock()
		defer sh.mu.Unlock()
		u.AddPins(&sh.pins)
	})
	for q := range processor.InTurn(e.spool.hiders.All(e.opts.yield), new(int), e.opts.yield) {
		e.spool.eachHidden(q, func(r *hidden.Run) {
			if q.inJournal() {
				u.State += record.MaxHiddenSize + r.IDs().MaxEncoded()
			}
		})
	}
	return u
}

// addUse adds what q takes, but for its reads. The caller holds the shard's mutex.
func addUse(u *trim.Use, q *queue) {
	if !q.inJournal() {
		return
	}
	u.State += q.stateSize()
	n := q.rewriteSize()
	if n > tinyBytes || !q.isSmall() {
		return
	}
	if seg, ok := q.windowSegment(); ok {
		u.AddTiny(seg, n)
	}
}

// stateSize is how many bytes a checkpoint takes for q, at most, without its hidden runs. The caller holds the shard's mutex.
func (q *queue) stateSize() int64 {
	n := int64(2 + record.NumberSize(q.number) + record.NumberSize(q.nextID) + record.NumberSize(uint64(q.created)) + len(q.name))
	if b := q.backlog; b != nil {
		n += int64(len(b.runs)+len(b.spent))*record.MaxSpillSize + q.goneStateSize()
	}
	if q.spilled {
		n += (1 + q.returned.Len() + q.open.Len() + q.moving.Len()) * record.MaxRemoveSize
		if q.aside != nil {
			n += int64(q.aside.Len()) * record.MaxRemoveSize
		}
	}
	return n
}

// rewriteSize is how many bytes it takes to rewrite the window of the queue, at most.
func (q *queue) rewriteSize() int64 {
	w := &q.window
	each := 1 + record.NumberSize(q.number) + record.NumberSize(q.nextID) + item.PlainImageSize + item.FlagsSize
	return w.Bytes + w.Bytes/math.MaxUint8*3 + w.Count*int64(each) + w.Expiring*item.TimeSize
}

// isSmall reports whether the queue is to be rewritten rather than spilled. The caller holds the shard's mutex.
func (q *queue) isSmall() bool {
	return q.inJournal() && (q.backlog == nil || !q.backlog.inReadBehind) &&
		q.window.Bytes <= smallBytes && q.window.Count <= smallBytes/item.PlainImageSize &&
		q.writtenTo == q.spilledTo
}
