package text

import "errors"

var (
	// ErrIncomplete says that more bytes are needed; nothing was consumed.
	ErrIncomplete = errors.New("text: incomplete")

	// ErrEndOfItems says that DecodeItem consumed the empty line that ends the items. The next line
	// is a request.
	ErrEndOfItems = errors.New("text: end of items")

	// ErrTooLarge says that an item is larger than Decoder.MaxItem. What was seen of its line is
	// consumed; DecodeItem reads over the rest as it comes.
	ErrTooLarge = errors.New("text: item too large")

	// ErrBadReply says that what a server sent is not a reply of this protocol. The connection
	// is of no further use.
	ErrBadReply = errors.New("text: malformed reply")
)

// A ProtocolError says why a request was refused; AppendReply answers it. The values returned by
// Decode are shared: do not change them.
type ProtocolError struct {
	Fatal  bool   // close the connection once the reply is sent, and decode nothing more from it
	Reason string // for logs, never sent

	reply string // what to send, line end included; empty: nothing
}

// Error returns the reason.
func (e *ProtocolError) Error() string { return "text: " + e.Reason }

// AppendReply appends the answer to the refused request, as Decode left req. Kestrel closed some
// connections without a word: then it appends nothing.
func (e *ProtocolError) AppendReply(dst []byte, req *Request) []byte {
	if e == errUnknownCommand {
		return appendUnknownCommand(dst, req.Word)
	}
	return append(dst, e.reply...)
}

// fatal returns an error that ends the connection without a reply.
func fatal(reason string) *ProtocolError {
	return &ProtocolError{Fatal: true, Reason: reason}
}

// refusal returns an error that costs one reply.
func refusal(reply, reason string) *ProtocolError {
	return &ProtocolError{Reason: reason, reply: reply}
}

// explained is a refusal whose reason is sent.
func explained(reason string) *ProtocolError { return refusal("-"+reason+"\n", reason) }

// Errors that end the connection. Kestrel had no limit for a line; here a longer line gets an error.
var (
	errLineTooLong = &ProtocolError{
		Fatal: true, Reason: "request line too long", reply: "-Request line too long.\n",
	}
	errForeign = &ProtocolError{
		Fatal: true, Reason: "not a request of the text protocol",
		reply: "-Not a request of the text protocol.\n",
	}
	errOnlySpaces    = fatal("request line of spaces only")
	errMonitorNumber = fatal("monitor wait time is not a 32-bit number")
	errConfirmNumber = fatal("confirm count is not a 32-bit number")
)

// Errors that cost one reply.
var (
	errUnknownCommand = refusal("", "unknown command") // its reply holds the command
	errNoQueue        = refusal("-Queue name required.\n", "no queue name")
	errMonitorWords   = refusal("-Queue name & timeout required.\n", "monitor without wait time")
	errConfirmWords   = refusal("-Queue name & count required.\n", "confirm without count")
	errExpiry         = refusal("-Error parsing expiration time.\n",
		"expiry is not a 32-bit number")
	errWait       = refusal("-Error parsing timeout.\n", "wait time is not a 32-bit number")
	errTwice      = explained("An option is given twice.")
	errOption     = explained("Unknown option.")
	errOr         = explained("Or needs the name of a queue.")
	errManyQueues = explained("More than 16 queues.")
	errWeight     = explained("Weight is not a number from 1 to 1000000.")
	errLease      = explained("Lease is not a number from 1 to 999999999999.")
	errDelay      = explained("Delay is not a number from 0 to 999999999999.")
	errMeta       = explained("Meta takes no value.")
	errReceipt    = explained("Receipt is not a number from 1 to 18446744073709551615.")
	errAuth       = explained("User & password required.")
	errTouch      = explained("Queue name, receipt, id or key & milliseconds required.")
	errKey        = explained("Key must have 1 to 250 bytes, and no control bytes, blanks or slashes.")
	errNeedsKey   = explained("New and replace need a key, and do not go together.")
	errID         = explained("Id is not a number from 1 to 18446744073709551615.")
	errFrom       = explained("From is not a number from 0 to 18446744073709551615.")
	errLimit      = explained("Limit is not a number from 1 to 10000.")
	errWhich      = explained("Id or key required, and not both.")
	errExpiryLeft = explained("Expiry is not a number from 0 to 999999999999.")
	errStatusName = refusal(ReplyUnknownStatus, "status with an empty name")
)
