package loadtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeServer is a queue server in the test's process that speaks as much of Kestrel's memcache
// protocol as the generator uses.
type fakeServer struct {
	listener net.Listener
	serving  sync.WaitGroup

	// tamper, if set, replaces the reply to the n-th request served, from 0. A false result closes
	// the connection after the reply.
	tamper func(n int, reply string) (string, bool)

	mu sync.Mutex
	// Guarded by mu.
	queues      map[string][]string
	requests    int
	connections int64
}

// newFakeServer starts a server that the test's end stops.
func newFakeServer(t *testing.T, tamper func(n int, reply string) (string, bool)) *fakeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{listener: listener, tamper: tamper, queues: make(map[string][]string)}
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		listener.Close()
		s.serving.Wait()
	})
	return s
}

func (s *fakeServer) addr() string { return s.listener.Addr().String() }

func (s *fakeServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.connections++
		s.mu.Unlock()
		s.serving.Go(func() { s.serve(c) })
	}
}

// serve answers one connection until it ends; the replies to what was pipelined leave together.
func (s *fakeServer) serve(c net.Conn) {
	defer c.Close()
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	var open []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		reply, err := s.answer(strings.Fields(line), in, &open)
		if err != nil {
			return
		}
		reply, more := s.tampered(reply)
		out.WriteString(reply)
		if in.Buffered() == 0 || !more {
			out.Flush()
		}
		if !more {
			return
		}
	}
}

// tampered counts the request and returns the reply to send.
func (s *fakeServer) tampered(reply string) (string, bool) {
	s.mu.Lock()
	n := s.requests
	s.requests++
	s.mu.Unlock()
	if s.tamper == nil {
		return reply, true
	}
	return s.tamper(n, reply)
}

func (s *fakeServer) answer(words []string, in io.Reader, open *[]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, option, _ := strings.Cut(words[1], "/")
	if words[0] == "set" {
		size, err := strconv.Atoi(words[4])
		if err != nil {
			return "", err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return "", err
		}
		s.queues[queue] = append(s.queues[queue], string(data[:size]))
		return "STORED\r\n", nil
	}
	if option == "close" {
		*open = (*open)[1:]
		return "END\r\n", nil
	}
	if len(s.queues[queue]) == 0 {
		return "END\r\n", nil
	}
	item := s.queues[queue][0]
	s.queues[queue] = s.queues[queue][1:]
	if option == "open" {
		*open = append(*open, item)
	}
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", queue, len(item), item), nil
}

// depth returns the number of items in all queues.
func (s *fakeServer) depth() (items int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, queue := range s.queues {
		items += int64(len(queue))
	}
	return items
}

// accepted returns the number of connections there have been.
func (s *fakeServer) accepted() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}
