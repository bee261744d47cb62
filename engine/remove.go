package engine

import (
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// clear drops all that s does not say stays, in one step, and returns what is to be given back. The shard is locked.
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
		e.spendRuns(q)
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
		hidden = q.aside.hidden.DiskIDs()
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
			return q.appendGone(b, gone.Within(idset.Between(1, q.nextID-1)))
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
			sh.pins.Add(a.Segment(ref), -1, -pinSize(len(a.Item(ref).Data)))
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
	w := r.q.waiters.First()
	if w == nil {
		w = r.q.watchers.First()
	}
	if w != nil && r.q.deleted {
		w.Err = ErrDeleted
		r.q.endWait(w, ReadRef{})
		return true
	}
	return false
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
