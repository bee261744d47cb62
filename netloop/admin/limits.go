package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// This file bounds the connections of operators, and says which one gives way to a new one.

const (
	// DefaultMaxConnections is how many connections there may be at once.
	DefaultMaxConnections = 64

	maxHeader = 16 << 10 // bytes
	maxBody   = 64 << 10 // bytes
	// maxUnknown is how many bytes come from a peer before a request has said who it is, of TLS or of HTTP.
	maxUnknown = 64 << 10
	// identifyTime is how long a peer has for that, with a TLS handshake and the check of a password. net/http waits
	// half a second more before it closes some connections that it has refused.
	identifyTime = 9 * time.Second
	// maxCostly is how many answers that describe every queue are made at once.
	maxCostly = 4
	// unreadShare is the part of the memory limit that such answers may take while clients read them: one in so many.
	unreadShare = 16

	defaultRequestTime = 5 * time.Second
	defaultAnswerTime  = 30 * time.Second
	idleTime           = time.Minute // between two requests of a connection
	refusalTime        = 100 * time.Millisecond
	acceptPause        = 100 * time.Millisecond // behind an error

	// How long the server waits for a request, or for a peer to take more of an answer. Then the connection may give way
	// to a new one.
	requestPatience = 100 * time.Millisecond
	answerPatience  = time.Second
)

// tooMany answers a connection over the limit.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n" +
	"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"

// room is how many connections there may be at once, and are.
type room struct {
	limit int64
	open  atomic.Int64

	mu    sync.Mutex
	conns map[*boundedConn]struct{} // guarded by mu
}

// giveWay closes the connection whose peer the server has waited for longest, of those that may give way to a new one of
// l. It reports whether there was one. An answer on its way, such as a backup of hours, gives way only if no connection
// awaits a request. So strangers who come one after the other end none. For a peer of this machine, the server has no
// patience with others: an operator gets in beside many strangers.
func (r *room) giveWay(l *boundedListener, local bool) bool {
	now, isFull := time.Now(), l.IsFull() // then only one of its own makes room
	var victims [answers + 1]*boundedConn
	var longest [answers + 1]time.Duration
	from := answers
	r.mu.Lock()
	for c := range r.conns {
		if isFull && c.listener != l {
			continue
		}
		in, waited := c.waited(now, !local || ports.IsLocal(c.RemoteAddr()))
		if waited > longest[in] {
			victims[in], longest[in] = c, waited
		}
		if in == awaits {
			from = awaits
		}
	}
	r.mu.Unlock()
	if victims[from] == nil {
		return false
	}
	victims[from].Close()
	return true
}

// boundedListener hands out connections as long as there is room. Without room for a new one, one that waits for its peer
// ends. If all are at work, it answers the new one with an error and closes it: a request does not wait behind others.
type boundedListener struct {
	*ports.Port
	room      *room // of all ports
	auth      netloop.Auth
	tls       *tls.Config // nil: plain
	log       *slog.Logger
	loggedAt  time.Time // when a peer that the port does not admit was logged last
	gaveWayAt time.Time // when a connection that gave way was logged last
}

// takesIn counts c as one connection more, and reports whether there is room for it. If there is none, one gives way, or c
// is refused.
func (l *boundedListener) takesIn(c net.Conn) bool {
	if l.hasRoom(l.TryEnter) {
		return true
	}
	if l.room.giveWay(l, ports.IsLocal(c.RemoteAddr())) {
		if now := time.Now(); now.Sub(l.gaveWayAt) >= time.Second {
			l.gaveWayAt = now
			l.log.Warn("admin connection closed: there are too many, and its client kept the server waiting longest")
		}
	}
	return l.hasRoom(l.Enter)
}

// hasRoom counts one connection more, by enter for its port, and reports whether there is room for it. Otherwise it
// counts none.
func (l *boundedListener) hasRoom(enter func() bool) bool {
	if !enter() {
		return false
	}
	if l.room.open.Add(1) <= l.room.limit {
		return true
	}
	l.room.open.Add(-1)
	l.Leave()
	return false
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptFrom(l.refused)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			l.log.Warn("accept connection: trying again after a pause", "addr", l.Name(), "err", err, "pause", acceptPause)
			time.Sleep(acceptPause) // out of descriptors, or of memory: it may pass
			continue
		}
		if l.takesIn(c) {
			return l.room.take(&boundedConn{Conn: c, listener: l, until: time.Now().Add(identifyTime)}), nil
		}
		if c.SetDeadline(time.Now().Add(refusalTime)); l.tls == nil {
			c.Write([]byte(tooMany))
		}
		c.Close()
	}
}

