package engine

import "github.com/kestrelmq/kestrel/engine/internal/journal"

// LSN is a place in the stream of journal records of one process: bytes of records appended before it.
type LSN = journal.LSN

// Ticket says how far the journal must have come before an operation may be acknowledged. The zero
// Ticket asks for nothing. Tickets of operations of one goroutine may be merged.
type Ticket = journal.Ticket

// Commit waits until t is good: until the journal has been written, or synced, as far as the operations that returned
// it need. All calls that wait at the same time share one write and one sync. An error wraps ErrJournal, and means that
// it is not known whether those operations survive, or is ErrClosed.
func (e *Engine) Commit(t Ticket) error {
	defer contain()
	if e.closed.Load() && (t == Ticket{} || !e.Committed(t)) {
		return ErrClosed
	}
	return e.journal.Commit(t)
}

// Committed reports whether Commit of t would return nil at once.
func (e *Engine) Committed(t Ticket) bool { return e.journal.Committed(t) }

// Unwritten is how many bytes of records Commit of t would write at least.
func (e *Engine) Unwritten(t Ticket) int64 {
	defer contain()
	return e.journal.Unwritten(t)
}

// writeLeftOver writes what nobody waits for: what expired in the background, or while something else was done, and
// where it went. It would otherwise gather in memory until a client's request is written, and be undone by the death of
// the process. Failures are reported in the next round.
func (e *Engine) writeLeftOver() {
	if !e.journal.Failing() {
		e.journal.Write(e.journal.End())
	}
}

// ticket is what an operation of the queue, just recorded up to lsn, must wait for.
func (q *queue) ticket(j *journal.Journal, lsn LSN) Ticket {
	if d := q.opts.Sync.Period(); d > 0 {
		j.SyncWithin(d)
	}
	return q.ticketAt(lsn)
}

// recentPuts says where in the journal the newest items of a queue are. Those up to id have no record behind older, and
// the others none behind newest. So a fetch knows what the put of its item waits for, and no item has to carry it.
type recentPuts struct {
	id            uint64
	older, newest LSN
}

// notePut notes that items from first on were recorded up to lsn. As soon as all items are committed
// it distinguishes those from the new ones.
func (q *queue) notePut(j *journal.Journal, first uint64, lsn LSN) {
	if p := &q.puts; j.Committed(q.ticketAt(p.older)) {
		p.id, p.older = first-1, p.newest
	}
	q.puts.newest = lsn
}

// noteOverwrite notes that an item of the queue was recorded again, up to lsn.
func (q *queue) noteOverwrite(lsn LSN) { q.puts.older, q.puts.newest = lsn, lsn }

// putTicket is what the put of item id waited for, or of one put a little later.
func (q *queue) putTicket(id uint64) Ticket {
	if id <= q.puts.id {
		return q.ticketAt(q.puts.older)
	}
	return q.ticketAt(q.puts.newest)
}

// ticketAt is what an operation of the queue that is recorded up to lsn waits for.
func (q *queue) ticketAt(lsn LSN) Ticket {
	switch {
	case !q.opts.KeepJournal:
		return q.left
	case q.opts.Sync == SyncAlways:
		return Ticket{Written: lsn, Synced: lsn}
	}
	return Ticket{Written: lsn}
}
