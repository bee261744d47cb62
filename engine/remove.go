package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// ticketSoFar is what an operation on q must wait for that relies on all that has happened to it so
// far, also by others.
func (e *Engine) ticketSoFar(q *queue) Ticket {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	return e.ticketOf(q)
}

// clear drops every queued item in one step, whatever their number, and returns what is to be given
// back. The caller holds the shard's mutex.
func (e *Engine) clear(q *queue) rubbish {
	if q.inJournal() && q.items() > 0 {
		e.recordClear(q)
	}
	left := rubbish{q: q, parts: [3]item.Window{q.window}, reads: [2]readList{q.returned}}
	q.window, q.returned = item.Window{}, readList{}
	q.clears++
	if q.aside != nil {
		left.aside, left.holders = e.clearAside(q)
	}
	if b := q.backlog; b != nil {
		left.parts[1], left.parts[2] = b.leaving, b.recent
		e.dropBacklog(q)
	}
	q.segments.Clear()
	if q.keys != nil {
		q.rekey()
	}
	return left
}

// recordClear records that all queued items of q are gone. It names those that stay or those that go, whichever are
// fewer. So the journal grows by no more than was put.
func (e *Engine) recordClear(q *queue) {
	var ids []uint64
	add := func(list *readList, from uint64) {
		for r := list.First(); r != nil; r = r.link.Next() {
			if r.item.ID >= from {
				ids = append(ids, r.item.ID)
			}
		}
	}
	leased := q.asideIn(func(s aside.State) bool { return s == aside.Leased })
	if q.open.Len()+q.moving.Len()+int64(len(leased)) <= q.items() {
		add(&q.open, 0)
		add(&q.moving, 0)
		ids = append(ids, leased...)
		e.journal.Record(q.number, func(b []byte) []byte {
			return record.AppendFlush(b, q.number, q.nextID, ids)
		})
		return
	}
	head := q.headID()
	add(&q.moving, head)
	for _, id := range leased {
		if id >= head {
			ids = append(ids, id)
		}
	}
	var gone idset.Bitmap
	gone.AddRange(idset.Between(head, q.nextID-1))
	for _, id := range ids {
		gone.Remove(id)
	}
	for r := q.returned.First(); r != nil; r = r.link.Next() {
		gone.Add(r.item.ID)
	}
	for _, id := range q.asideIn(func(s aside.State) bool { return s != aside.Leased }) {
		if id < head {
			gone.Add(id)
		}
	}
	if q.aside != nil && head > 1 {
		for _, r := range q.aside.hidden.Runs() {
			for part := range r.DiskIDs().Within(idset.Between(1, head-1)) {
				gone.AddRange(part)
			}
		}
	}
	e.journal.Record(q.number, func(b []byte) []byte { return q.appendGone(b, gone.Within(idset.Between(1, q.nextID-1))) })
}

// delete removes q, and returns what is to be given back. The caller holds the shard's mutex.
func (e *Engine) delete(q *queue) (t Ticket, left rubbish) {
	if q.opts.KeepJournal {
		t = q.ticket(e.journal, e.forget(q))
	}
	q.shard.deleted = q.shard.deleted.Merge(t)
	q.deleted = true
	e.clearAlarm(q)
	q.forgetMeter()
	q.shard.unlink(q)
	e.queueCount.Add(-1)
	e.deletes.Add(1)
	left = e.clear(q)
	left.reads[1], q.open = q.open, readList{}
	return t, left
}

// rubbish is what a queue held when it was flushed or deleted, and nobody can see any more. To give
// all of it back at once would keep the shard locked for long.
type rubbish struct {
	q     *queue // with waits to be ended, if it was deleted
	parts [3]item.Window
	reads [2]readList
	aside *aside.Set // nil without any
	// holders are those of the leases among them.
	holders holders
}

func (r *rubbish) empty() bool { return r.q == nil }

// dispose gives up to n chunks and reads back, or ends as many waits, and returns how many.
func (r *rubbish) dispose(n int) (done int) {
	sh := r.q.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for ; done < n; done++ {
		if !r.disposeOne(sh) {
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
	if r.aside != nil && r.aside.Len() == 0 {
		r.aside.Clear()
		r.aside = nil
	}
	if r.aside != nil {
		last := aside.Ref(r.aside.Len() - 1)
		sh.pins.Add(r.aside.Segment(last), -1, -pinSize(len(r.aside.Item(last).Data)))
		if r.holders != nil {
			r.holders.letGo(sh, r.aside.Get(last).Token)
		}
		r.aside.Remove(last)
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

// rekey makes the index that of the open and the leased items alone.
func (q *queue) rekey() {
	if q.keys == nil {
		return
	}
	q.keys.Clear()
	if q.deleted {
		return
	}
	for r := q.open.First(); r != nil; r = r.link.Next() {
		if r.item.HasKey() {
			q.noteNewest(&r.item)
		}
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		if it := q.aside.Item(r); it.HasKey() {
			q.noteNewest(&it)
		}
	}
}
