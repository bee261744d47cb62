package discovery

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait: far longer than what is waited for takes.
const patience = 60 * time.Second

// keeperOf listens as a ZooKeeper, and has a script serve each connection until the end of the test.
func keeperOf(t *testing.T, script func(conn net.Conn)) Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				script(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return Config{Hosts: []string{l.Addr().String()}, Path: "/k", SessionTimeout: time.Hour}
}

// welcome opens a session.
func welcome(conn net.Conn) {
	answer := make([]byte, 4+4+4+8+4+16)
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	binary.BigEndian.PutUint32(answer[8:], 60_000) // the session's timeout, in ms
	answer[19] = 7                                 // its id
	binary.BigEndian.PutUint32(answer[20:], 16)    // the length of its password
	conn.Write(answer)
}

// answering opens a session, and answers the next request.
func answering(reply string) func(conn net.Conn) {
	return func(conn net.Conn) {
		welcome(conn)
		conn.Read(make([]byte, 1<<10))
		io.WriteString(conn, reply)
	}
}

// TestHostileKeepers watches sets in what is no ZooKeeper, or one that is not well. Nothing comes of it: no panic, and no
// memory for what is only announced. The end of the context ends it, whatever it waits for.
func TestHostileKeepers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stalls bool // the server says no more; otherwise the client hangs up
		script func(conn net.Conn)
	}{
		{"silent", true, func(net.Conn) {}},
		{"silent behind a session", true, welcome},
		{"stalls in its welcome", true, func(conn net.Conn) { conn.Write([]byte{0, 0, 0, 37, 0}) }},
		{"a web server", false, func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }},
		{"a short reply", false, answering("\x00\x00\x00\x08\xff\xff\xff\xff\x00\x00\x00\x00")},
		{"a reply without a body", false, answering("\x00\x00\x00\x04\x00\x00\x00\x01")},
		{"endless names", false, answering("\x00\x00\x00\x14\x00\x00\x00\x01" + strings.Repeat("\x00", 12) + "\x7f\xff\xff\xff")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.stalls && testing.Short() && os.Getenv("KESTREL_CI") == "" {
				t.Skip("the library waits a second for a farewell: make test by hand leaves that out, CI does not")
			}
			t.Parallel()
			served := make(chan struct{}, 1000)
			c := keeperOf(t, func(conn net.Conn) {
				conn.Read(make([]byte, 1<<10)) // asks for a session
				tt.script(conn)
				if tt.stalls {
					served <- struct{}{}
				}
				io.Copy(io.Discard, conn)
				served <- struct{}{}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- Watch(ctx, c, func(m Members) { t.Errorf("members are %+v", m) }) }()
			select {
			case <-served:
			case <-time.After(patience):
				t.Fatal("the server is not asked, or not left")
			}
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("Watch goes on")
			}
		})
	}
}
