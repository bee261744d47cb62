package loadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/testserver"
)

// newTestConn returns the only connection of a run that was not started, and what is counted of it. A batch of count
// requests is in flight on it.
func newTestConn(t testing.TB, opts Options, count int) (*conn, *tally) {
	t.Helper()
	opts.Addr = "127.0.0.1:1"
	if opts.Groups[0].Operations == 0 {
		opts.Groups[0].Operations = unbounded
	}
	if err := opts.Validate(); err != nil {
		t.Fatal(err)
	}
	r := &runner{opts: opts.withDefaults(), start: time.Now()}
	for i := range r.opts.Groups {
		r.groups = append(r.groups, newGroup(&r.opts, i))
	}
	conns, err := r.newConns()
	if err != nil {
		t.Fatal(err)
	}
	c := &conns[0]
	c.left = unbounded
	c.prepare(count, 0, r.start)
	return c, r.newTally(&thread{random: rand.New(rand.NewPCG(0, 0))})
}

// feedBytes hands stream to a fresh connection, cut into two at the offset, and returns the tally.
func feedBytes(t *testing.T, opts Options, count int, stream string, cut int) (*tally, error) {
	t.Helper()
	c, got := newTestConn(t, opts, count)
	var done bool
	for _, chunk := range []string{stream[:cut], stream[cut:]} {
		if chunk == "" {
			continue
		}
		if done {
			t.Fatalf("batch done before the bytes from %d on", cut)
		}
		var err error
		if done, err = c.receive(got, []byte(chunk), time.Millisecond); err != nil {
			return got, err
		}
	}
	if !done {
		t.Fatalf("cut at %d: batch not done after %q", cut, stream)
	}
	return got, nil
}

// dueReplies returns what a correct server answers to the first count requests.
func dueReplies(t testing.TB, opts Options, count int) string {
	c, _ := newTestConn(t, opts, count)
	return string(c.batch.replies[:c.batch.replyEnd[count-1]])
}

func TestReceiveEverySplit(t *testing.T) {
	const count = 5
	stride := 1
	if testing.Short() {
		stride = 3
	}
	for protocol := range numProtocols {
		for _, operation := range []Operation{Set, Get, SetGet, OpenClose} {
			if !protocol.can(operation) {
				continue
			}
			opts := Options{Protocol: protocol, Groups: []Group{
				{Operation: operation, Pipeline: 7, ItemSize: 36}}}
			stream := dueReplies(t, opts, count)
			for cut := 0; cut <= len(stream); cut += stride {
				got, err := feedBytes(t, opts, count, stream, cut)
				if err != nil {
					t.Fatalf("%v %v, cut at %d: %v", protocol, operation, cut, err)
				}
				want := map[Operation]int64{Set: 0, Get: 5, SetGet: 2, OpenClose: 2}[operation]
				if protocol == Thrift && operation == OpenClose || protocol == Beanstalk {
					want = 0 // the first step is all puts
				}
				s := got.summary()
				if s.Operations() != count || s.Got() != want || s.Misses() != 0 ||
					s.Latency().TotalCount() != count {
					t.Fatalf("%v %v, cut at %d: %+v, want %d got", protocol, operation, cut, s, want)
				}
			}
		}
	}
}

func TestReceiveMissesEverySplit(t *testing.T) {
	opts := Options{Groups: []Group{{Operation: Get, Pipeline: 4}}}
	one := dueReplies(t, opts, 1)
	stream := one + "END\r\n" + one + "END\r\n"
	for cut := range len(stream) + 1 {
		got, err := feedBytes(t, opts, 4, stream, cut)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if s := got.summary(); s.Operations() != 4 || s.Got() != 2 || s.Misses() != 2 {
			t.Fatalf("cut at %d: %+v, want 2 got and 2 misses", cut, s)
		}
	}
}

// TestReceiveMonitor feeds replies of several parts, cut anywhere.
func TestReceiveMonitor(t *testing.T) {
	opts := Options{Groups: []Group{{Operation: Monitor, Burst: 3}}}
	c, _ := newTestConn(t, opts, 1)
	item := testserver.Value("load", string(c.group.items[0]))
	for _, tt := range []struct {
		stream      string
		got, misses int64
	}{{item + item + item + "END\r\n", 3, 0}, {item + "END\r\n", 1, 0}, {"END\r\n", 0, 1}} {
		for cut := range len(tt.stream) + 1 {
			got, err := feedBytes(t, opts, 1, tt.stream, cut)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if s := got.summary(); s.Operations() != 1 || s.Got() != tt.got || s.Misses() != tt.misses {
				t.Fatalf("%q cut at %d: %+v, want %d got", tt.stream, cut, s, tt.got)
			}
		}
	}
	stream := strings.Repeat(item, 4)
	if _, err := feedBytes(t, opts, 1, stream, 0); err == nil ||
		!strings.Contains(err.Error(), "more than 3 items") {
		t.Errorf("four items of three: %v", err)
	}
}

