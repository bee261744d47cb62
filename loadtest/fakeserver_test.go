package loadtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeServer is a queue server in the test's process that speaks as much of Kestrel's memcache
// protocol as the generator uses. It never waits for an item.
type fakeServer struct {
	listener net.Listener
	serving  sync.WaitGroup
	answer   func(c net.Conn) // serves one connection

	// tamper, if set, replaces the reply to the n-th request served, from 0. A false result closes
	// the connection after the reply.
	tamper func(n int, reply string) (string, bool)

	mu sync.Mutex
	// Guarded by mu.
	queues      map[string][]string
	open        map[int64]openItem // thrift's open reads, by id
	forgetful   bool               // thrift: a get puts back what its connection has open
	lastID      int64
	requests    int
	connections int64
}

type openItem struct {
	queue, data string
	conn        net.Conn // that opened it
}

// newFakeServer starts a server that the test's end stops.
func newFakeServer(t *testing.T, tamper func(n int, reply string) (string, bool)) *fakeServer {
	t.Helper()
	s := &fakeServer{tamper: tamper}
	s.answer = s.serve
	s.start(t)
	return s
}

func (s *fakeServer) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listener = listener
	s.queues, s.open = make(map[string][]string), make(map[int64]openItem)
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		listener.Close()
		s.serving.Wait()
	})
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
		s.serving.Go(func() {
			defer c.Close()
			s.answer(c)
		})
	}
}

// serve answers one connection until it ends; the replies to what was pipelined leave together.
func (s *fakeServer) serve(c net.Conn) {
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	open := make(map[string][]string)
	defer func() {
		for queue, items := range open {
			s.putBack(queue, items...)
		}
	}()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		reply, err := s.reply(strings.Fields(line), in, open)
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

func (s *fakeServer) reply(words []string, in io.Reader, open map[string][]string) (string, error) {
	queue, options, _ := strings.Cut(words[1], "/")
	switch words[0] {
	case "set":
		size, err := strconv.Atoi(words[4])
		if err != nil {
			return "", err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return "", err
		}
		s.put(queue, string(data[:size]))
		return "STORED\r\n", nil
	case "monitor":
		limit, err := strconv.Atoi(words[3])
		var reply string
		for range limit {
			item, ok := s.take(queue)
			if !ok {
				break
			}
			open[queue] = append(open[queue], item)
			reply += value(queue, item)
		}
		return reply + "END\r\n", err
	case "confirm":
		count, err := strconv.Atoi(words[2])
		if count > len(open[queue]) {
			return "ERROR\r\n", err
		}
		open[queue] = open[queue][count:]
		return "END\r\n", err
	}
	return s.get(queue, strings.Split(options, "/"), open), nil
}

func (s *fakeServer) get(queue string, options []string, open map[string][]string) string {
	opens, closes := slices.Contains(options, "open"), slices.Contains(options, "close")
	if closes && len(open[queue]) > 0 {
		open[queue] = open[queue][1:]
	}
	if closes && !opens {
		return "END\r\n"
	}
	item, ok := s.take(queue)
	if !ok {
		return "END\r\n"
	}
	if opens {
		open[queue] = append(open[queue], item)
	}
	return value(queue, item)
}

func value(queue, item string) string {
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", queue, len(item), item)
}

func (s *fakeServer) put(queue, item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[queue] = append(s.queues[queue], item)
}

func (s *fakeServer) putBack(queue string, items ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[queue] = slices.Concat(items, s.queues[queue])
}

func (s *fakeServer) take(queue string) (item string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.queues[queue]
	if len(items) == 0 {
		return "", false
	}
	s.queues[queue] = items[1:]
	return items[0], true
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
