package journal

// LSN is a place in the stream of records of one process: the bytes of records appended before it.
type LSN uint64

// Ticket says how far the journal must have come before an operation may be acknowledged. The zero Ticket
// asks for nothing. Tickets of operations of one goroutine may be merged.
type Ticket struct {
	Written LSN // the journal must be written up to here
	Synced  LSN // … and synced up to here
}

// Merge returns the ticket that asks for what both ask for.
func (t Ticket) Merge(u Ticket) Ticket {
	return Ticket{max(t.Written, u.Written), max(t.Synced, u.Synced)}
}
