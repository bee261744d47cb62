package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// sayAside records what an item aside is now, with its image if the journal has none of it.
func (e *Engine) sayAside(q *queue, r aside.Ref) Ticket {
	if !q.inJournal() {
		return Ticket{}
	}
	entry := q.aside.Get(r)
	c := record.Change{Due: entry.Due, Token: entry.Token, Count: entry.Count}
	if q.aside.Segment(r) != 0 {
		return q.ticket(e.journal, e.journal.Change(q.number, q.aside.ID(r), c))
	}
	lsn, segment := e.journal.KeepChanged(&q.removal, q.number, q.aside.Item(r), c)
	q.lieIn(r, segment)
	return q.ticket(e.journal, lsn)
}

// rewriteAside records an item aside again, as it is.
func (e *Engine) rewriteAside(q *queue, r aside.Ref) {
	q.lieIn(r, 0)
	if q.aside.Get(r).State == aside.Restored {
		q.lieIn(r, e.rewriteItem(q, q.aside.Item(r)))
		return
	}
	e.sayAside(q, r)
}

// clearAside takes everything aside out of q but what is leased, or that too if q is deleted, and returns
// it, to be given back. What it was takes as long as there are leases.
func (e *Engine) clearAside(q *queue) *aside.Set {
	s := q.aside
	all := s.Set
	s.Set = aside.Set{Memory: all.Memory}
	if all.Tally(aside.Leased).Count == 0 || q.deleted {
		return &all
	}
	for r := aside.Ref(all.Len()); r > 0; {
		r--
		if entry := all.Get(r); entry.State == aside.Leased {
			s.Add(all.Item(r), all.Segment(r), entry)
			all.Remove(r)
		}
	}
	return &all
}

// sayCount records how often the item of a read was delivered, with its image if the journal has none of
// it.
func (e *Engine) sayCount(q *queue, r *read) Ticket {
	r.changed = true // and if the queue enters the journal later
	if !q.inJournal() {
		return Ticket{}
	}
	c := record.Change{Count: r.count}
	if r.pinned != 0 {
		return q.ticket(e.journal, e.journal.Change(q.number, r.item.ID, c))
	}
	lsn, segment := e.journal.KeepChanged(&q.removal, q.number, r.item, c)
	r.lieIn(segment)
	return q.ticket(e.journal, lsn)
}

// keepRead rewrites the item of a read in the journal, with its count if the journal knows of one.
func (e *Engine) keepRead(q *queue, r *read) {
	if !r.changed {
		r.lieIn(e.journal.Keep(&q.removal, q.number, r.item))
		return
	}
	_, segment := e.journal.KeepChanged(&q.removal, q.number, r.item, record.Change{Count: r.count})
	r.lieIn(segment)
}
