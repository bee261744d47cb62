package engine

// sweepBatch is how many expired items are removed at most before the shard is unlocked for a
// moment.
const sweepBatch = 1024

// sweep removes expired items from the head of q, up to limit, and returns how many. The caller
// holds the shard's mutex, and gives it back with unlock.
func (e *Engine) sweep(q *queue, now Time, limit int64) (n int64) {
	for ; n < limit && q.mayExpire(); n++ {
		it, ok := q.first()
		if !ok || !q.expired(it, now) {
			break
		}
		q.counters.expired++
		if target := q.opts.ExpireTo; target != "" {
			e.moveOut(q, it, target)
			continue
		}
		q.remove(e.journal, it.ID)
		e.drop(q, it)
	}
	return n
}

// swept removes a batch of expired items and reports whether that was all of them.
func (e *Engine) swept(q *queue, now Time) bool { return e.sweep(q, now, sweepBatch) < sweepBatch }

// maxSweeps is how many batches of expired items a fetch removes itself: about a millisecond's work.
const maxSweeps = 3

// sweepLater has expired items at the head of q removed in the background, because there are many. Until
// that is done, whoever fetches from q waits, as for an item that is read from disk. The caller holds
// the shard's mutex.
func (e *Engine) sweepLater(q *queue) {
	q.sweeping = true
	e.spool.fills.add(q)
}

// FlushExpired removes expired items from the head of the queue called name, up to its
// MaxExpireSweep, and returns how many. Those that are on disk alone are not counted: they are
// removed as soon as they have been read. It does not make the queue.
func (e *Engine) FlushExpired(now Time, name []byte) (int64, Ticket) {
	defer contain()
	n, t, _ := e.FlushingExpired(name).run(now)
	return n, t
}

// FlushAllExpired is FlushExpired for every queue; it returns the sum.
func (e *Engine) FlushAllExpired(now Time) (int64, Ticket) {
	defer contain()
	n, t, _ := e.FlushingAllExpired().run(now)
	return n, t
}
