package netloop

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// poller waits for what happens to the sockets of a loop. All calls but ring belong to the loop's
// goroutine.
//
// A poller is edge-triggered: it reports once that something has come, or that the peer sends no more.
// The driver remembers what it has left unread. add and unmute report what is there already.
type poller interface {
	// start makes the poller ready. A poller that has failed to start may be closed.
	start() error
	// run makes turns until one of them says that the loop stops. An error means that the poller is
	// of no use any more.
	run(t turns) error
	add(fd int) error
	// mute stops reports of fd, except that its connection has failed or is shut in both directions.
	mute(fd int)
	// unmute ends mute.
	unmute(fd int)
	// remove ends what add has begun. It must come before fd is closed: a copy of it may live on.
	remove(fd int)
	// ring makes sure that a turn comes, and begins after the call. Any goroutine may call it, at any
	// time.
	ring()
	close()
}

// turns is what a poller runs: for each turn some calls of happened, then serveBulk, then finish.
type turns interface {
	// happened handles an event of fd. If ended is set, the peer sends no more.
	happened(fd int, ended bool)
	// serveBulk handles the connections in the bulk. It reports whether the turn waits for the disk, so that it
	// pays to look first for what has come meanwhile.
	serveBulk() (waits bool)
	// finish ends the turn.
	finish() afterTurn
}

// afterTurn is what a poller does after a turn.
type afterTurn int

const (
	thenWaits  afterTurn = iota // it waits for an event
	thenGoesOn                  // it begins another turn, also without an event
	thenEnds                    // it leaves run
)

// bell is a descriptor that ends a wait. Any goroutine may ring it, at any time.
type bell struct {
	rung atomic.Bool // and not heard yet

	mu   sync.Mutex
	fd   int  // readable when rung; guarded by mu when it changes
	to   int  // what a ring writes to; guarded by mu
	open bool // guarded by mu
}

func (b *bell) start() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fd, b.to, err = openBell()
	b.open = err == nil
	b.rung.Store(false)
	return err
}

// ring makes the descriptor readable. Edge-triggered, every ring ends one wait, and nobody has to read
// the descriptor.
func (b *bell) ring() {
	if b.rung.Swap(true) {
		return // it will be heard after this call
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open { // or the descriptor is somebody else's
		one := [8]byte{1}
		unix.Write(b.to, one[:])
	}
}

// silence reads what a ring has written, for a poller that also asks whether the descriptor is readable.
// It comes before heard, so that nobody writes meanwhile.
func (b *bell) silence() {
	var rings [8]byte
	unix.Read(b.fd, rings[:])
}

// heard is called when a wait has reported the bell, before the turn that it is to begin.
func (b *bell) heard() { b.rung.Store(false) }

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		unix.Close(b.fd)
		if b.to != b.fd {
			unix.Close(b.to)
		}
		b.open = false
	}
}
