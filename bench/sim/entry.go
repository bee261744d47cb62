package main

import (
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// putState is what is known of a put.
type putState uint8

const (
	putting   putState = iota // no reply yet
	unsure                    // no reply will come, or it says that nobody knows
	refused                   // it was not stored
	found                     // nobody said so, but it was there after a restart
	confirmed                 // acknowledged
)

// putStateOf is what an outcome says of a put.
func putStateOf(outcome error) putState {
	switch outcome {
	case nil:
		return confirmed
	case errRefused:
		return refused
	}
	return unsure
}

// goneState is what is known of an item's leaving its queue.
type goneState uint8

const (
	here    goneState = iota
	leaving           // a request for that is under way
	maybe             // nobody knows
	gone              // acknowledged
)

// entry is one item in one of the queues that it was put to.
type entry struct {
	n     int
	queue string
	sync  engine.SyncPolicy

	put     putState
	started time.Time // of the request
	ended   time.Time // of its reply

	life time.Duration // given with the item; zero: for ever

	key     string // "" without one
	unheard bool   // no reply to the put will come: it may take effect as long as this process lives

	state      goneState
	goneSync   engine.SyncPolicy
	goneAt     time.Time
	confirming int // confirms by receipt that are under way, and may remove it

	holder  *asker    // that has it open
	touched time.Time // when it was handed out, or given back, last
	lost    bool      // the contract let it be lost: it must not come back
	cleared time.Time // when a flush, or delete, of its queue ended last
	moving  bool      // it had expired when its queue was flushed: it is on its way to another one
	fragile bool      // its removal was not recorded: the journal had failed
	seen    bool      // scratch of an examination

	// Where it is in its queue, as far as that is known.
	newest          time.Time // when the latest request began that has brought it
	newestLease     time.Time // the same of a lease
	back, backBegan time.Time // when its last return was acknowledged, and when that was asked for
	aside           bool      // that one left it in its place, and not at the head
	blurred         time.Time // until when nobody knows
	readyAt         time.Time // from when on it is in line at the latest
	hidden          time.Time // from when on it is at the earliest
	hiddenByPut     bool      // as its put said
	delayed         bool      // it was hidden once: it may be on disk, and come a little later after a start
	lease           *lease    // that it has, or had last; nil: none
	low, high       int64     // deliveries that count: at least and at most
	rejected        bool      // somebody has asked for it to be a dead letter
	buried          bool      // it was seen as one
}

// asker is who asks for items.
type asker struct {
	protocol string
	asking   bool      // guarded by the ledger's mutex, as are
	rests    time.Time // when it last ended to ask; and
	doubts   []problem // laws that are broken if the connection is not over
}

// access is how a request brings an item.
type access uint8

const (
	forGood access = iota
	opened
	leasing
)

// item is what was put, once, to a name.
type item struct {
	name string
	data []byte
	in   []*entry
}

func (e *entry) String() string {
	return fmt.Sprintf("item %d of %s (put %d %s..%s, %s; gone %d %s%s)", e.n, e.queue, e.put,
		since(e.started), since(e.ended), e.sync, e.state, since(e.goneAt), e.placed())
}

// placed says what is known of an item that was aside.
func (e *entry) placed() (s string) {
	if !e.hidden.IsZero() {
		s += "; hidden until " + since(e.hidden)
	}
	if e.lease != nil {
		s += fmt.Sprintf("; leased from %s until %s", since(e.lease.heard), since(e.lease.safe))
	}
	if e.high > 0 {
		s += fmt.Sprintf("; %d to %d deliveries", e.low, e.high)
	}
	return s
}
