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
	if !q.opts.KeepJournal {
		return Ticket{}
	}
	return q.ticket(e.journal, e.journal.End())
}

// clear drops every queued item in one step, whatever their number, and returns what is to be given
// back. The caller holds the shard's mutex.
func (e *Engine) clear(q *queue) rubbish {
	if q.inJournal() && q.items() > 0 {
		e.recordClear(q)
	}
	left := rubbish{q: q, parts: [3]item.Window{q.window}, reads: [2]readList{q.returned}}
	q.window, q.returned = item.Window{}, readList{}
	if q.aside != nil {
		left.aside = e.clearAside(q)
	}
	if b := q.backlog; b != nil {
		left.parts[1], left.parts[2] = b.leaving, b.recent
		e.dropBacklog(q)
	}
	q.segments = q.segments[:0]
	return left
}

// recordClear records that all queued items of q are gone, by what stays or by what goes, whichever is
// less: the journal is not given more than was put.
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
	gone := goneIDs{Range: idset.Between(head, q.nextID-1), reads: ids}
	for r := q.returned.First(); r != nil; r = r.link.Next() {
		gone.behind = append(gone.behind, idset.One(r.item.ID))
	}
	for _, id := range q.asideIn(func(s aside.State) bool { return s != aside.Leased }) {
		if id < head {
			gone.behind = append(gone.behind, idset.One(id))
		}
	}
	e.journal.Record(q.number, func(b []byte) []byte { return q.appendGone(b, gone.ranges()) })
}

// delete removes q, and returns what is to be given back. The caller holds the shard's mutex.
func (e *Engine) delete(q *queue) (t Ticket, left rubbish) {
	if q.opts.KeepJournal {
		t = q.ticket(e.journal, e.forgo(q, nil))
	}
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
