package admin

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxConnections is how many connections there may be at once.
	DefaultMaxConnections = 64

	maxHeader = 16 << 10 // bytes
	maxBody   = 64 << 10 // bytes
	// maxCostly is how many answers that describe every queue are made at once.
	maxCostly = 4

	defaultRequestTime = 5 * time.Second
	defaultAnswerTime  = 30 * time.Second
	idleTime           = time.Minute // between two requests of a connection
	refusalTime        = 100 * time.Millisecond
	acceptPause        = 100 * time.Millisecond // behind an error
)

// tooMany answers a connection over the limit.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n" +
	"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"

// boundedListener hands out at most limit connections at once. It answers further ones with an error and
// closes them, so that a useful request does not wait behind idle connections.
type boundedListener struct {
	net.Listener
	limit int64
	log   *slog.Logger
	open  atomic.Int64
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			l.log.Warn("accept connection", "addr", l.Addr().String(), "err", err, "pause", acceptPause)
			time.Sleep(acceptPause) // out of descriptors, or of memory: it may pass
			continue
		}
		if l.open.Add(1) <= l.limit {
			return &boundedConn{Conn: c, listener: l}, nil
		}
		l.open.Add(-1)
		c.SetDeadline(time.Now().Add(refusalTime))
		c.Write([]byte(tooMany))
		c.Close()
	}
}

// boundedConn is a connection that is counted until it is closed.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	once     sync.Once
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
