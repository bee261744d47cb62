package netloop

import (
	"bytes"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// This file says who the peer of a session is, and which right a request needs.

// Bounds of a peer that has not said who it is.
const (
	identifyTime = 10 * time.Second // from the beginning, with a TLS handshake and all attempts
	maxStrikes   = 8                // requests that are refused, and attempts that fail, before the connection ends
	maxUnknown   = 64 << 10         // bytes of input that are kept
)

// identity is who the peer of a session is. It belongs to the loop's goroutine.
type identity struct {
	user    *access.User // nil may do everything
	unknown bool         // the peer has still to say who it is; the session runs nothing else
	port    *listener    // that accepted the connection; nil for one of a test
	usage   *usage       // what all connections of the user use together; nil if the user has no quota
	charges charges      // not made yet
	strikes int          // of an unknown peer
	until   moment       // an unknown peer has until then to say who it is; zero: the time has not begun
	names   []string     // of the certificate that says who it is; nil if that was a password
	from    string       // where attempts to authenticate come from

	seen [4]rightsSeen // on the queues that were used last
	next int           // the oldest of them
}

// rightsSeen are the rights of a user on a queue.
type rightsSeen struct {
	queue  []byte
	rights access.Right
}

// become makes the peer the user u.
func (i *identity) become(u *access.User) {
	i.user, i.unknown, i.strikes, i.until = u, false, 0, 0
	i.seen, i.next = [4]rightsSeen{}, 0
}

// among returns who the peer is among users; nil if its user is gone.
func (i *identity) among(users *access.Users) *access.User {
	now := users.Named(i.user.Name)
	if i.names != nil && users.WithCertificate(i.names) != now {
		return nil
	}
	return now
}

// may reports whether the peer has a right on the queue called name.
func (i *identity) may(r access.Right, name []byte) bool {
	if i.user.Everywhere(r) {
		return true
	}
	for at := range i.seen {
		if s := &i.seen[at]; s.rights != 0 && bytes.Equal(s.queue, name) {
			return s.rights&r == r
		}
	}
	s := &i.seen[i.next]
	i.next = (i.next + 1) % len(i.seen)
	s.queue, s.rights = append(s.queue[:0], name...), i.user.RightsOn(name)
	return s.rights&r == r
}

// holder is what counts the leases of the user; nil: nobody bounds them.
func (i *identity) holder() *engine.Holder {
	if i.usage == nil {
		return nil
	}
	return &i.usage.leases
}

// scope is what a command needs a right on. The zero scope is none of them. Only a peer without limits may run a
// command for which the tables have no need.
type scope uint8

const (
	onQueue    scope = iota + 1 // the queue that the request names
	everywhere                  // every queue
	somewhere                   // any queue; the answer leaves out what the peer may not see
	onNothing                   // nothing
	onAccount                   // every queue of the account that the request names
	counted                     // nothing that the tables know, but a quota counts the request
)

// need is what a peer needs to run a command.
type need struct {
	right access.Right
	scope scope
}

// denied returns why the peer may not do what needs n, on the queue or account called name, or nil if it may.
func (i *identity) denied(n need, name []byte) *access.Denied {
	switch n.scope {
	case onNothing, counted:
		return nil
	case onQueue:
		if i.may(n.right, name) {
			return nil
		}
		return &access.Denied{Right: n.right, Queue: string(name)}
	case onAccount:
		if i.user.InAccount(n.right, string(name)) {
			return nil
		}
		return &access.Denied{Right: n.right, Queue: string(name) + "/*"}
	case somewhere:
		if i.user.Somewhere(n.right) {
			return nil
		}
	case everywhere:
		if i.user.Everywhere(n.right) {
			return nil
		}
	}
	return &access.Denied{Right: n.right}
}
