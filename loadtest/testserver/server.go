package testserver

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

// Server speaks as much of Kestrel's memcache protocol, or of its Thrift service, as a load
// generator uses.
type Server struct {
	forgetful bool // a get of Thrift puts back what its connection has open

	listener net.Listener
	serving  sync.WaitGroup
	answer   func(c net.Conn) // serves one connection

	mu sync.Mutex
	// Guarded by mu.
	tamper      func(n int, reply string) (string, bool)
	queues      map[string][]string
	open        map[int64]openItem // thrift's open reads, by id
	lastID      int64
	requests    int
	connections int64
}

type openItem struct {
	queue, data string
	conn        net.Conn // that opened it
}

// New starts a server of the memcache protocol that the test's end stops. Tamper is as for
// SetTamper.
func New(t testing.TB, tamper func(n int, reply string) (string, bool)) *Server {
	t.Helper()
	s := &Server{tamper: tamper}
	s.answer = s.serve
	s.start(t)
	return s
}

// Answering starts a server that has every connection answered by a function, and closes it then.
func Answering(t testing.TB, answer func(c net.Conn)) *Server {
	t.Helper()
	s := &Server{answer: answer}
	s.start(t)
	return s
}

func (s *Server) start(t testing.TB) {
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

// SetTamper has a function, if it is not nil, replace the reply to the n-th request served, from 0.
// A false result closes the connection after the reply.
func (s *Server) SetTamper(tamper func(n int, reply string) (string, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tamper = tamper
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return s.listener.Addr().String() }

func (s *Server) accept() {
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
func (s *Server) serve(c net.Conn) {
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
func (s *Server) tampered(reply string) (string, bool) {
	s.mu.Lock()
	n, tamper := s.requests, s.tamper
	s.requests++
	s.mu.Unlock()
	if tamper == nil {
		return reply, true
	}
	return tamper(n, reply)
}

func (s *Server) reply(words []string, in io.Reader, open map[string][]string) (string, error) {
	switch words[0] {
	case "version":
		return "VERSION test\r\n", nil
	case "stats":
		return s.stats(), nil
	}
	queue, options, _ := strings.Cut(words[1], "/")
	switch words[0] {
	case "flush":
		s.mu.Lock()
		delete(s.queues, queue)
		s.mu.Unlock()
		return "END\r\n", nil
	case "set":
		size, err := strconv.Atoi(words[4])
		if err != nil {
			return "", err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return "", err
		}
		s.Put(queue, string(data[:size]))
		return "STORED\r\n", nil
	case "monitor":
		limit, err := strconv.Atoi(words[3])
		var reply string
		for range limit {
			item, ok := s.Take(queue)
			if !ok {
				break
			}
			open[queue] = append(open[queue], item)
			reply += Value(queue, item)
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

func (s *Server) stats() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "STAT total_items %d\r\n", s.requests)
	for queue, items := range s.queues {
		size := len(strings.Join(items, ""))
		for name, n := range map[string]int{"items": len(items), "bytes": size, "mem_items": len(items),
			"mem_bytes": size, "logsize": 0, "total_items": len(items)} {
			fmt.Fprintf(&b, "STAT queue_%s_%s %d\r\n", queue, name, n)
		}
	}
	return b.String() + "END\r\n"
}

func (s *Server) get(queue string, options []string, open map[string][]string) string {
	opens, closes := slices.Contains(options, "open"), slices.Contains(options, "close")
	if closes && len(open[queue]) > 0 {
		open[queue] = open[queue][1:]
	}
	if closes && !opens {
		return "END\r\n"
	}
	if slices.Contains(options, "peek") {
		return "END\r\n"
	}
	item, ok := s.Take(queue)
	if !ok {
		return "END\r\n"
	}
	if opens {
		open[queue] = append(open[queue], item)
	}
	return Value(queue, item)
}

// Value returns the reply to a get that finds an item.
func Value(queue, item string) string {
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", queue, len(item), item)
}

// Put appends an item.
func (s *Server) Put(queue, item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[queue] = append(s.queues[queue], item)
}

func (s *Server) putBack(queue string, items ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[queue] = slices.Concat(items, s.queues[queue])
}

// Take removes the first item.
func (s *Server) Take(queue string) (item string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.queues[queue]
	if len(items) == 0 {
		return "", false
	}
	s.queues[queue] = items[1:]
	return items[0], true
}

// Last returns the item put last to a queue.
func (s *Server) Last(queue string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.queues[queue]
	if len(items) == 0 {
		return ""
	}
	return items[len(items)-1]
}

// Depth returns the number of items in all queues.
func (s *Server) Depth() (items int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, queue := range s.queues {
		items += int64(len(queue))
	}
	return items
}

// Accepted returns the number of connections there have been.
func (s *Server) Accepted() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}
