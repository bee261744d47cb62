package client

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSlowIsBetterThanNone withdraws a put from a slow server, and tries a server that then refuses it. The put
// returns to the slow one, and is stored.
func TestSlowIsBetterThanNone(t *testing.T) {
	t.Parallel()
	begun, goOn, refused := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}, 2)
	slow := rigged(t, func(_ int, conn net.Conn) {
		buf := make([]byte, 1<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			begun <- struct{}{}
			<-goOn
			io.WriteString(conn, strings.Repeat("STORED\r\n", strings.Count(string(buf[:n]), "set work")))
		}
	})
	refusing := rigged(t, func(_ int, conn net.Conn) {
		conn.Read(make([]byte, 1<<10))
		io.WriteString(conn, "SERVER_ERROR\r\n")
		refused <- struct{}{}
	})
	c := dial(t, Options{}, slow.addr, refusing.addr)
	other := c.lanes[refusing.addr]
	fallen := func(down bool) {
		other.mu.Lock()
		defer other.mu.Unlock()
		other.down = down
	}
	fallen(true)
	put := func() chan error {
		ended := make(chan error, 1)
		go func() { ended <- c.Put(within(t), "work", []byte("x"), PutOptions{}) }()
		return ended
	}
	first := put()
	<-begun
	second := put()
	eventually(t, "the second put has gathered", func() bool {
		_, waiting := c.lanes[slow.addr].condition(time.Now())
		return waiting == 1
	})
	fallen(false)
	<-refused
	close(goOn)
	for _, ended := range []chan error{first, second} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
