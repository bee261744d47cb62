package loadtest

import (
	"errors"
	"strings"
	"testing"
)

// newTestConn returns the only connection of a plan, with a batch of count requests in flight.
func newTestConn(opts Options, count int) (*plan, *conn) {
	p := newPlan(opts.withDefaults())
	c := &newConns(p, 0, 1)[0]
	c.prepare(p, count, 0)
	return p, c
}

// feed hands stream to a fresh connection, cut into two at the offset, and returns the tally.
func feed(t *testing.T, opts Options, count int, stream string, cut int) (tally, error) {
	t.Helper()
	p, c := newTestConn(opts, count)
	var got tally
	var done bool
	for _, chunk := range []string{stream[:cut], stream[cut:]} {
		if chunk == "" {
			continue
		}
		if done {
			t.Fatalf("batch done before the bytes from %d on", cut)
		}
		var err error
		if done, err = c.receive(p, &got, []byte(chunk)); err != nil {
			return got, err
		}
	}
	if !done {
		t.Fatalf("cut at %d: batch not done after %q", cut, stream)
	}
	return got, nil
}

// dueReplies returns what a correct server answers to the first count requests.
func dueReplies(opts Options, count int) string {
	_, c := newTestConn(opts, count)
	return string(c.batch.replies[:c.batch.replyEnd[count-1]])
}

func TestReceiveEverySplit(t *testing.T) {
	const count = 5
	for _, protocol := range []Protocol{Memcache, RedisList, RedisString, MemcacheMeta} {
		for _, operation := range []Operation{Set, Get, SetGet, OpenClose} {
			for _, verify := range []bool{false, true} {
				opts := Options{Protocol: protocol, Operation: operation, Verify: verify,
					Pipeline: 7, ItemSize: 30}
				noOpen := protocol == RedisString || protocol == MemcacheMeta
				if noOpen && operation == OpenClose || operation == Get && verify {
					continue
				}
				stream := dueReplies(opts, count)
				for cut := range len(stream) + 1 {
					got, err := feed(t, opts, count, stream, cut)
					if err != nil {
						t.Fatalf("%v %v verify=%v, cut at %d: %v", protocol, operation, verify, cut, err)
					}
					want := map[Operation]int64{Set: 0, Get: 5, SetGet: 2, OpenClose: 2}[operation]
					if got.operations != count || got.hits != want || got.misses != 0 {
						t.Fatalf("%v %v verify=%v, cut at %d: %+v, want %d hits",
							protocol, operation, verify, cut, got, want)
					}
				}
			}
		}
	}
}

func TestReceiveMissesEverySplit(t *testing.T) {
	opts := Options{Operation: Get, Pipeline: 4}
	one := dueReplies(opts, 1)
	stream := one + "END\r\n" + one + "END\r\n"
	for cut := range len(stream) + 1 {
		got, err := feed(t, opts, 4, stream, cut)
		if err != nil || got.operations != 4 || got.hits != 2 || got.misses != 2 {
			t.Fatalf("cut at %d: %+v, %v, want 2 hits and 2 misses", cut, got, err)
		}
	}
}

func TestReceiveWrongRepliesEverySplit(t *testing.T) {
	set, get := Options{Pipeline: 3}, Options{Operation: Get, Pipeline: 3}
	ordered := Options{Operation: SetGet, Pipeline: 4, Verify: true}
	item := dueReplies(get, 1)
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
		{"old item", ordered, 4, dueReplies(ordered, 2) + dueReplies(ordered, 2), 3,
			"item 0 out of order, due is 1", "00000000.0000000000000000."},
	} {
		for cut := range len(tt.stream) + 1 {
			p, c := newTestConn(tt.opts, tt.count)
			var counted tally
			done, err := c.receive(p, &counted, []byte(tt.stream[:cut]))
			if done {
				continue // what comes after the batch is not this call's concern
			}
			if err == nil {
				_, err = c.receive(p, &counted, []byte(tt.stream[cut:]))
			}
			var wrong *ReplyError
			if !errors.As(err, &wrong) || wrong.Request != tt.request || wrong.Problem != tt.problem {
				t.Fatalf("%s, cut at %d: %v, want request %d, %q", tt.name, cut, err, tt.request, tt.problem)
			}
			got := string(wrong.Got)
			if shared := min(len(got), len(tt.got)); got[:shared] != tt.got[:shared] || got == "" {
				t.Fatalf("%s, cut at %d: bytes %q, want %q…", tt.name, cut, got, tt.got)
			}
			if counted.operations > int64(tt.request) {
				t.Fatalf("%s, cut at %d: counted %d replies before the wrong one",
					tt.name, cut, counted.operations)
			}
		}
	}
}

func TestReceiveDoesNotAllocate(t *testing.T) {
	for _, tt := range []struct {
		protocol  Protocol
		operation Operation
	}{{Memcache, Set}, {Memcache, Get}, {Memcache, SetGet}, {RedisList, Set}, {RedisList, Get}} {
		opts := Options{Protocol: tt.protocol, Operation: tt.operation, Pipeline: 32}
		p, c := newTestConn(opts, 32)
		stream := []byte(dueReplies(opts, 32))
		var counted tally
		if n := testing.AllocsPerRun(100, func() {
			c.prepare(p, 32, 0)
			if done, err := c.receive(p, &counted, stream); !done || err != nil {
				t.Fatalf("receive = %v, %v", done, err)
			}
		}); n != 0 {
			t.Errorf("%v %v: %v allocations per batch, want 0", tt.protocol, tt.operation, n)
		}
	}
}

func TestReplyErrorText(t *testing.T) {
	err := &ReplyError{Connection: 3, Request: 1, Problem: "wrong reply",
		Got: []byte("ERROR\r\n"), Want: []byte("STORED\r\n")}
	want := "loadtest: connection 3, request 1 of its batch: wrong reply: " +
		`got "ERROR\r\n", want "STORED\r\n"`
	if got := err.Error(); got != want {
		t.Errorf("Error() = %s, want %s", got, want)
	}
	err.Got = []byte(strings.Repeat("x", 5000))
	if got := err.Error(); len(got) > 400 || !strings.Contains(got, "(5000 bytes)") {
		t.Errorf("Error() of 5000 bytes = %s, want them cut", got)
	}
}
