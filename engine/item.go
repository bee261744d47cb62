package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
)

// Item is an item of a queue as a reader sees it.
type Item = item.Item

// LSN is a place in the stream of journal records of one process: bytes of records appended before
// it.
type LSN = journal.LSN

// Ticket says how far the journal must have come before an operation may be acknowledged. The zero
// Ticket asks for nothing. Tickets of operations of one goroutine may be merged.
type Ticket = journal.Ticket

// Time is an instant in milliseconds since the Unix epoch, the resolution of everything the engine
// keeps. Event loops read the clock once per turn and pass it on. As an expiry, zero means never.
type Time = item.Time

// At returns t as a Time; the zero time.Time gives zero.
func At(t time.Time) Time { return item.At(t) }

// Now is the present.
func Now() Time { return item.Now() }
