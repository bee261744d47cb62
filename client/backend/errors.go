package backend

import (
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// Errors that callers may want to tell apart, with errors.Is.
var (
	// ErrNotFound says that nothing matches. It is always one of the next three.
	ErrNotFound = errors.New("nothing matches")
	// ErrNoAccount says that the account has no messages.
	ErrNoAccount error = &Error{Err: ErrNotFound, Text: burrow.NoAccount}
	// ErrNoQueue says that the account has messages, but none in the queue.
	ErrNoQueue error = &Error{Err: ErrNotFound, Text: burrow.NoQueue}
	// ErrNoMessage says that the queue has messages, but none that matches.
	ErrNoMessage error = &Error{Err: ErrNotFound, Text: burrow.NoMessage}

	// ErrInvalid says that no back end could do what was asked for: a name, an id, a number or an address is
	// wrong.
	ErrInvalid = errors.New("the request is not valid")
	// ErrDenied says that the caller may not do this.
	ErrDenied = errors.New("this is not allowed")
	// ErrHeld says that a client of another protocol holds the message.
	ErrHeld = errors.New("the message is held")
	// ErrTooLarge says that a body is larger than the queue takes.
	ErrTooLarge = errors.New("the body is too large")
	// ErrBusy says that the account has used up what it may: later it may do more.
	ErrBusy = errors.New("the account does too much at a time")
	// ErrFull says that the queue, the account or the disk is full.
	ErrFull = errors.New("there is no room")
	// ErrUnavailable says that the store cannot be used now, and that nothing was done.
	ErrUnavailable = errors.New("the store cannot be used")
	// ErrUnknownOutcome says that no answer came, or one that leaves it open whether this was done.
	ErrUnknownOutcome = client.ErrUnknownOutcome
	// ErrReplyTooLarge says that a server sends more than any answer has. That is a message or a list of names of more
	// than 256 MiB, or more messages than were asked for. It comes with ErrUnavailable, or with ErrUnknownOutcome if the
	// request changes something.
	ErrReplyTooLarge = client.ErrReplyTooLarge
	// ErrClosed says that the back end has been closed.
	ErrClosed = client.ErrClosed
)

// An Error is what a back end refuses a request with.
type Error struct {
	Err  error  // one of the sentinels, or an error around one
	Text string // one sentence for people; the clients of an HTTP server see it
	Code int    // the HTTP status that it came with; 0: none
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Refuse returns an *Error that wraps kind, one of the sentinels of this package, and says text.
func Refuse(kind error, text string) error { return &Error{Err: kind, Text: text} }

// Unavailable returns an error that wraps ErrUnavailable and the reason.
func Unavailable(reason error) error { return fmt.Errorf("%w: %w", ErrUnavailable, reason) }

// Unknown returns an error that wraps ErrUnknownOutcome and the reason.
func Unknown(reason error) error { return fmt.Errorf("%w: %w", ErrUnknownOutcome, reason) }

// Missing returns the error for the outermost thing that is missing.
func Missing(account, queue bool) error {
	switch {
	case !account:
		return ErrNoAccount
	case !queue:
		return ErrNoQueue
	}
	return ErrNoMessage
}
