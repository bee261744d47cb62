package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/accountname"
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// Clearing is a flush, a deletion, or a removal of expired items, of one queue or of all. It is done in pieces, so that
// its caller may do something else in between. Others may use the queues meanwhile; of what they put, a flush may remove
// some or all.
//
// Its methods are for one goroutine at a time:
//
//	for c.Do(Now(), n) {
//		c.Wait()
//	}
//	removed, ticket, err := c.Result()
//
// A caller that stops before there is no more to do calls GiveUp. Some queues are cleared then, and others not.
type Clearing struct {
	e        *Engine
	kind     clearingKind
	clientID string

	admitting bool           // all queues are asked first whether they admit the client
	shards    int            // of how many the queues are still to be visited
	queues    []*queue       // to visit before those
	queue     *queue         // being cleared; nil between two
	limit     uint64         // ids of its items from here on were put behind the flush
	swept     int64          // expired items removed from it
	dropping  bool           // its expired items cannot be read: they go with the others
	done      bool           // it is cleared; what it had to move may still be on its way
	last      ReadRef        // what must have arrived before the next piece; zero for nothing
	waits     bool           // the next piece needs last to arrive, or something of the disk
	staying   *marks.Staying // what it leaves of the queue; nil as long as expired items move
	at        readCursor
	rubbish   rubbish

	refusing string // the name of a queue that does not admit the client
	removed  int64
	ticket   Ticket
	err      error
}

type clearingKind uint8

const (
	clearFlush clearingKind = iota
	clearExpired
	clearDelete
)

const (
	// clearingPiece is how much a piece does if nobody waits for it: see Do.
	clearingPiece = 1024
	// maxFlushes is how many flushes of a queue look at a time for what stays: each hears of every item that is taken.
	maxFlushes = 4
)

// Flushing is [Engine.Flush] in pieces.
func (e *Engine) Flushing(name []byte, clientID string) *Clearing {
	return e.clearOne(clearFlush, name, clientID)
}

// FlushingAll is [Engine.FlushAll] in pieces.
func (e *Engine) FlushingAll(clientID string) *Clearing {
	return &Clearing{
		e: e, kind: clearFlush, clientID: clientID, shards: len(e.shards), admitting: true,
	}
}

// FlushingExpired is [Engine.FlushExpired] in pieces.
func (e *Engine) FlushingExpired(name []byte) *Clearing { return e.clearOne(clearExpired, name, "") }

// FlushingAllExpired is [Engine.FlushAllExpired] in pieces.
func (e *Engine) FlushingAllExpired() *Clearing {
	return &Clearing{e: e, kind: clearExpired, shards: len(e.shards)}
}

// Deleting is [Engine.Delete] in pieces.
func (e *Engine) Deleting(name []byte) *Clearing { return e.clearOne(clearDelete, name, "") }

func (e *Engine) clearOne(kind clearingKind, name []byte, clientID string) *Clearing {
	defer contain()
	c := &Clearing{e: e, kind: kind, clientID: clientID}
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q != nil {
		c.queues = append(c.queues, q)
	} else {
		c.err = e.withheld.refusal(string(name))
		c.ticket = e.ticketOfNone(string(name))
	}
	return c
}

// GiveUp ends a Clearing of which Do has reported more. It gives back the memory of what is dropped by then, and does no
// more. It reports whether there was more to do than that.
func (c *Clearing) GiveUp() (unfinished bool) {
	defer contain()
	c.rubbish.disposeAll(c.e.opts.yield)
	if q := c.queue; q != nil {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		q.endLooking(c.staying)
	}
	return c.queue != nil || len(c.queues)+c.shards > 0
}

// ticketOfNone is what the answer "there is no such queue" must wait for. Another caller may have deleted the queue,
// and that may not be durable yet. The caller holds the shard's mutex.
func (e *Engine) ticketOfNone(name string) Ticket {
	q := queue{opts: e.settings.Load().shared(name)}
	if !q.opts.KeepJournal {
		return Ticket{}
	}
	return q.ticket(e.journal, e.journal.End())
}

