package netloop

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// TestLingeringIsBounded has more connections end behind unread replies than may be kept. The one that has not read for
// longest makes room, and gives its memory and its descriptor back.
func TestLingeringIsBounded(t *testing.T) {
	held := int64(0)
	d, err := newDrainer(func(n int64) { held += n }, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var peers []int
	for i := range 3 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = errors.Join(unix.SetNonblock(pair[0], true), unix.SetNonblock(pair[1], true))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[1])
		peers = append(peers, pair[1])
		d.linger(pair[0], 100, nil, unsealed{}, make([]byte, 100))
		unix.Close(pair[0])
		if n := d.count(); n != int64(min(i+1, 2)) || held != 100*n {
			t.Errorf("after %d connections %d are kept, with %d bytes; want at most 2", i+1, n, held)
		}
	}
	for i, fd := range peers {
		n, err := unix.Read(fd, make([]byte, 1))
		if ended := n == 0 && err == nil; ended != (i == 0) {
			t.Errorf("connection %d has ended: %t; want that the oldest has", i, ended)
		}
	}
}

// TestLingeringSharesItems has many clients look at one large item, send nothing more and read nothing. The item counts
// once as long as the server keeps it for them, and so puts of others are not refused.
func TestLingeringSharesItems(t *testing.T) {
	const size, readers = 8 << 20, 10
	s := startServer(t, DefaultEventLoop, Options{Loops: 1}, unsynced())
	e := s.opts.Engine
	if _, err := e.Put(engine.Now(), []byte("large"), engine.PutRequest{Data: make([]byte, size)}); err != nil {
		t.Fatal(err)
	}
	before := e.MemoryLeft()
	var clients []*net.TCPConn
	for range readers {
		c, err := net.Dial("tcp", s.MemcacheAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		client := c.(*net.TCPConn)
		client.SetReadBuffer(4096)
		io.WriteString(client, "get large/peek\r\n")
		if _, err := client.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		client.CloseWrite()
		clients = append(clients, client)
	}
	waitFor(t, func() bool { return s.drainer.count() == readers })
	// The put's buffers may have been given back meanwhile.
	if taken := before - e.MemoryLeft(); taken < size-(1<<20) || taken > size+readers*(1<<20) {
		t.Errorf("%d connections that linger take %d bytes, want the item's %d and a little", readers, taken, size)
	}
	for _, c := range clients {
		c.SetLinger(0)
		c.Close()
	}
	waitFor(t, func() bool { return s.drainer.count() == 0 })
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	if len(s.bodies.users) != 0 || s.bodies.bytes != 0 {
		t.Errorf("%d items are held at the end, with %d bytes", len(s.bodies.users), s.bodies.bytes)
	}
}

// TestLingeringTakesTurns tests a connection that has ended but still has output. What is sent on it at once is
// bounded, however much its socket takes, and all of it arrives.
func TestLingeringTakesTurns(t *testing.T) {
	held := int64(0)
	d, err := newDrainer(func(n int64) { held += n }, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := takeDescriptor(server)
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	d.linger(fd, size, nil, unsealed{}, make([]byte, size))
	unix.Close(fd)
	came := make(chan int64)
	for turn := 0; held > 0; turn++ {
		fds, err := d.outlets.wait(20 * time.Second)
		if err != nil || len(fds) != 1 {
			t.Fatalf("turn %d: sockets %v, %v", turn, fds, err)
		}
		before := sizeOf(d.lingering[fds[0]].rest)
		if d.ready(fds[0]); held > 0 {
			if sent := before - sizeOf(d.lingering[fds[0]].rest); sent > bodyTurn+bodyPiece {
				t.Errorf("turn %d: %d bytes were sent at once, want %d at most", turn, sent, bodyTurn)
			}
		}
		if turn == 0 {
			go func() {
				n, _ := io.Copy(io.Discard, client)
				came <- n
			}()
		}
	}
	if n := <-came; n != size {
		t.Errorf("%d bytes came, want %d", n, size)
	}
}
