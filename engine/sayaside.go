package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// sayAside records what an item aside is now, with its image if the journal has none of it.
func (e *Engine) sayAside(q *queue, r aside.Ref) Ticket {
	inRun := len(q.aside.hidden.Runs()) > 0 && q.leaveRun(q.aside.ID(r), len(q.aside.Item(r).Data))
	if !q.inJournal() {
		return e.ticketOf(q)
	}
	entry := q.aside.Get(r)
	c := record.Change{Due: entry.Due, Token: entry.Token, Count: entry.Count}
	if q.aside.Segment(r) != 0 && !inRun {
		return q.ticket(e.journal, e.journal.Change(q.number, q.aside.ID(r), c))
	}
	lsn, segment := e.journal.KeepChanged(&q.removal, q.number, q.aside.Item(r), c)
	q.lieIn(r, segment)
	return q.ticket(e.journal, lsn)
}

// ticketOf is what an operation on q must wait for that relies on all that has been recorded.
func (e *Engine) ticketOf(q *queue) Ticket {
	if !q.opts.KeepJournal {
		return q.left
	}
	return q.ticket(e.journal, e.journal.End())
}

// ticketSoFar is what an operation on q must wait for that relies on all that has happened to it, also by others.
func (e *Engine) ticketSoFar(q *queue) Ticket {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	return e.ticketOf(q)
}

// rewriteAside records an item aside again, as it is, unless it lives in a hidden run.
func (e *Engine) rewriteAside(q *queue, r aside.Ref) {
	q.lieIn(r, 0)
	if q.livesInRun(q.aside.ID(r)) != nil {
		return
	}
	if q.aside.Get(r).State == aside.Restored {
		it := q.aside.Item(r)
		q.lieIn(r, e.rewriteItem(q, &it))
		return
	}
	e.sayAside(q, r)
}

// sayCount records how often the item of a read was delivered, with its image if the journal has none of it.
func (e *Engine) sayCount(q *queue, r *read) Ticket {
	r.changed = true // and if the queue enters the journal later
	inRun := q.leaveRun(r.item.ID, len(r.item.Data))
	if !q.inJournal() {
		return e.ticketOf(q)
	}
	c := record.Change{Count: r.count}
	if r.pinned != 0 && !inRun {
		return q.ticket(e.journal, e.journal.Change(q.number, r.item.ID, c))
	}
	lsn, segment := e.journal.KeepChanged(&q.removal, q.number, r.item, c)
	r.lieIn(segment)
	return q.ticket(e.journal, lsn)
}

// keepRead rewrites the item of a read in the journal, with its count if the journal knows of one.
func (e *Engine) keepRead(q *queue, r *read) {
	q.leaveRun(r.item.ID, len(r.item.Data))
	if !r.changed {
		r.lieIn(e.journal.Keep(&q.removal, q.number, r.item))
		return
	}
	_, segment := e.journal.KeepChanged(&q.removal, q.number, r.item, record.Change{Count: r.count})
	r.lieIn(segment)
}