// Do does the next piece and reports whether there is more to do. A piece visits n queues, or removes n expired items, or
// gives back as much memory; it takes n microseconds at most, about. It never waits for the disk, or for another goroutine.
func (c *Clearing) Do(now Time, n int) (more bool) {
	defer contain()
	c.waits = false
	for n > 0 && !c.waits {
		if !c.rubbish.empty() {
			n -= c.rubbish.dispose(n)
			continue
		}
		if c.queue == nil && !c.next() {
			return false
		}
		n -= 1 + c.piece(now, n)
	}
	return true
}

// Wait waits for what the next piece needs: items that go to another queue are read back, or another goroutine carries them.
func (c *Clearing) Wait() {
	defer contain()
	if !c.waits {
		return
	}
	if !c.last.IsZero() {
		c.e.awaitMoves(c.queue, c.last)
		return
	}
	err := c.e.spool.bring(c.queue)
	switch {
	case err == nil:
	case runs.IsDamage(err):
		c.dropping = true
		c.e.log.Error("flush dropped expired items that could not be read", "queue", c.queue.name, "err", err)
	default:
		c.queue, c.err = nil, cmp.Or(c.err, err)
	}
}

// Ahead reports whether expired items have been moved to a queue that takes them faster than the disk does. The caller
// should then wait before the next piece; see [Stored].
func (c *Clearing) Ahead() bool {
	defer contain()
	q := c.queue
	if q == nil {
		return false
	}
	q.shard.mu.Lock()
	target := q.opts.ExpireTo
	q.shard.mu.Unlock()
	return target != "" && c.e.Ahead([]byte(target))
}

// Result may be called when Do has reported that there is no more. If only expired items were to go, it returns how
// many were removed. The reply must wait for t. The error is a *NotAdmittedError, one that wraps ErrBacklog, or
// ErrClosed.
func (c *Clearing) Result() (removed int64, t Ticket, err error) { return c.removed, c.ticket, c.err }

// finish does all of it, and waits for the disk if it must.
func (c *Clearing) finish(now Time) (removed int64, t Ticket, err error) {
	for c.Do(now, clearingPiece) {
		c.Wait()
		c.e.opts.yield()
	}
	return c.Result()
}

// next goes on to the next queue, and reports whether there is one.
func (c *Clearing) next() bool {
	for len(c.queues) == 0 {
		switch {
		case c.shards > 0:
			c.shards--
			c.queues = c.e.shards[c.shards].list(c.queues[:0])
			if c.kind == clearFlush {
				c.queues = slices.DeleteFunc(c.queues, func(q *queue) bool { return accountname.Of(q.name) != "" })
			}
		case c.admitting && c.err == nil:
			c.admitting, c.shards = false, len(c.e.shards)
		default:
			return false
		}
	}
	last := len(c.queues) - 1
	c.queue, c.queues = c.queues[last], c.queues[:last]
	c.limit, c.swept, c.dropping, c.done, c.staying = 0, 0, false, false, nil
	return true
}

// piece does up to n steps for the queue, and returns how many beyond the first it did.
func (c *Clearing) piece(now Time, n int) (steps int) {
	q := c.queue
	q.shard.mu.Lock()
	if c.last.live() { // another goroutine carries it; what this one adds would not arrive any sooner
		q.shard.mu.Unlock()
		c.waits = true
		return 0
	}
	c.last = ReadRef{}
	if !c.done {
		steps, c.done = c.work(q, now, n)
	}
	c.e.unlock(q.shard, now)
	if c.done && c.last.IsZero() {
		c.queue = nil
		if c.kind == clearFlush && !c.admitting || c.swept > 0 {
			c.ticket = c.ticket.Merge(c.e.ticketSoFar(q))
		}
	}
	return steps
}

