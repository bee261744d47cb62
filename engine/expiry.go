package engine

import "github.com/kestrelmq/kestrel/engine/internal/record"

// sweepBatch is how many expired items are removed at most before the shard is unlocked for a
// moment.
const sweepBatch = 1024

// sweep removes expired items from the head of q, up to limit, and returns how many. The caller
// holds the shard's mutex, and finishes the moves afterwards.
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

// move is an expired item between two queues. It stays in its queue's moving list, and the journal
// says that the queue has it, until the other queue has it.
type move struct {
	r      *read
	target string
	from   record.Destination // where the journal has it; zero if the journal does not
}

// moveOut takes the first item of q, which is it, out of reach of fetches.
func (e *Engine) moveOut(q *queue, it Item, target string) {
	sh := q.shard
	r := q.returned.head
	if r != nil {
		q.returned.remove(r)
	} else {
		r = sh.newRead(q, it, q.segmentOf(it.ID))
		q.window.Pop(&sh.pool, it)
		if q.backlog != nil {
			e.popped(q)
		}
	}
	q.lastGone = it.Added
	e.moving(q, r, target)
}

// moving puts r, which is in no list, among the items that go to the queue that takes expired ones.
func (e *Engine) moving(q *queue, r *read, target string) {
	r.to(readMoving)
	q.moving.pushBack(r)
	m := move{r: r, target: target}
	if q.opts.KeepJournal {
		m.from = record.Destination{Queue: q.number, Item: r.item.ID}
	}
	q.shard.moves = append(q.shard.moves, m)
}

// takeMoves returns the moves that an operation on the shard has left, for finishMoves.
func (sh *shard) takeMoves() []move {
	moves := sh.moves
	sh.moves = nil
	return moves
}

// finishMoves puts the items of moves into the queues they go to. No shard is locked by the caller:
// shards are locked one after the other, never two at once.
func (e *Engine) finishMoves(now Time, moves []move) {
	for len(moves) > 0 {
		m := moves[0]
		moves = append(moves[1:], e.moveIn(now, m)...)
		sh := m.r.shard
		sh.mu.Lock()
		q := m.r.q
		q.moving.remove(m.r)
		if !q.deleted {
			// The record of the move says so too. But what was told of q since then, before this
			// lock was taken, counted the item among those that live.
			q.remove(e.journal, m.r.item.ID)
		}
		sh.freeRead(m.r)
		sh.mu.Unlock()
	}
}

// moveIn appends a moved item to its target: directly, without its fanout children, as an item
// added now that has no expiry of its own. An item that the target refuses is lost, and counted. It
// reports whether the journal took the item from one queue to the other, and returns the moves that
// making room has caused.
func (e *Engine) moveIn(now Time, m move) (more []move) {
	sh := e.shardOf([]byte(m.target))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q, err := sh.queues[m.target], error(nil)
	if q == nil {
		q, _, err = e.make(sh, now, m.target)
	}
	if err != nil {
		e.log.Warn("expired item lost", "target", m.target, "err", err)
		return nil
	}
	if err := e.makeRoom(q, now, len(m.r.item.Data), sweepBatch); err != nil {
		q.counters.lostIn++
		return sh.takeMoves()
	}
	q.counters.movedIn++
	sh.targets = append(sh.targets[:0], q)
	e.append(sh, now, Item{Data: m.r.item.Data, Flags: m.r.item.Flags, Added: now}, m.from)
	return sh.takeMoves()
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
