package engine

import "github.com/kestrelmq/kestrel/engine/internal/journal"

// LSN is a place in the stream of journal records of one process: bytes of records appended before
// it.
type LSN = journal.LSN

// Ticket says how far the journal must have come before an operation may be acknowledged. The zero
// Ticket asks for nothing. Tickets of operations of one goroutine may be merged.
type Ticket = journal.Ticket

// Commit waits until t is good: until the journal has been written, or synced, as far as the
// operations that returned it need. All calls that wait at the same time share one write and one
// sync. An error wraps ErrJournal, and means that it is not known whether those operations survive,
// or is ErrClosed.
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
