package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// Errors that callers may want to tell apart, with errors.Is. What a method returns is an [*Error]
// around one of them, or around an error of the network.
var (
	// ErrEmpty says that there was no item, or none in time.
	ErrEmpty = errors.New("there is no item")
	// ErrNotStored says that the queue refused an item, which is not in it: the queue is full, or the
	// item larger than the queue allows. Other queues of the server may take it.
	ErrNotStored = errors.New("the queue refused the item: it is full, or the item is too large for it")
	// ErrRefused says that a server did not do what it was asked for, and changed nothing.
	ErrRefused = errors.New("the server refused the request")
	// ErrUnknownOutcome says that no answer came, or one that leaves it open: what was asked for has
	// happened once or not at all. To ask again may put an item twice.
	ErrUnknownOutcome = errors.New("the outcome is unknown, because no clear answer came")
	// ErrLost says that the connection on which an item was opened has ended, or the item was ended
	// before: the server delivers it again.
	ErrLost = errors.New("the connection that held the item is lost: the server delivers the item again")
	// ErrTooOld says that a server has no leases, and no keys: it would take items for good.
	ErrTooOld = errors.New("the server is older than version 3 and has no leases or keys")
	// ErrReject, in what a Worker's handler returns, sends the item to the dead-letter queue, if the Worker has a Lease.
	// Otherwise the item goes back, as with any error.
	ErrReject = errors.New("the item is rejected")
	// ErrEnded says that a delivery was confirmed or aborted before.
	ErrEnded = errors.New("the delivery was confirmed or aborted before")
	// ErrNoServers says that there is no server to ask.
	ErrNoServers = errors.New("no server is known: none was given, or no server is in the sets of ZooKeeper")
	// ErrBadName says that a name cannot be that of a queue.
	ErrBadName = wire.ErrBadName
	// ErrBadKey says that a key cannot be that of an item.
	ErrBadKey = errors.New("a key has 1 to 250 bytes, without blanks, slashes and control bytes")
	// ErrProtocol says that what came from a server is not the protocol of Kestrel.
	ErrProtocol = errors.New("this is not an answer of a Kestrel server")
	// ErrReplyTooLarge says that a server sends more than any answer has: an item of more than 64 MiB, or two gigabytes
	// of figures. It comes with ErrProtocol.
	ErrReplyTooLarge = wire.ErrReplyTooLarge
	// ErrClosed says that the client, or the consumer, has been closed.
	ErrClosed = errors.New("the client or the consumer is closed")
)

var errMoreThanAsked = fmt.Errorf("%w: it sent more items than it was asked for", ErrProtocol)

// An Error says what failed, on what, and why.
type Error struct {
	Op     string // "put", "get", "confirm", …
	Queue  string // "" if it concerns no queue
	Server string // host:port; "" if it concerns no single server
	Err    error
}

// Error returns one line.
func (e *Error) Error() string {
	text := e.Op
	if e.Queue != "" {
		text += fmt.Sprintf(" %q", e.Queue)
	}
	if e.Server != "" {
		text += " on " + e.Server
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A notSent error says that a request certainly did nothing, because its server does not work. Another server may be
// asked.
type notSent struct {
	err    error
	closes bool // the server closes the connection behind its answer, and does nothing that follows
}

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

// elsewhere reports whether err lets the request be made of another server.
func elsewhere(err error) bool {
	var n *notSent
	return errors.As(err, &n)
}

// closing reports whether err is the answer of a server that closes behind it.
func closing(err error) bool {
	var n *notSent
	return errors.As(err, &n) && n.closes
}

// unknown returns an error with the cause that leaves open what has happened.
func unknown(cause error) error { return fmt.Errorf("%w: %w", ErrUnknownOutcome, plain(cause)) }

// A wordedError is an error of the network, with what it means.
type wordedError struct {
	means string
	err   error
}

func (e *wordedError) Error() string { return fmt.Sprintf("%s (%v)", e.means, e.err) }
func (e *wordedError) Unwrap() error { return e.err }

// plain words errors of the network and of contexts.
func plain(err error) error {
	var worded *wordedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &worded), errors.Is(err, ErrProtocol):
		return err
	case wire.TimedOut(err):
		return &wordedError{"the server did not answer in time", err}
	case errors.Is(err, memcache.ErrBadReply), errors.Is(err, wire.ErrReplyTooLarge):
		return fmt.Errorf("%w (%w)", ErrProtocol, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &wordedError{"the server closed the connection", err}
	}
	return err
}

// plain is plain, unless the client has been closed: that is then why.
func (c *Client) plain(err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return plain(err)
}

// refusal returns the error for a reply that refuses a request. It wraps ErrUnknownOutcome if the
// server does not know either, and it is a notSent if another server may do better.
func refusal(r *memcache.Reply) error {
	text := r.Kind.String()
	if len(r.Text) > 0 {
		text += " " + wire.Text(r.Text)
	}
	switch {
	case r.Kind == memcache.KindText:
		return fmt.Errorf("%w: it said %.100q", ErrProtocol, r.Text)
	case r.Kind != memcache.KindServerError && r.Kind != memcache.KindClientError && r.Kind != memcache.KindError:
		return fmt.Errorf("%w: %s was not asked for", ErrProtocol, r.Kind)
	case r.Kind != memcache.KindServerError:
		return fmt.Errorf("%w with %q", ErrRefused, text)
	case len(r.Text) == 0:
		return &notSent{
			err:    fmt.Errorf("%w with %q: its status, a limit or a white list blocks this", ErrRefused, text),
			closes: true,
		}
	}
	switch string(r.Text) {
	case "journal failed", "out of disk space":
		return fmt.Errorf("%w: the server answered %q", ErrUnknownOutcome, text)
	}
	return &notSent{err: fmt.Errorf("%w with %q", ErrRefused, text)}
}

// cause returns why ctx has ended.
func cause(ctx context.Context) error { return context.Cause(ctx) }

// ErrAuthentication says that a server does not take the user with this password.
var ErrAuthentication = wire.ErrAuthentication