// work is the part of piece that needs the shard's mutex, which the caller holds.
func (c *Clearing) work(q *queue, now Time, n int) (steps int, done bool) {
	switch {
	case q.deleted:
		return 0, true
	case c.admitting:
		c.ask(q)
		return 0, true
	case c.kind == clearFlush:
		steps, done = c.flush(q, now, n)
	case c.kind == clearExpired:
		steps, done = c.expire(q, now, n)
	default:
		t, left := c.e.delete(q)
		c.ticket, c.rubbish = c.ticket.Merge(t), left
		return 0, true
	}
	if r := q.moving.Last(); r != nil {
		c.last = ReadRef{r, r.id}
	}
	return steps, done
}

// ask notes whether q admits the client. The caller holds the shard's mutex.
func (c *Clearing) ask(q *queue) {
	err := q.admitConsumer(c.clientID)
	if err != nil && (c.err == nil || q.name < c.refusing) {
		c.refusing, c.err = q.name, err
	}
}

// flush removes expired items from the head of q, if they go to another queue. It stops at the first that has not
// expired or was put behind the flush. Then it removes all others in one step. The caller holds the shard's mutex, and
// releases it by unlock.
func (c *Clearing) flush(q *queue, now Time, n int) (steps int, done bool) {
	e := c.e
	if c.limit == 0 {
		if err := q.admitConsumer(c.clientID); err != nil {
			c.err = cmp.Or(c.err, err)
			return 0, true
		}
		c.limit = q.nextID
	}
	if q.opts.ExpireTo != "" && !c.dropping && c.staying == nil {
		limit := min(int64(n), moveBatch)
		if c.swept = e.sweep(q, now, limit); c.swept == limit {
			return int(limit), false
		}
		if !q.atHand() && q.coming() && q.headID() < c.limit {
			c.waits = true
			return int(c.swept), false
		}
	}
	if c.staying == nil && q.returned.First() == nil && q.headID() >= c.limit && (q.aside == nil || q.asideQueued().Count == 0) {
		e.shrink(q) // all that was there is gone; what was put since may have been taken back into memory
	} else {
		if c.staying == nil && len(q.flushes) == maxFlushes {
			return n, false // others have their turn first
		}
		if c.staying == nil {
			c.staying, c.at = &marks.Staying{}, readCursor{}
			q.flushes = append(q.flushes, c.staying)
		}
		if c.at.look(q, c.staying, e.opts.lookBatch) || q.say(c.staying, 8*e.opts.lookBatch) {
			return int(c.swept) + readBatch/8, false
		}
		if q.aside != nil && q.aside.Dropped() > 0 { // by another flush
			c.rubbish = rubbish{q: q}
			return int(c.swept), false
		}
		c.rubbish = e.clear(q, c.staying)
	}
	e.serveWaiters(q, now)
	q.counters.flushes++
	return int(c.swept), true
}

// expire removes expired items from the head of q, up to its MaxExpireSweep. The caller holds the
// shard's mutex, and releases it by unlock.
func (c *Clearing) expire(q *queue, now Time, n int) (steps int, done bool) {
	limit := min(q.opts.MaxExpireSweep-c.swept, int64(n), q.sweepMost())
	removed := c.e.sweep(q, now, limit)
	c.swept += removed
	c.removed += removed
	if removed == limit && c.swept < q.opts.MaxExpireSweep {
		return int(removed), false
	}
	c.e.owesSweep(q, q.opts.MaxExpireSweep-c.swept)
	return int(removed), true
}

// Flush removes every item of the queue called name that is queued; open reads stay. Expired items go where the queue's
// options say, in their order, up to the first that has not expired. Flush waits for the disk to bring those there that
// are on disk alone. The others are dropped in one step. It does not make the queue, and an alias is left alone. It
// returns a *NotAdmittedError, having changed nothing, or an error that wraps ErrBacklog if expired items cannot be
// read now.
func (e *Engine) Flush(now Time, name []byte, clientID string) (Ticket, error) {
	defer contain()
	_, t, err := e.Flushing(name, clientID).finish(now)
	return t, err
}

