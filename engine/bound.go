package engine

import (
	"cmp"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

const (
	// keepBytes is how many bytes of items a queue may have in the journal to be rewritten there,
	// rather than spilled, when it holds old segments: ten thousand queues of a few items each need
	// no file.
	keepBytes = 64 << 10
	// keepShare is the part of the journal, one in so many bytes, that windows of such queues may be
	// rewritten in one go. What is more is spilled.
	keepShare = 4
	// tinyBytes is how much of the journal a queue may take that is not worth a file, and
	// keepGrowth how many times its size the journal may have to hold such queues: a hundred
	// thousand of them would otherwise make as many files.
	tinyBytes  = 8 << 10
	keepGrowth = 16
	// keepBatch is how many bytes of open reads are rewritten before the shard is unlocked, and
	// readBatch at how many it looks.
	keepBatch = 256 << 10
	readBatch = 1024
)

// boundJournal has queues let go of the oldest segments of a journal that has outgrown its size:
// few items, and open reads, are rewritten at its end; many are spilled. It reports whether any
// queue held one.
func (e *Engine) boundJournal() (held bool) {
	segments := e.journal.Segments()
	total := allBytes(segments)
	if total <= e.opts.JournalSize || e.journal.Failing() || e.journal.Full() {
		return false
	}
	use := e.measureUse(segments)
	limit := use.journalLimit(e.opts.JournalSize)
	if e.withheld.oldest > 0 || e.backing.holdsSegments() {
		// From some segment on nothing is dropped, whoever lets go of it, and clients need not wait for that.
		e.journal.SetMost(limit+total, e.opts.SegmentSize)
		return false
	}
	e.journal.SetMost(limit, e.opts.SegmentSize)
	if total <= limit {
		return false
	}
	l, ok := use.plan(e.opts.JournalSize, total-limit/4*3, &e.rewriting)
	if !ok {
		return false
	}
	held = e.keepAllReads(&l)
	l.small = min(l.small, limit/keepShare)
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if seg, ok := q.windowSegment(); ok && !q.deleted && seg < l.target {
			held = true
			e.letGoWindow(q, &l)
		}
	})
	return held
}

// letGoWindow has the window of q, and what is behind it, need no segment before the target any more,
// now or as soon as the spool has done its work. The caller holds the shard's mutex.
func (e *Engine) letGoWindow(q *queue, l *letGo) {
	n := q.rewriteSize()
	most := &l.windows
	if n > tinyBytes {
		most = &l.small
	}
	if q.isSmall() && n <= *most && e.takeRewrite(l, n) {
		*most -= n
		e.keepWindow(q)
		return
	}
	e.spillAll(q, false)
}

// keepAllReads rewrites open and returned reads that hold a segment before the target, as long as
// that is allowed. It reports whether there were any.
func (e *Engine) keepAllReads(l *letGo) (held bool) {
	e.eachShard(func(sh *shard, queues []*queue) {
		sh.mu.Lock()
		before := sh.pins.before(l.target)
		sh.mu.Unlock()
		if !before {
			return
		}
		held = true
		for _, q := range queues {
			for at, more := (readCursor{}), true; more; {
				sh.mu.Lock()
				more = e.keepOldReads(q, l, &at)
				sh.mu.Unlock()
			}
		}
	})
	return held
}

// readCursor is where a walk over the reads of a queue goes on after others have been let in: behind
// that read, unless it has ended, in that list.
type readCursor struct {
	list  int
	after ReadRef
	aside bool // the lists are done, and of what is aside so many are left
	left  int
}

// keepOldReads rewrites a batch of reads that hold a segment before the target. It reports whether
// there may be more. Items on their way to another queue are left out: the journal may say already
// that they have arrived, and they let go of their segment in a moment.
func (e *Engine) keepOldReads(q *queue, l *letGo, at *readCursor) (more bool) {
	n, seen := int64(0), 0
	for lists := [...]*readList{&q.returned, &q.open}; at.list < len(lists); at.list++ {
		r := lists[at.list].First()
		if last := at.after; last.live() && last.r.q == q {
			r = last.r.link.Next()
		}
		for ; r != nil; r = r.link.Next() {
			if n >= keepBatch || seen >= readBatch {
				return true
			}
			at.after = ReadRef{r, r.id}
			seen++
			if r.pinned == 0 || r.pinned >= l.target {
				continue
			}
			size := int64(len(r.item.Data)) + keepOverhead
			if !e.takeRewrite(l, size) {
				return false
			}
			e.keepRead(q, r)
			n += size
		}
		at.after = ReadRef{}
	}
	return q.aside != nil && e.keepOldAside(q, l, at)
}

// keepOldAside is keepOldReads for what is aside. It walks from the last item down: what is removed
// meanwhile is replaced by the last, which has been visited or has been added since.
func (e *Engine) keepOldAside(q *queue, l *letGo, at *readCursor) (more bool) {
	if !at.aside {
		at.aside, at.left = true, q.aside.Len()
	}
	at.left = min(at.left, q.aside.Len())
	for n, seen := int64(0), 0; at.left > 0; seen++ {
		if n >= keepBatch || seen >= readBatch {
			return true
		}
		r := aside.Ref(at.left - 1)
		if segment := q.aside.Segment(r); segment != 0 && segment < l.target {
			size := pinSize(q.aside.Item(r))
			if !e.takeRewrite(l, size) {
				return false
			}
			e.rewriteAside(q, r)
			n += size
		}
		at.left--
	}
	return false
}

// keepWindow rewrites the items of the window that have their place in the journal.
func (e *Engine) keepWindow(q *queue) {
	q.segments = q.segments[:0]
	q.window.Each(func(it Item) bool {
		if it.ID > q.spilledTo {
			q.mark(e.rewriteItem(q, it), it.ID)
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
	n := q.window.Bytes
	if b := q.backlog; b != nil {
		n += b.recent.Bytes
	}
	return n
}
