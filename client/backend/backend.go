package backend

import (
	"context"
	"iter"
	"time"
)

// Backend keeps messages. Its methods may be called from any goroutine.
//
// Filters are values. Times are whole seconds: a fraction counts as one more. A method returns ErrClosed
// after Close, and what ended its context if that has ended.
type Backend interface {
	// Accounts returns the accounts that have messages, in the order in which they came to have some.
	Accounts(ctx context.Context, m Names) ([]string, error)
	// DeleteAccounts removes all messages of the accounts that match, and returns the accounts.
	DeleteAccounts(ctx context.Context, m Names) ([]string, error)

	// Queues returns the queues of an account that have messages.
	Queues(ctx context.Context, account string, m Names) ([]string, error)
	// DeleteQueues removes all messages of the queues that match, and returns the queues.
	DeleteQueues(ctx context.Context, account string, m Names) ([]string, error)

	// Messages yields the messages that match, and reads them as they are asked for: a list of any
	// length takes little memory. It is no snapshot. An error comes last, with the zero Message, also if
	// nothing matches. With Detail None it yields one empty message if any matches.
	Messages(ctx context.Context, q Queue, m Match) iter.Seq2[Message, error]
	// UpdateMessages changes the messages that match, and returns them as they are now; nil with Detail
	// None. Without attributes it changes nothing.
	UpdateMessages(ctx context.Context, q Queue, to Attributes, m Match) ([]Message, error)
	// DeleteMessages removes the messages that match, and returns them; nil with Detail None.
	DeleteMessages(ctx context.Context, q Queue, m Match) ([]Message, error)

	// Put makes a message, or overwrites its body and attributes in its place. It copies body.
	Put(ctx context.Context, k Key, body []byte, a Attributes) (created bool, err error)
	// Message returns one message, hidden or not.
	Message(ctx context.Context, k Key, d Detail) (Message, error)
	// UpdateMessage changes one message, hidden or not, and returns it as it is now.
	UpdateMessage(ctx context.Context, k Key, to Attributes, d Detail) (Message, error)
	// DeleteMessage removes one message, hidden or not, and returns it.
	DeleteMessage(ctx context.Context, k Key, d Detail) (Message, error)

	// Ping returns nil if the store can be reached.
	Ping(ctx context.Context) error
	// Close ends every call with ErrClosed, and lets go of what the back end holds. Messages stay, but
	// for those of memory://.
	Close() error
}

// DefaultAccount is the account whose queues the clients of Kestrel's other protocols see.
const DefaultAccount = "default"

// Queue names a queue.
type Queue struct {
	Account string
	Name    string
}

// Key names a message.
type Key struct {
	Queue
	ID string
}

// Message is a message, as far as it was asked for; see [Detail].
type Message struct {
	ID   string
	TTL  time.Duration // how long it still lives, in whole seconds, rounded up; 0: for ever
	Hide time.Duration // for how long it is still hidden; 0: it is visible
	Body []byte        // the caller's
}

// Attributes are the times of a message, from now on. What is zero is left out.
type Attributes struct {
	TTL  time.Duration // 0: DefaultTTL for a Put, unchanged for an update
	Hide time.Duration // 0: visible for a Put, unchanged for an update
}

// Values of Attributes that zero does not stand for.
const (
	Forever time.Duration = -1 // the TTL of a message that never expires
	Visible time.Duration = -1 // the Hide of a message that is visible from now on
)

// DefaultTTL is how long a message lives whose Put does not say it.
const DefaultTTL = 600 * time.Second

// LongestWait is how long a request waits at most.
const LongestWait = 300 * time.Second

// Names says which accounts or queues a request is about. The zero Names are all of them.
type Names struct {
	Marker string // those behind this one; one that is not there is as none
	Limit  int    // so many at most; 0: all
}

// Match says which messages of a queue a request is about, and what it wants to see of them. The zero
// Match is all visible messages, and shows nothing.
type Match struct {
	Marker string // those behind this id; an id that is not there is as none
	Limit  int    // so many at most; 0: all
	Hidden bool   // hidden ones too
	Detail Detail
	Wait   time.Duration // if none matches, wait for one so long; LongestWait at most
}

// Detail says how much of a message a request shows.
type Detail uint8

// The details. A field of a [Message] that was not asked for is zero, or right.
const (
	None   Detail = iota // nothing
	IDs                  // the id
	Times                // the id and the attributes
	Bodies               // the id and the body
	All                  // everything
)

// Collect returns the messages of a list, and the error that ended it. With Detail None it returns no
// messages.
func Collect(list iter.Seq2[Message, error]) ([]Message, error) {
	var all []Message
	for m, err := range list {
		if err != nil {
			return all, err
		}
		if m.ID != "" {
			all = append(all, m)
		}
	}
	return all, nil
}