// FlushAll flushes every queue of DefaultAccount. If any queue does not admit the client it flushes none, and returns
// the *NotAdmittedError of the first such queue by name. A queue that Reload closes to it meanwhile is left out, and
// the others are flushed. So is one of which expired items cannot be read now: see Flush.
func (e *Engine) FlushAll(now Time, clientID string) (Ticket, error) {
	defer contain()
	_, t, err := e.FlushingAll(clientID).finish(now)
	return t, err
}

// Delete removes the queue called name with all its items, also those in open reads, and ends its
// waits. The next use of the name makes a new queue. Deleting a queue that does not exist, or an
// alias, does nothing; nor does deleting one that is withheld: [Engine.Deleting] returns the error.
func (e *Engine) Delete(now Time, name []byte) Ticket {
	defer contain()
	_, t, _ := e.Deleting(name).finish(now)
	return t
}

// FlushAllExpired is FlushExpired for every queue; it returns the sum.
func (e *Engine) FlushAllExpired(now Time) (int64, Ticket) {
	defer contain()
	n, t, _ := e.FlushingAllExpired().finish(now)
	return n, t
}

// FlushExpired removes expired items from the head of the queue called name, up to its
// MaxExpireSweep, and returns how many. Those that are on disk alone are not counted: they are
// removed as soon as they have been read. It does not make the queue.
func (e *Engine) FlushExpired(now Time, name []byte) (int64, Ticket) {
	defer contain()
	n, t, _ := e.FlushingExpired(name).finish(now)
	return n, t
}

// clear drops all that s does not say stays, in one step, and returns what is to be given back. Files of hidden runs are
// left to tend. The shard is locked.
func (e *Engine) clear(q *queue, s *marks.Staying) rubbish {
	if q.inJournal() && q.items() > 0 {
		e.recordFlush(q, s)
	}
	left := rubbish{q: q, parts: [3]item.Window{q.window}, reads: [2]readList{q.returned}}
	q.window, q.returned = item.Window{}, readList{}
	q.clears++
	if k := q.keeping; k != nil {
		k.late = slices.DeleteFunc(k.late, func(ref ReadRef) bool { return ref.r.state == readReturned })
	}
	if a := q.aside; a != nil {
		leased := a.Tally(aside.Leased)
		a.hidden.Retain(&s.IDs)
		a.Flush(q.deleted)
		q.noteLeased(leased)
	}
	if b := q.backlog; b != nil {
		left.parts[1], left.parts[2] = b.leaving, b.recent
		e.dropBacklog(q)
	}
	q.segments.Clear()
	if q.keys != nil && s.IDs.IsEmpty() {
		q.keys.Clear()
	} else if q.keys != nil {
		left.keys = &keysLeft{stay: &s.IDs, limit: q.nextID, leaves: math.MaxInt}
	}
	q.endLooking(s)
	return left
}

// goneBy returns what of q goes by a flush that leaves s, and whether its record is to name that; see marks.Staying.Gone.
func (q *queue) goneBy(s *marks.Staying) (gone idset.Bitmap, named bool) {
	var hidden []*idset.Bitmap
	if q.aside != nil && !s.IDs.IsEmpty() {
		hidden = q.aside.hidden.DiskIDs(marks.MostHidden + 1)
	}
	return s.Gone(idset.Between(q.headID(), q.nextID-1), hidden)
}

// say has s say a piece of what stays, if it is much, and the record is to name it. It reports whether there is more.
func (q *queue) say(s *marks.Staying, batch int) (more bool) {
	if !s.IsSaying() {
		if _, named := q.goneBy(s); named || s.IDs.Len() <= uint64(batch) {
			return false
		}
	}
	return s.Say(batch)
}