func TestReceiveWrongRepliesEverySplit(t *testing.T) {
	set := Options{Groups: []Group{{Pipeline: 3}}}
	get := Options{Groups: []Group{{Operation: Get, Pipeline: 3}}}
	item := dueReplies(t, get, 1)
	for _, tt := range []struct {
		name    string
		opts    Options
		count   int
		stream  string
		request int
		problem string
		got     string // prefix of the bytes in the error
	}{
		{"refused", set, 3, "STORED\r\nSERVER_ERROR\r\n", 1, "wrong reply", "SERVER_ERROR\r\n"},
		{"one too many", set, 3, strings.Repeat("STORED\r\n", 4), 3,
			"bytes after the last reply", "STORED"},
		{"damaged", get, 3, item + strings.Replace(item, "abc", "abd", 1), 1,
			"damaged item", "00000000.0"},
		{"other size", get, 3, "VALUE load 0 1\r\nx\r\nEND\r\n", 0, "item of another size", "x"},
		{"other key", get, 3, item + strings.Replace(item, "load", "lead", 1), 1,
			"wrong reply", "VALUE lead"},
	} {
		for cut := range len(tt.stream) + 1 {
			c, counted := newTestConn(t, tt.opts, tt.count)
			done, err := c.receive(counted, []byte(tt.stream[:cut]), time.Millisecond)
			if done {
				continue // what comes after the batch is not this call's concern
			}
			if err == nil {
				_, err = c.receive(counted, []byte(tt.stream[cut:]), time.Millisecond)
			}
			var wrong *ReplyError
			if !errors.As(err, &wrong) || wrong.Request != tt.request || wrong.Problem != tt.problem {
				t.Fatalf("%s, cut at %d: %v, want request %d, %q", tt.name, cut, err, tt.request, tt.problem)
			}
			got := string(wrong.Got)
			if shared := min(len(got), len(tt.got)); got[:shared] != tt.got[:shared] || got == "" {
				t.Fatalf("%s, cut at %d: bytes %q, want %q…", tt.name, cut, got, tt.got)
			}
			if n := counted.summary().Operations(); n > int64(tt.request) {
				t.Fatalf("%s, cut at %d: counted %d replies before the wrong one", tt.name, cut, n)
			}
		}
	}
}

// TestReceiveNoise has a server say what means nothing right behind the last reply of a batch, in
// the same read. It belongs to no request, and is no mistake.
func TestReceiveNoise(t *testing.T) {
	opts := Options{Protocol: JetStream, Groups: []Group{{Operation: Set}}}
	const ack = "{\"stream\":\"load\",\"seq\":7}"
	reply := fmt.Sprintf("MSG _INBOX.load.0 1 %d\r\n%s\r\n", len(ack), ack)
	for _, tt := range []struct {
		behind string
		fails  bool
	}{{"", false}, {"PING\r\n", false}, {"PING\r\n+OK\r\n", false}, {"PING\r\n" + reply, true}} {
		c, counted := newTestConn(t, opts, 1)
		done, err := c.receive(counted, []byte(reply+tt.behind), time.Millisecond)
		if !done && err == nil || (err != nil) != tt.fails {
			t.Errorf("a reply and %q: done %v, %v", tt.behind, done, err)
		}
		if n := counted.summary().Operations(); n != 1 && !tt.fails {
			t.Errorf("a reply and %q: counted %d replies", tt.behind, n)
		}
	}
}

// TestReceiveDoesNotAllocate checks the way of a request: built, answered, checked and counted.
func TestReceiveDoesNotAllocate(t *testing.T) {
	for _, tt := range []struct {
		protocol  Protocol
		operation Operation
		verify    bool
	}{
		{Memcache, Set, false}, {Memcache, Get, false}, {Memcache, SetGet, false}, {Thrift, Set, false},
		{Thrift, Get, false}, {RedisList, Set, false}, {RedisList, Get, false},
		{Memcache, Set, true}, {Thrift, Set, true}, {RedisList, Set, true},
	} {
		opts := Options{Protocol: tt.protocol, Groups: []Group{{Operation: tt.operation, Pipeline: 32}}}
		stream := []byte(dueReplies(t, opts, 32))
		if tt.verify {
			opts.Ledger = NewLedger(1, false)
		}
		c, counted := newTestConn(t, opts, 32)
		at := time.Now()
		if n := testing.AllocsPerRun(100, func() {
			c.prepare(32, 0, at)
			if done, err := c.receive(counted, stream, time.Millisecond); !done || err != nil {
				t.Fatalf("receive = %v, %v", done, err)
			}
		}); n != 0 {
			t.Errorf("%v %v, verify %v: %v allocations per batch, want 0", tt.protocol, tt.operation,
				tt.verify, n)
		}
	}
}

