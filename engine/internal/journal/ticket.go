package journal

// LSN is a place in the stream of records of one process: the bytes of records appended before it.
type LSN uint64

// Ticket says how far the journal must have come before an operation may be acknowledged. The zero Ticket
// asks for nothing. Tickets of operations of one goroutine may be merged.
type Ticket struct {
	Written LSN // the journal must be written up to here
	Synced  LSN // … and synced up to here
	// Ahead says that the queue that was put to takes items faster than the disk does. The put may be
	// acknowledged; whoever puts more should wait first, until (*Engine).Ahead says no. If nobody
	// does, memory and the journal grow up to the limits at which puts are refused.
	Ahead bool
}

// Merge returns the ticket that asks for what both ask for.
func (t Ticket) Merge(u Ticket) Ticket {
	return Ticket{max(t.Written, u.Written), max(t.Synced, u.Synced), t.Ahead || u.Ahead}
}