// recordFlush records that all queued items of q are gone: it names those that stay, or what goes.
func (e *Engine) recordFlush(q *queue, s *marks.Staying) {
	if s.IsSaying() {
		e.journal.RecordFrame(q.number, s.Frame(q.number, q.nextID))
		return
	}
	gone, named := q.goneBy(s)
	e.journal.Record(q.number, func(b []byte) []byte {
		if named {
			return record.AppendGone(b, q.number, gone.Within(idset.Between(1, q.nextID-1)))
		}
		return record.AppendFlushOf(b, q.number, q.nextID, s.IDs.Len(), func(yield func(uint64) bool) { s.IDs.Each(yield) })
	})
}

// delete removes q, and returns what is to be given back. The caller holds the shard's mutex.
func (e *Engine) delete(q *queue) (t Ticket, left rubbish) {
	if t = q.left; q.opts.KeepJournal {
		t = q.ticket(e.journal, e.forget(q))
	}
	q.shard.deleted = q.shard.deleted.Merge(t)
	q.deleted = true
	e.clearAlarm(q)
	q.forgetMeter()
	q.shard.unlink(q)
	e.queueCount.Add(-1)
	e.deletes.Add(1)
	left = e.clear(q, &marks.Staying{})
	left.reads[1], q.open = q.open, readList{}
	return t, left
}

// rubbish is what a queue held when it was flushed or deleted. All of it at once would keep the shard locked for long.
type rubbish struct {
	q     *queue // with waits to be ended, if it was deleted
	parts [3]item.Window
	reads [2]readList
	keys  *keysLeft // nil: none
}

// keysLeft is what is to be done for the keys of a queue that was flushed. At first entries of what is gone go from the
// index, of which so many leaves are left. Then what stays gets its keys: newer items may have had them.
type keysLeft struct {
	stay   *idset.Bitmap
	limit  uint64 // ids below that are gone unless they stay
	leaves int
	at     readCursor
}

func (r *rubbish) empty() bool { return r.q == nil }

// disposeAll gives all of it back, and calls pause between two pieces.
func (r *rubbish) disposeAll(pause func()) {
	for ; !r.empty(); pause() {
		r.dispose(clearingPiece)
	}
}

// disposeBatch is how many steps of dispose the shard is locked for: a quarter of a millisecond, about.
const disposeBatch = 256

// dispose gives up to n chunks and reads back, or ends as many waits, but no more than disposeBatch. It returns how many.
func (r *rubbish) dispose(n int) (done int) {
	sh := r.q.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for n = min(n, disposeBatch); done < n; done++ {
		if !r.disposeOne(sh) {
			if r.q.deleted && r.q.aside != nil {
				r.q.aside.Clear()
			}
			*r = rubbish{}
			break
		}
	}
	return done
}

func (r *rubbish) disposeOne(sh *shard) bool {
	for i := range r.parts {
		if r.parts[i].GiveChunk(&sh.pool) {
			return true
		}
	}
	for i := range r.reads {
		if read := r.reads[i].First(); read != nil {
			r.reads[i].remove(read)
			sh.freeRead(read)
			return true
		}
	}
	if a := r.q.aside; a != nil && a.Dropped() > 0 {
		a.Tidy(4, func(ref aside.Ref) {
			sh.pins.Of(a.Segment(ref)).Add(-1, -pinSize(len(a.Item(ref).Data)))
			a.holders.letGo(sh, a.Get(ref).Token)
		})
		return true
	}
	if r.keys != nil && !r.q.deleted {
		if !r.keys.piece(r.q) {
			r.keys = nil
		}
		return true
	}
	return r.q.deleted && r.q.endFirst(ErrDeleted)
}

// piece does a few steps, and reports whether there may be more.
func (k *keysLeft) piece(q *queue) (more bool) {
	if k.leaves > 0 {
		k.leaves = q.keys.Sweep(k.leaves, 1, func(id uint64) bool { return id < k.limit && !k.stay.Has(id) })
		return true
	}
	return k.at.each(q, 8, func(r *read) { q.noteNewest(&r.item) }, func(r aside.Ref) {
		it := q.aside.Item(r)
		q.noteNewest(&it)
	}, &q.open)
}