// TestCheckDoesNotAllocate checks items that differ.
func TestCheckDoesNotAllocate(t *testing.T) {
	l := NewLedger(1, false)
	p, c := newTestFeed(t, l, exactOrder)
	at, item := time.Now(), []byte(nil)
	if n := testing.AllocsPerRun(1000, func() {
		item = appendValue(item[:0], p.size, p.next(at), c.letters)
		p.acknowledge(1)
		if _, _, problem, _ := c.check(item); problem != "" {
			t.Fatal(problem)
		}
	}); n != 0 {
		t.Errorf("%v allocations per item, want 0", n)
	}
}

func TestReplyErrorText(t *testing.T) {
	err := &ReplyError{Queue: "q", Operation: Get, Connection: 3, Request: 1, Problem: "wrong reply",
		Got: []byte("ERROR\r\n"), GotSize: 7, Want: []byte("STORED\r\n"), WantSize: 8}
	want := `loadtest: queue "q", GET connection 3, request 1 of its batch: wrong reply: ` +
		`got "ERROR\r\n", want "STORED\r\n"`
	if got := err.Error(); got != want {
		t.Errorf("Error() = %s, want %s", got, want)
	}
	err.Got, err.GotSize = []byte(strings.Repeat("x", 161)), 5000
	if got := err.Error(); len(got) > 400 || !strings.Contains(got, "(5000 bytes)") {
		t.Errorf("Error() of 5000 bytes = %s, want them cut", got)
	}
}

// TestGreet does the greeting of connections with each protocol that has one. One server answers it byte by byte, and
// another refuses it.
func TestGreet(t *testing.T) {
	for _, tt := range []struct {
		protocol  Protocol
		operation Operation
		sent      string
		answer    string
	}{
		{Beanstalk, Set, "use load\r\n", "USING load\r\n"},
		{Beanstalk, Consume, "use load\r\nwatch load\r\nignore default\r\n",
			"USING load\r\nWATCHING 2\r\nWATCHING 1\r\n"},
		{JetStream, Set, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"protocol\":1}" +
			"\r\nSUB _INBOX.load.0 1\r\nPING\r\n", "INFO {}\r\nPONG\r\n"},
		{NSQ, Set, "  V2IDENTIFY\n\x00\x00\x00\x37" + `{"heartbeat_interval":60000,"output_buffer_timeout":25}`,
			"\x00\x00\x00\x06\x00\x00\x00\x00OK"},
	} {
		g := &Group{Operation: tt.operation, Burst: 1}
		p := newProtocol(&Options{Protocol: tt.protocol}, g).(greeter)
		if got := string(p.appendGreeting(nil, "load", 0, g)); got != tt.sent {
			t.Errorf("%v: greeting %q, want %q", tt.protocol, got, tt.sent)
		}
		for i := range len(tt.answer) + 1 {
			n, err := p.greeted([]byte(tt.answer[:i]), g)
			if want := i / len(tt.answer) * i; err != nil || n != want {
				t.Errorf("%v: greeted by %q = %d, %v, want %d", tt.protocol, tt.answer[:i], n, err, want)
			}
		}
		refusal := map[Protocol]string{Beanstalk: "BAD_FORMAT\r\n", JetStream: "-ERR 'no'\r\n",
			NSQ: "\x00\x00\x00\x09\x00\x00\x00\x01E_BAD"}[tt.protocol]
		if _, err := p.greeted([]byte(refusal), g); err == nil {
			t.Errorf("%v: greeted by %q: no error", tt.protocol, refusal)
		}
	}
	s := testserver.Answering(t, func(c net.Conn) { c.Write([]byte("UNKNOWN_COMMAND\r\n")) })
	opts := Options{Addr: s.Addr(), Protocol: Beanstalk, Groups: []Group{{Operations: 1}}}
	if _, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(),
		"UNKNOWN_COMMAND") {
		t.Errorf("Run against a server that refuses the greeting = %v, want its answer", err)
	}
}
