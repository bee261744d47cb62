package admin

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxConnections is well below the descriptors that netloop leaves for others than its clients.
	maxConnections = 64
	maxHeader      = 16 << 10 // bytes
	maxBody        = 64 << 10 // bytes
	// maxCostly is how many answers that describe every queue are made at once.
	maxCostly = 4

	defaultRequestTime = 5 * time.Second
	defaultAnswerTime  = 30 * time.Second
	idleTime           = time.Minute // between two requests of a connection
	refusalTime        = 100 * time.Millisecond
)

// tooMany answers a connection over the limit.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n" +
	"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"

// boundedListener hands out at most maxConnections connections at once. One more is told so and
// closed, so that one that matters is not kept waiting behind those that do nothing.
type boundedListener struct {
	net.Listener
	open atomic.Int64
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConnections {
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
