package engine

import (
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
)

var (
	// ErrClosed is returned by methods of an engine that is closed.
	ErrClosed = journal.ErrClosed
	// ErrEmpty is returned by a fetch that found no item.
	ErrEmpty = errors.New("engine: queue is empty")
	// ErrComing is returned by a fetch whose item is on its way from disk into memory: it can be had a moment later.
	ErrComing = errors.New("engine: item is being read from disk")
	// ErrNotTaken is returned by a fetch whose Receiver did not take the item.
	ErrNotTaken = errors.New("engine: item was not taken")
	// ErrBacklog is wrapped by the error of a fetch whose item cannot be read from disk. It is also wrapped by that of
	// a flush that must bring expired items from there to another queue.
	ErrBacklog = errors.New("engine: backlog cannot be read")
	// ErrWithheld is wrapped by the error of whatever needs a withheld queue: the start could not bring it back
	// whole. See [Engine.Withheld].
	ErrWithheld = errors.New("engine: queue is withheld")
	// ErrDeleted is returned by a fetch whose queue was deleted while it waited.
	ErrDeleted = errors.New("engine: queue was deleted")
	// ErrReadEnded is returned by Confirm and Abort of a read that has already ended. One of them, the queue's
	// open-read timeout, or the end of the queue did that.
	ErrReadEnded = errors.New("engine: read has ended")
	// ErrBadName is what every [*NameError] unwraps to.
	ErrBadName = errors.New("engine: bad queue name")
	// ErrQueueFull refuses a put to a queue that is at its limit of items or bytes.
	ErrQueueFull = errors.New("engine: queue is full")
	// ErrItemTooLarge refuses a put of an item over the queue's or the engine's limit.
	ErrItemTooLarge = errors.New("engine: item is too large")
	// ErrTooManyQueues refuses to create a queue.
	ErrTooManyQueues = errors.New("engine: too many queues")
	// ErrTooManyChildren refuses to create a fanout child.
	ErrTooManyChildren = errors.New("engine: queue has too many fanout children")
	// ErrOutOfMemory refuses a put, or to create a queue, that would take more memory than the limit.
	ErrOutOfMemory = errors.New("engine: out of memory")
	// ErrOutOfDisk refuses a put while the journal finds no room on the disk.
	ErrOutOfDisk = journal.ErrFull
	// ErrJournal is wrapped by errors of a journal that could not be written or synced: whether
	// what waited for it is durable is not known.
	ErrJournal = journal.ErrFailed
	// ErrLocked is returned by Open if another process uses the data directory.
	ErrLocked = dirlock.ErrLocked
	// ErrNotHeld is returned for a receipt that holds no item: the lease has ended, or somebody else
	// has the item by now.
	ErrNotHeld = errors.New("engine: not held")
	// ErrNoLease refuses a fetch with the queue's lease if the queue has none.
	ErrNoLease = errors.New("engine: the queue has no default lease")
	// ErrBadLease refuses a lease that is not above zero.
	ErrBadLease = errors.New("engine: a lease must be longer than 0 ms")
	// ErrDelayTooLong refuses a delay above the queue's MaxDelay, or below zero.
	ErrDelayTooLong = errors.New("engine: delay is longer than the queue allows")
	// ErrBadKey is wrapped by the error of a put with a key that no item may have.
	ErrBadKey = errors.New("engine: bad key")
	// ErrKeyExists refuses a put that is to be the only one with its key.
	ErrKeyExists = errors.New("engine: an item has that key")
	// ErrNoSuchItem is returned for an id or a key that no item has.
	ErrNoSuchItem = errors.New("engine: no such item")
	// ErrHeld refuses to remove, or to hide, an item that somebody holds.
	ErrHeld = errors.New("engine: somebody has the item")
	// ErrTooManyKeys refuses a put with another key to a queue that has MaxKeys of them.
	ErrTooManyKeys = errors.New("engine: queue has too many keys")
	// ErrNotAdmitted is what every [*NotAdmittedError] unwraps to.
	ErrNotAdmitted = errors.New("engine: client is not admitted")
)

// A NotAdmittedError refuses an operation on a queue that admits another client to it only. It
// unwraps to ErrNotAdmitted.
type NotAdmittedError struct {
	Queue    string
	ClientID string // of the client that asked; "" if it has none
	Enqueue  bool   // it asked for a put; otherwise for a fetch or a flush
}

// Operation is the original's word for what was asked for: add or remove.
func (e *NotAdmittedError) Operation() string {
	if e.Enqueue {
		return "add"
	}
	return "remove"
}

// Reason is the original's sentence on why it is refused, without a full stop.
func (e *NotAdmittedError) Reason() string {
	switch {
	case e.ClientID == "":
		return "ClientId not specified when queue " + e.Queue + " only allows a white-listed clientId"
	case e.Enqueue:
		return "ClientId " + e.ClientID + " is not allowed to enqueue to queue " + e.Queue
	}
	return "ClientId " + e.ClientID + " is not allowed to dequeue from queue " + e.Queue
}

// Error returns the original's words, which its clients see.
func (e *NotAdmittedError) Error() string {
	return "The operation " + e.Operation() + " is disallowed on queue " + e.Queue + ". " + e.Reason()
}

// Unwrap returns ErrNotAdmitted.
func (e *NotAdmittedError) Unwrap() error { return ErrNotAdmitted }

// A Fault is the value of a panic of the engine. The engine panics when it finds a fault of its own, or runs into one
// while a caller's [Receiver] runs. Its queues may be half changed then, and its locks held: the process must end. The
// journal makes that safe.
type Fault struct {
	Cause any // what the panic was about
}

func (f *Fault) Error() string { return fmt.Sprint("engine: ", f.Cause) }

// contain, deferred first, turns a panic into a *Fault. Every operation that locks or changes anything defers it. So
// a caller that recovers can distinguish the engine's faults from its own.
func contain() {
	switch cause := recover().(type) {
	case nil:
	case *Fault:
		panic(cause) // of an operation inside this one
	default:
		panic(&Fault{cause})
	}
}

// invariant words a broken invariant for the panic that ends the process.
func invariant(format string, args ...any) string {
	return "engine: broken invariant: " + fmt.Sprintf(format, args...)
}

// report logs an error of background work.
func (e *Engine) report(what string, err error) {
	if err != nil && !e.closed.Load() {
		e.log.Error(what, "err", err)
	}
}
