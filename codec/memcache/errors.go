package memcache

import "errors"

var (
	// ErrIncomplete says that more bytes are needed; nothing was consumed.
	ErrIncomplete = errors.New("memcache: incomplete")

	// ErrTooLarge says that a SET announced an item larger than Decoder.MaxItem. Only the command
	// line was consumed: discard the next Request.Skip bytes of the stream as they come, then
	// answer NOT_STORED and go on.
	ErrTooLarge = errors.New("memcache: item too large")

	// ErrBadReply says that what a server sent is not a reply of this protocol. The connection
	// is of no further use.
	ErrBadReply = errors.New("memcache: malformed reply")
)

// A ProtocolError says why a request was refused and how to answer it. The values returned by
// Decode are shared: do not change them.
type ProtocolError struct {
	Reply  string // status line to send, line end included
	Fatal  bool   // close the connection once Reply is sent, and decode nothing more from it
	Reason string // for logs, never sent
}

// Error returns the reason.
func (e *ProtocolError) Error() string { return "memcache: " + e.Reason }

// fatal returns an error that ends the connection. Kestrel closed without a word; here the server sends
// CLIENT_ERROR first. Old clients treat both as end of file.
func fatal(reason string) *ProtocolError {
	return &ProtocolError{Reply: ReplyClientError, Fatal: true, Reason: reason}
}

// refusal returns an error after which the connection goes on.
func refusal(reason string) *ProtocolError {
	return &ProtocolError{Reply: ReplyClientError, Reason: reason}
}

// explained is a refusal whose reason is sent.
func explained(reason string) *ProtocolError {
	return &ProtocolError{Reply: "CLIENT_ERROR " + reason + "\r\n", Reason: reason}
}

// Errors that end the connection.
var (
	errLineTooLong      = fatal("request line too long")
	errEmptyLine        = fatal("empty request line")
	errUnknownCommand   = fatal("unknown command")
	errForeign          = fatal("not a request of the memcache protocol")
	errUnsupportedStore = fatal("storage command other than set")
	errSetWords         = fatal("set without queue, flags, expiry and byte count")
	errByteCount        = fatal("byte count is not a number from 0 to 2147483647")
	errExpiry           = fatal("expiry is not a 32-bit number")
	errEmptyName        = fatal("get with an empty queue name")
	errOptions          = fatal("get options contradict each other")
	errWait             = fatal("get wait time is not a 32-bit number")
	errMonitorWords     = fatal("monitor without queue and seconds")
	errMonitorNumber    = fatal("monitor argument is not a 32-bit number")
	errConfirmNumber    = fatal("confirm count is not a 32-bit number")
	errFlushExpiredName = fatal("flush_expired without queue")
	errStatusName       = fatal("status with an empty name")
)

// Errors that cost one reply.
var (
	errMissingArgument = refusal("missing argument")
	errFlags           = refusal("flags are not a 32-bit number")
	errSlashKey        = refusal("get key of slashes only")
	errPlusName        = refusal("queue name of plus signs only")
)

// Errors of leases and delays, which Kestrel did not have. They cost one reply.
var (
	errTwice        = explained("an option is given twice")
	errOr           = explained("or needs the name of a queue")
	errManyQueues   = explained("more than 16 queues")
	errWeight       = explained("weight is not a number from 1 to 1000000")
	errCombination  = explained("these options do not go together")
	errLease        = explained("lease is not a number from 1 to 999999999999")
	errDelay        = explained("delay is not a number from 0 to 999999999999")
	errReceipt      = explained("receipt is not a number from 1 to 18446744073709551615")
	errTouch        = explained("touch needs <queue>/lease, <queue>/lease=<receipt>, <queue>/id=<id> or <queue>/key=<key>")
	errTouchExpiry  = explained("touch needs seconds from 0 to 2147483647")
	errKey          = explained("key must have 1 to 250 bytes, and no control bytes, blanks or slashes")
	errNeedsKey     = explained("new and replace need a key")
	errID           = explained("id is not a number from 1 to 18446744073709551615")
	errFrom         = explained("from is not a number from 0 to 18446744073709551615")
	errLimit        = explained("limit is not a number from 1 to 10000")
	errTouchSeconds = explained("touch needs seconds from 1 to 2147483647")
)
