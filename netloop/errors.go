package netloop

import (
	"errors"

	"github.com/kestrelmq/kestrel/access"
)

// This file has the errors that refuse requests. The engine has more; refusals.go counts all of them.

// unavailableError refuses an operation because of the server's status or the connection limits.
// The text is the operation's name in messages.
type unavailableError string

func (e unavailableError) Error() string {
	return "Server not available for operation " + string(e)
}

const (
	errGetUnavailable          = unavailableError("getItem")
	errMonitorUnavailable      = unavailableError("monitorUntil")
	errSetUnavailable          = unavailableError("setItem")
	errFlushUnavailable        = unavailableError("flush")
	errDeleteUnavailable       = unavailableError("delete")
	errFlushAllUnavailable     = unavailableError("flushAll")
	errFlushExpiredUnavailable = unavailableError("flushExpired")
)

var (
	// errReadOpen refuses a plain fetch from a queue of which the connection has an open read.
	errReadOpen = errors.New("an open read on this queue comes first")
	// errTooManyReads refuses an open read over the limit of the connection.
	errTooManyReads = errors.New("too many open reads")
	// errNotThatMany refuses a confirm of more reads than are open, or of none.
	errNotThatMany = errors.New("not that many open reads")
)

// errSameQueue refuses a fetch that names a queue twice.
var errSameQueue = errors.New("a queue is named twice")

var (
	// errTooMuchInput and errNoBuffers end the session of a client that sends too far ahead of its replies.
	errTooMuchInput = errors.New("too many bytes sent ahead of the replies")
	errNoBuffers    = errors.New("out of memory for requests")
)

var (
	// errNotLocal refuses what only clients on this machine may ask for.
	errNotLocal = errors.New("allowed from this machine only")
	// errUnidentified refuses what an unknown client asks for.
	errUnidentified = errors.New("unauthenticated")
	// errIdentified refuses to identify a client twice.
	errIdentified = errors.New("authenticated already")
	// errSeeLog stands for an error that may name queues, for a client that may not see all of them.
	errSeeLog = errors.New("the log says why")
	// errNoUsers refuses to identify a client of a server without users.
	errNoUsers = errors.New("the server has no users")
)

var (
	// errNoOrigin and errBadOrigin refuse to redrive a message.
	errNoOrigin  = errors.New("no queue has given the message up")
	errBadOrigin = errors.New("the queue that gave the message up is in another account, or is this queue")
)

// Errors of Thrift calls whose arguments exclude each other, or are out of bounds.
var (
	errKeyCount  = errors.New("keys must have one key for each item, or none at all")
	errKeyBlank  = errors.New("a key has a blank")
	errDuplicate = errors.New("on_duplicate is not 0, 1 or 2")
	errNeedsKeys = errors.New("on_duplicate needs keys")

	errLost         = errors.New("the item was removed before it was taken") // for the session itself: no client hears of it
	errReadAndItem  = errors.New("id is set, and item_id or key as well: name the read by id, or the item by one of the others")
	errTwoItems     = errors.New("item_id and key are both set: name the item by one of them")
	errNoItem       = errors.New("item_id or key is missing")
	errItemID       = errors.New("item_id is below 0")
	errExpiry       = errors.New("expiration_msec is below 0")
	errFromID       = errors.New("from_id is below 0")
	errBrowseLimit  = errors.New("limit is not a number from 0 to 10000")
	errQueueCount   = errors.New("queue_names must have 1 to 16 names")
	errWeightCount  = errors.New("weights must have one number for each queue, or none at all")
	errWeightBounds = errors.New("a weight is not a number from 1 to 1000000")
)

// isIdentityRefusal reports whether err refuses what a client asked for because of who it is, or is not.
func isIdentityRefusal(err error) bool {
	var denied *access.Denied
	var over *access.OverQuota
	return errors.As(err, &denied) || errors.As(err, &over) ||
		errors.Is(err, access.ErrFailed) || errors.Is(err, access.ErrBusy) ||
		errors.Is(err, errUnidentified) || errors.Is(err, errIdentified) || errors.Is(err, errNoUsers)
}
