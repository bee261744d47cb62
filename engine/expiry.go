package engine

// This file removes what leaves the head of a queue unasked: expired items, and those that a full queue owes.

const (
	// sweepBatch is how many expired items are removed at most before the shard is unlocked for a moment.
	sweepBatch = 1024
	// moveBatch is the same of items that go to another queue: each takes as long as a put.
	moveBatch = 128
)

// sweepMost is how many expired items of q are removed at most before the shard is unlocked.
func (q *queue) sweepMost() int64 {
	if q.opts.ExpireTo != "" {
		return moveBatch
	}
	return sweepBatch
}

// sweep removes expired items from the head of q, up to limit, and returns how many. The caller
// holds the shard's mutex, and gives it back with unlock.
func (e *Engine) sweep(q *queue, now Time, limit int64) (n int64) {
	for ; n < limit && q.mayExpire(); n++ {
		var it Item
		ok := q.first(&it)
		if !ok || !q.expired(&it, now) {
			break
		}
		q.counters.expired++
		if target := q.opts.ExpireTo; target != "" {
			e.moveOut(q, &it, target)
			continue
		}
		q.remove(e.journal, it.ID, len(it.Data))
		e.drop(q, &it)
	}
	return n
}

// swept removes a batch of expired items and reports whether that was all of them.
func (e *Engine) swept(q *queue, now Time) bool {
	most := q.sweepMost()
	return e.sweep(q, now, most) < most
}

// maxSweeps is how many batches of expired items a fetch removes itself: about a millisecond's work.
const maxSweeps = 3

// sweepLater has expired items at the head of q removed in the background, because there are many. Until that is done,
// a fetch from q waits, as for an item that is read from disk. The caller holds the shard's mutex.
func (e *Engine) sweepLater(q *queue) {
	q.sweeping = true
	e.spool.fills.Add(q)
}

// headBusy reports whether the head of q is being swept or dropped, or items are being brought back to it, in
// pieces. Until that is done, fetches wait.
func (q *queue) headBusy() bool { return q.sweeping || q.settling || q.aborting > 0 }

// moveOut takes the first item of q, which is it, out of reach of fetches. The caller holds the shard's
// mutex, and gives it back with unlock.
func (e *Engine) moveOut(q *queue, it *Item, target string) {
	q.leaves(it)
	r := e.takeNext(q, it)
	q.lastGone = it.Added
	r.to(readMoving)
	r.target = target
	q.moving.pushBack(r)
	q.pickUpMoves()
}

// pickUpMoves gives the caller, which holds the shard's mutex, the moves of q to carry, unless another goroutine carries
// them. Then takeMoves returns q.
func (q *queue) pickUpMoves() {
	if q.carried || q.moving.First() == nil {
		return
	}
	q.carried = true
	q.shard.moves = append(q.shard.moves, q)
}

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

// discard drops the item to hand out next, which is it, because the queue is full.
func (e *Engine) discard(q *queue, it *Item) {
	q.remove(e.journal, it.ID, len(it.Data))
	e.drop(q, it)
	q.counters.discarded++
}
