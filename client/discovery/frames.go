package discovery

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// maxReply bounds what a reply of ZooKeeper may make this process allocate, in bytes.
	maxReply = 16 << 20
	// maxWelcome bounds the first reply, which has a session, in bytes.
	maxWelcome = 1 << 10
	// headerSize is what every further reply begins with: its request, a transaction, an error; in bytes.
	headerSize = 16
)

// session is a connection of the library, and the socket that it has now.
type session struct {
	*zk.Conn
	welcome time.Duration // how long a server has to open the session

	mu sync.Mutex
	// Guarded by mu.
	socket net.Conn
	closed bool
}

// dial makes a socket.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	socket, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		socket.Close()
		return nil, net.ErrClosed
	}
	s.socket = socket
	return &frames{Conn: socket, welcome: s.welcome}, nil
}

// Close ends the session. The library says so to the server, and may leave the socket open if that does not answer.
func (s *session) Close() {
	s.Conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.socket != nil {
		s.socket.Close()
	}
}

// frames is a socket from which the library gets whole and plausible replies. The library allocates what the first one
// announces, waits for it for long, and indexes past the end of short ones.
type frames struct {
	net.Conn
	welcome  time.Duration
	welcomed bool
	head     []byte // of the reply being read, as far as the library has not got it
	rest     int    // bytes of the reply behind head
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (n int, err error) {
	if len(f.head) == 0 && f.rest == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if len(f.head) > 0 {
		n = copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err = f.Conn.Read(p[:min(len(p), f.rest)])
	f.rest -= n
	return n, err
}

// next reads the begin of the next reply, or all of the first one.
func (f *frames) next() error {
	least, most, ahead := headerSize, maxReply, headerSize+4
	if !f.welcomed {
		least, most, ahead = 1, maxWelcome, maxWelcome
		f.SetReadDeadline(time.Now().Add(f.welcome))
	}
	head := make([]byte, 4, 4+ahead)
	if _, err := io.ReadFull(f.Conn, head); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head))
	if size < int64(least) || size > int64(most) {
		return fmt.Errorf("a reply of %d bytes: this is no ZooKeeper", size)
	}
	head = head[:4+min(int(size), ahead)]
	if _, err := io.ReadFull(f.Conn, head[4:]); err != nil {
		return err
	}
	if f.welcomed && len(head) == 4+headerSize+4 && int32(binary.BigEndian.Uint32(head[4:])) >= 0 {
		// It answers a request, and begins with how many names follow, or bytes.
		if n := int32(binary.BigEndian.Uint32(head[4+headerSize:])); n < -1 || int64(n) > size {
			return fmt.Errorf("a reply of %d bytes that announces %d: this is no ZooKeeper", size, n)
		}
	}
	f.welcomed, f.head, f.rest = true, head, int(size)-(len(head)-4)
	return nil
}
