package engine

import "github.com/kestrelmq/kestrel/engine/internal/record"

// Two shards are never locked at once. So an item that has expired, or is to go to the dead-letter queue, goes to
// another queue in two steps. The operation that meets it, with the lock of its shard held, puts it into the moving
// list of its queue. With no lock held, finishMoves then carries it to its target. Until it has arrived, the journal
// says that its own queue has it.
//
// One goroutine at a time carries for a queue: so items arrive in the order of the list. It also carries what others
// add meanwhile. Only those wait for it who say what has become of the items. Event loops may wait too: carrying is
// memory work. A goroutine that carries stops behind maxCarry items: 0.1 ms of small ones, 0.4 ms of 1 KiB. One that
// waits then goes on itself: the background may be busy with the disk.

// maxCarry is how many items an operation carries at most, its own and those of others. The background carries the rest.
const maxCarry = maxSweeps * moveBatch

// unlock unlocks sh, and then carries what its holder has moved. Every operation that may remove expired
// items, or add some, ends with it.
func (e *Engine) unlock(sh *shard, now Time) {
	if len(sh.moves) == 0 {
		sh.mu.Unlock()
		return
	}
	moves := sh.takeMoves()
	sh.mu.Unlock()
	e.finishMoves(now, moves)
}

// unlockReturned is unlock behind items of q that came back so, if q is not nil. When it returns, those that a client
// gave up have arrived in the dead-letter queue, whoever carries them. The reply must wait for the ticket.
func (e *Engine) unlockReturned(sh *shard, q *queue, now Time, how Return) (t Ticket) {
	if q == nil || how.How == Lost || how.How == Release || q.moving.Last() == nil {
		e.unlock(sh, now)
		return t
	}
	last := q.moving.Last()
	ref := ReadRef{last, last.id}
	e.unlock(sh, now)
	e.awaitMoves(q, ref)
	return e.ticketSoFar(q)
}

// takeMoves returns the queues that an operation on the shard is to carry for, for finishMoves.
func (sh *shard) takeMoves() []*queue {
	moves := sh.moves
	sh.moves = nil
	return moves
}

// finishMoves carries for the queues that takeMoves has returned, and for those that have to make room
// for what arrives. The caller has locked no shard.
func (e *Engine) finishMoves(now Time, moves []*queue) {
	for len(moves) > 0 {
		q := moves[0]
		moves = append(moves[1:], e.carry(now, q)...)
	}
}

// carry puts what q is moving where it goes, oldest first. It returns the queues to carry for because they made room.
func (e *Engine) carry(now Time, q *queue) (more []*queue) {
	sh, lost, kept := q.shard, refused{}, refused{}
	defer func() {
		if lost.items > 0 {
			e.log.Warn("expired item is lost: its queue for expired items cannot be made", lost.fields()...)
		}
		if kept.items > 0 {
			e.log.Warn("item stays in its queue: its dead-letter queue cannot be made", kept.fields()...)
		}
	}()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for n := 0; n < maxCarry && q.moving.First() != nil; n++ {
		r := q.moving.First()
		var from record.Destination // where the journal has the item; zero if it does not
		if q.inJournal() {
			from = record.Destination{Queue: q.number, Item: r.item.ID}
		}
		sh.mu.Unlock()
		arrived, others, err := e.moveIn(now, r, from)
		switch more = append(more, others...); {
		case err != nil && r.dead != 0:
			kept.note(r, err)
		case err != nil:
			lost.note(r, err)
		}
		sh.mu.Lock()
		q.moving.remove(r)
		if r.dead != 0 && !q.deleted {
			if !arrived {
				e.returnDead(q, r, now)
				continue
			}
			q.counters.deadLettered++
		}
		if !q.deleted {
			// The record of the move says so too. But what was recorded of q since then, before this
			// lock was taken, counted the item among those that live.
			q.remove(e.journal, r.item.ID, len(r.item.Data))
		}
		sh.freeRead(r)
	}
	q.carried = false
	if q.moving.First() != nil {
		e.spool.fills.Add(q)
	}
	sh.carried.Broadcast()
	return more
}

// refused is items whose target could not be made: one line of the log for all that an operation carries.
type refused struct {
	items  int
	target string
	err    error
}

func (l *refused) note(r *read, err error) { *l = refused{l.items + 1, r.target, err} }

func (l *refused) fields() []any { return []any{"items", l.items, "target", l.target, "err", l.err} }

// moveIn appends the item of r to its target directly, without the target's fanout children. The item counts as added
// now and has no expiry of its own. A dead-letter queue takes it whatever its limits are. An item that the target
// refuses is lost, and counted. It reports whether the item has arrived, and returns an error if there is no target.
// When the target made room, it also returns the queues whose items the caller is to carry.
func (e *Engine) moveIn(now Time, r *read, from record.Destination) (arrived bool, more []*queue, err error) {
	sh := e.shardOf([]byte(r.target))
	put := PutRequest{Data: r.item.Data, Flags: r.item.Flags}
	if r.dead != 0 {
		put.Expiry = r.item.Expiry
	}
	var large *largePut
	if r.item.HasOwnMemory() { // also past the memory limit: its own queue lets go of as much
		if r.dead != 0 {
			sh.mu.Lock()
			put.Extra = sh.queues[r.target].extraOf(now, &r.item, r.q.name, r.dead)
			sh.mu.Unlock()
		}
		large = e.image(&put, put.large(now, 1))
		defer e.dropLarge(large)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.queues[r.target]
	if q == nil {
		q, _, err = e.make(sh, now, r.target)
	}
	switch {
	case err != nil:
		return false, nil, err
	case r.dead != 0:
		put.Extra = q.extraOf(now, &r.item, r.q.name, r.dead) // without its key, if that was taken meanwhile: then large is not for it
	default:
		if err := e.makeRoom(q, now, len(r.item.Data), sweepBatch); err != nil {
			q.counters.lostIn++
			return false, sh.takeMoves(), nil
		}
		q.counters.movedIn++
	}
	sh.targets, sh.large = append(sh.targets[:0], q), large
	defer func() { sh.large = nil }()
	e.add(sh, now, &put, now, from, new(Stored))
	return true, sh.takeMoves(), nil
}

// extraOf is what q, also one that is not made, keeps of an item: its key, if that is free, and who gave it up.
func (q *queue) extraOf(now Time, it *Item, origin string, why Why) *PutExtra {
	x := &PutExtra{Key: it.Key(), origin: origin, why: why}
	if _, taken := q.ofKey(x.Key, now); taken {
		x.Key = nil
	}
	return x
}

// awaitMoves waits until the item of last, which q is moving, has arrived, and all before it. If nobody
// carries for q, it does so itself.
func (e *Engine) awaitMoves(q *queue, last ReadRef) {
	sh := q.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for last.live() {
		if q.pickUpMoves(); len(sh.moves) == 0 {
			sh.carried.Wait()
			continue
		}
		e.unlock(sh, e.spool.now())
		sh.mu.Lock()
	}
}