// secured is l, over TLS if that is configured.
func (l *boundedListener) secured() net.Listener {
	if l.tls == nil {
		return l
	}
	return tls.NewListener(l, l.tls)
}

// refused logs that a peer is not in allow_from, once a second at most.
func (l *boundedListener) refused(peer net.Addr) {
	if now := time.Now(); now.Sub(l.loggedAt) >= time.Second {
		l.loggedAt = now
		l.log.Warn("connection refused: its address is not in allow_from", "listener", l.Name(),
			"peer", peer.String(), "count", l.Counts().Refused)
	}
}

// boundedConn is a connection that is counted until it is closed.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	once     sync.Once
	came     int64       // bytes, while the peer was unknown; of the goroutine that reads
	known    atomic.Bool // a request has said who the peer is, or the port does not ask
	until    time.Time   // when an unknown peer's time ends

	mu          sync.Mutex
	read, write time.Time // the deadlines that were set, zero for none; guarded by mu
	phase       phase     // guarded by mu
	since       time.Time // guarded by mu
}

// phase is what a connection does.
type phase int

const (
	awaits  phase = iota // a request, or the rest of one
	works                // on an answer
	answers              // the peer takes some of it, or does not
)

// enter begins a phase, and returns the one before.
func (c *boundedConn) enter(to phase) (was phase) {
	if c == nil {
		return awaits
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was, c.phase, c.since = c.phase, to, time.Now()
	return was
}

// waited returns what the connection does, and how long the server has waited for the peer, beyond its patience, if it is
// patient. It is zero if the server does not wait.
func (c *boundedConn) waited(now time.Time, patient bool) (in phase, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch waited = now.Sub(c.since); {
	case c.phase == works:
		return works, 0
	case !patient:
		return c.phase, max(waited, 1)
	case c.phase == awaits:
		return awaits, max(waited-requestPatience, 0)
	}
	return answers, max(waited-answerPatience, 0)
}

// take takes in a connection that is counted.
func (r *room) take(c *boundedConn) *boundedConn {
	c.enter(awaits)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		r.conns = make(map[*boundedConn]struct{})
	}
	r.conns[c] = struct{}{}
	return c
}

// body is the body of a request. While it is read, the server waits for the peer.
type body struct {
	io.ReadCloser
	conn *boundedConn
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	defer b.conn.enter(b.conn.enter(awaits))
	return b.ReadCloser.Read(p)
}

// errUnknownTooLong ends a connection that has sent too much without saying who its peer is.
var errUnknownTooLong = fmt.Errorf("more than %d bytes came before the client identified itself", maxUnknown)

// admit takes in that a request has said who the peer is, or need not. A request without a connection has nil.
func (c *boundedConn) admit() {
	if c == nil || c.known.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Store(true)
	c.Conn.SetReadDeadline(c.read)
	c.Conn.SetWriteDeadline(c.write)
}

// bound returns a deadline for reading or writing, bounded by the time of an unknown peer.
func (c *boundedConn) bound(t time.Time) time.Time {
	if !c.known.Load() && (t.IsZero() || t.After(c.until)) {
		return c.until
	}
	return t
}

// SetDeadline implements net.Conn.
func (c *boundedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(c.bound(t))
}

// SetWriteDeadline implements net.Conn.
func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(c.bound(t))
}

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.known.Load() {
		return c.Conn.Read(p)
	}
	if c.came >= maxUnknown {
		return 0, errUnknownTooLong
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), maxUnknown-c.came)])
	c.came += int64(n)
	return n, err
}

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (int, error) {
	defer c.enter(c.enter(answers))
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(func() {
		r := c.listener.room
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
		r.open.Add(-1)
		c.listener.Leave()
	})
	return c.Conn.Close()
}

// peer is the other side of a connection, in the context of its requests.
type peer struct {
	unix bool
	from string // where attempts to authenticate come from
	auth netloop.Auth
	conn *boundedConn
}

type peerKey struct{}

// peerOf returns the sender of r.
func peerOf(r *http.Request) peer {
	p, _ := r.Context().Value(peerKey{}).(peer)
	return p
}

// withPeer is the context of a connection's requests.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	p := peer{from: ports.OriginOf(c.RemoteAddr())}
	_, p.unix = c.RemoteAddr().(*net.UnixAddr)
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	if bounded, ok := c.(*boundedConn); ok {
		p.auth, p.conn = bounded.listener.auth, bounded
	}
	return context.WithValue(ctx, peerKey{}, p)
}
