package engine

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
	return !q.mayExpire() || e.sweep(q, now, q.sweepMost()) < q.sweepMost()
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
