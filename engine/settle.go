package engine

// A put or a sweep cannot drop or expire the oldest items while they are on disk alone. The engine
// does it when they have been read, before it serves anybody.

// owed is what a backlog owes. The shard's mutex guards it.
type owed struct {
	// overfull says that puts went over the queue's limits, the last of them with an item of size last.
	overfull bool
	last     int64
	// sweep is how many expired items a sweep would have removed still.
	sweep int64
}

// owesRoom notes that a put of n bytes finds the queue full. The oldest items must make room for
// it, and are on disk alone.
func (e *Engine) owesRoom(q *queue, n int) {
	b := q.backlog
	b.overfull, b.last = true, int64(n)
	e.wantFill(q)
}

// owesMuch notes that a put of n bytes finds q far over its limits, because RELOAD has lowered them. Then the
// background makes the room.
func (e *Engine) owesMuch(q *queue, n int) {
	b := e.needBacklog(q)
	b.overfull, b.last = true, int64(n)
	if !q.settling {
		q.settling = true
		e.spool.fills.Add(q)
	}
}

// owesSweep notes that a sweep has ended because the next item is on disk alone, if that is so. The
// sweep may remove up to limit more.
func (e *Engine) owesSweep(q *queue, limit int64) {
	if q.atHand() || limit <= 0 || !q.coming() || e.memoryShort() {
		return
	}
	q.backlog.sweep = limit
	e.wantFill(q)
}

// settleBatch is how many items that are owed are dropped at most before the shard is unlocked for a moment.
const settleBatch = 1024

// settle drops or expires, of items that have just been read, what q owes: a piece of it if that is much. Then the
// background goes on, and a fetch from q waits. The caller holds the shard's mutex, and releases it by unlock.
func (e *Engine) settle(q *queue, now Time) {
	b, goesOn := q.backlog, q.settling
	q.settling = false
	if b == nil {
		return
	}
	left := int64(settleBatch)
	later := func() {
		if q.settling = true; !goesOn {
			e.spool.fills.Add(q)
		}
	}
	if b.sweep > 0 {
		n := e.sweep(q, now, min(b.sweep, left))
		b.sweep, left = b.sweep-n, left-n
		if left == 0 && b.sweep > 0 {
			later()
			return
		}
		if q.atHand() || !q.coming() {
			b.sweep = 0
		}
	}
	for ; b.overfull; left-- {
		var it Item
		ok := q.first(&it)
		full := q.items() > q.opts.MaxItems || q.bytes()-b.last >= q.opts.MaxSize
		switch {
		case !full || !ok && !q.coming() || !q.opts.DiscardOldWhenFull:
			b.overfull = false
			e.spool.wantRecord(q) // the backlog may have been made for this alone
		case !ok:
			e.wantFill(q)
			return
		case left <= 0:
			later()
			return
		case q.expired(&it, now) && e.sweep(q, now, 1) > 0:
		default:
			e.discard(q, &it)
		}
	}
	if b.sweep > 0 {
		e.wantFill(q)
	}
}

// settleOn has the background settle what a piece has left, and reports whether there is more. When there is none it
// serves the waiters. The caller holds the shard's mutex.
func (e *Engine) settleOn(q *queue, now Time) (more bool) {
	if !q.settling {
		return false
	}
	if e.settle(q, now); !q.settling {
		e.serveWaiters(q, now)
	}
	return q.settling
}

// settleMore settles what can be settled, and reports whether more is owed for want of room.
func (s *spool) settleMore(q *queue) (more bool) {
	for pieces := true; pieces; {
		now := s.now()
		q.shard.mu.Lock()
		s.e.settle(q, now)
		pieces = q.settling
		more = q.backlog != nil && q.backlog.overfull
		s.e.unlock(q.shard, now)
	}
	return more
}

// discard drops the item to hand out next, which is it, because the queue is full.
func (e *Engine) discard(q *queue, it *Item) {
	q.remove(e.journal, it.ID, len(it.Data))
	e.drop(q, it)
	q.counters.discarded++
}
