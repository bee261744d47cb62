package loadtest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/loadtest/testserver"
)

// one returns options of one group.
func one(addr string, g Group) Options { return Options{Addr: addr, Groups: []Group{g}} }

func TestRunCounts(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		group                     Group
		threads                   int
		operations, got, in, conn int64
	}{
		{"one put", Group{Operations: 1}, 1, 1, 0, 1, 1},
		{"set", Group{Connections: 7, Pipeline: 3, Operations: 1000}, 1, 1000, 0, 1000, 7},
		{"set, warmed up", Group{Connections: 3, Pipeline: 32, Operations: 1000, WarmupOperations: 77},
			1, 1000, 0, 1077, 3},
		{"set, two threads", Group{Connections: 5, Pipeline: 8, Operations: 999}, 2, 999, 0, 999, 5},
		{"set, more threads than connections", Group{Connections: 2, Operations: 99}, 8, 99, 0, 99, 2},
		{"set and get", Group{Operation: SetGet, Connections: 4, Pipeline: 6, Operations: 600}, 1,
			600, 300, 0, 4},
		{"open and close", Group{Operation: OpenClose, Connections: 4, Pipeline: 6, Operations: 600}, 1,
			600, 200, 0, 4},
		{"large items", Group{Operation: SetGet, Connections: 2, Pipeline: 16, ItemSize: 200_000,
			Operations: 64}, 1, 64, 32, 0, 2},
		{"cycles over batches", Group{Operation: SetGet, Pipeline: 5, Operations: 602}, 1, 602, 301, 0,
			1},
		{"reconnect", Group{Connections: 3, Pipeline: 2, Operations: 60, Reconnect: 5}, 1, 60, 0, 60, 6},
	} {
		for _, verify := range []bool{false, true} {
			s := testserver.New(t, nil)
			tt.group.Queues = tt.group.Connections
			opts := one(s.Addr(), tt.group)
			opts.Threads = tt.threads
			if verify {
				opts.Ledger = NewLedger(1, false)
			}
			got, err := Run(context.Background(), opts)
			if err != nil {
				t.Errorf("%s, verify %v: %v", tt.name, verify, err)
			}
			if got.Operations() != tt.operations || got.Got() != tt.got || got.Misses()+got.Errors != 0 {
				t.Errorf("%s, verify %v: %d operations, %d got, %d misses, %d errors, want %d and %d", tt.name,
					verify, got.Operations(), got.Got(), got.Misses(), got.Errors, tt.operations, tt.got)
			}
			if n := got.Latency().TotalCount(); n != got.Operations() {
				t.Errorf("%s, verify %v: %d latencies of %d requests", tt.name, verify, n, got.Operations())
			}
			if got.Wall <= 0 || got.ThreadCPU <= 0 || got.Rate() <= 0 {
				t.Errorf("%s, verify %v: wall %v, cpu %v", tt.name, verify, got.Wall, got.ThreadCPU)
			}
			if n := s.Depth(); n != tt.in {
				t.Errorf("%s, verify %v: %d items left, want %d", tt.name, verify, n, tt.in)
			}
			n := s.Accepted()
			if n < tt.conn || n > tt.conn && tt.group.Reconnect == 0 {
				t.Errorf("%s, verify %v: %d connections, want %d", tt.name, verify, n, tt.conn)
			}
		}
	}
}

// What one run has put, another gets: in order, and then it misses.
func TestRunGetsWhatWasPut(t *testing.T) {
	s := testserver.New(t, nil)
	opts := one(s.Addr(), Group{Pipeline: 8, Operations: 400})
	opts.Ledger = NewLedger(1, false)
	if _, err := Run(context.Background(), opts); err != nil {
		t.Fatal(err)
	}
	opts.Groups[0] = Group{Operation: Get, Pipeline: 8, Connections: 4, Operations: 480}
	got, err := Run(context.Background(), opts)
	if err != nil || got.Got() != 400 || got.Misses() != 80 {
		t.Errorf("%d got, %d misses, %v, want 400 and 80", got.Got(), got.Misses(), err)
	}
	if c := opts.Ledger.Counts(); c != (Counts{Put: 400, Got: 400}) {
		t.Errorf("Counts = %+v, want 400 put and got", c)
	}
}

func TestRunDuration(t *testing.T) {
	s := testserver.New(t, nil)
	var calls []string
	opts := one(s.Addr(), Group{Connections: 2, Duration: 10 * time.Millisecond})
	opts.Warmup = time.Millisecond
	opts.Begin = func() { calls = append(calls, "begin") }
	opts.End = func() { calls = append(calls, "end") }
	got, err := Run(context.Background(), opts)
	if err != nil || got.Operations() == 0 || got.Wall < 10*time.Millisecond {
		t.Errorf("%d operations in %v, %v, want some in at least 10ms", got.Operations(), got.Wall, err)
	}
	if strings.Join(calls, " ") != "begin end" {
		t.Errorf("calls %q, want begin and end", calls)
	}
}

func TestRunFailsOnWrongReplies(t *testing.T) {
	at := func(when int, reply string, more bool) func(int, string) (string, bool) {
		return func(n int, due string) (string, bool) {
			if n == when {
				return reply, more
			}
			return due, true
		}
	}
	for _, tt := range []struct {
		name   string
		tamper func(int, string) (string, bool)
		group  Group
		want   string // in the error
	}{
		{"refused put", at(3, "SERVER_ERROR\r\n", true), Group{}, `got "SERVER_ERROR\r\n`},
		{"refused first", at(0, "CLIENT_ERROR\r\n", false), Group{}, `got "CLIENT_ERROR\r\n`},
		{"get answered as put", at(5, "STORED\r\n", true), Group{Operation: SetGet}, `got "STORED\r\n`},
		{"truncated item", at(5, "VALUE load 0 3\r\n000\r\nEND\r\n", true), Group{Operation: SetGet},
			`item of another size: got "000"`},
		{"closed", at(5, "", false), Group{}, "unexpected EOF"},
		{"closed in a reply", at(5, "STO", false), Group{}, "unexpected EOF"},
	} {
		for _, pipeline := range []int{1, 4} {
			s := testserver.New(t, tt.tamper)
			tt.group.Pipeline, tt.group.Operations = pipeline, 100
			got, err := Run(context.Background(), one(s.Addr(), tt.group))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, pipeline %d: %v, want %q", tt.name, pipeline, err, tt.want)
			}
			if got.Errors != 1 {
				t.Errorf("%s, pipeline %d: %d errors, want 1", tt.name, pipeline, got.Errors)
			}
		}
	}
}

// A server that answers a batch short keeps the connection waiting, which ReplyWait ends.
func TestRunFailsOnShortCounts(t *testing.T) {
	s := testserver.New(t, func(n int, due string) (string, bool) {
		if n == 5 {
			return "", true
		}
		return due, true
	})
	opts := one(s.Addr(), Group{Pipeline: 4, Operations: 100})
	opts.ReplyWait = tickInterval
	if _, err := Run(context.Background(), opts); !errors.Is(err, ErrStalled) {
		t.Errorf("Run = %v, want ErrStalled", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := testserver.New(t, func(int, string) (string, bool) { return "", true })
	ctx, cancel := context.WithCancel(context.Background())
	opts := one(s.Addr(), Group{Connections: 2, Operations: 2})
	opts.Threads, opts.Begin = 2, cancel
	if _, err := Run(ctx, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	if _, err := Run(ctx, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with a context that is done = %v, want context.Canceled", err)
	}
}

func TestRunFailsToConnect(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	opts := one(addr, Group{Operations: 1})
	if _, err := Run(context.Background(), opts); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("Run = %v, want ECONNREFUSED", err)
	}
	opts.ConnectWait = 2 * connectPause
	got, err := Run(context.Background(), opts)
	if !errors.Is(err, unix.ECONNREFUSED) || got.Retries == 0 {
		t.Errorf("Run with ConnectWait = %d retries, %v, want some and ECONNREFUSED", got.Retries, err)
	}
	if _, err := Run(context.Background(), one("no port", Group{Operations: 1})); err == nil {
		t.Error("Run with an address without a port: no error")
	}
	if _, err := Run(context.Background(), Options{}); err == nil {
		t.Error("Run without options: no error")
	}
}

func TestRunIPv6(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 loopback")
	}
	defer listener.Close()
	go func() {
		if c, err := listener.Accept(); err == nil {
			io.ReadFull(c, make([]byte, len("set load 0 0 1\r\n0\r\n")))
			io.WriteString(c, "STORED\r\n")
			c.Close()
		}
	}()
	opts := one(listener.Addr().String(), Group{ItemSize: 1, Operations: 1})
	got, err := Run(context.Background(), opts)
	if err != nil || got.Operations() != 1 {
		t.Errorf("%d operations, %v, want 1", got.Operations(), err)
	}
}

// TestRunIntervals checks that intervals add up to the result, and cover the window without a gap.
func TestRunIntervals(t *testing.T) {
	for _, threads := range []int{1, 2} {
		s := testserver.New(t, nil)
		opts := one(s.Addr(), Group{Connections: 4, Duration: 110 * time.Millisecond})
		opts.Threads, opts.Interval = threads, 2*tickInterval
		var spans []Interval
		opts.OnInterval = func(i Interval) { spans = append(spans, i) }
		got, err := Run(context.Background(), opts)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for n, i := range spans {
			sum += i.Operations()
			if i.Index != n || i.Start != time.Duration(n)*opts.Interval || i.Wall <= 0 ||
				i.Latency().TotalCount() != i.Operations() {
				t.Errorf("%d threads: interval %d = %d at %v for %v with %d latencies of %d", threads, n,
					i.Index, i.Start, i.Wall, i.Latency().TotalCount(), i.Operations())
			}
		}
		if sum != got.Operations() || len(spans) < 3 {
			t.Errorf("%d threads: %d operations in %d intervals, want %d in at least 3", threads, sum,
				len(spans), got.Operations())
		}
	}
}

// TestRunHeadStart checks that consumers come first, and that the measured window begins after them.
func TestRunHeadStart(t *testing.T) {
	const headStart = 50 * time.Millisecond
	s := testserver.New(t, nil)
	var early string
	opts := Options{Addr: s.Addr(), Ledger: NewLedger(1, false), HeadStart: headStart, Groups: []Group{
		{Operations: 10}, {Operation: Get, Drain: true}, {Operations: 10, Rate: 1000},
	}}
	start := time.Now()
	opts.Begin = func() {
		early = s.Last("load")
		if d := time.Since(start); d < headStart {
			t.Errorf("the window begins after %v, want at least %v", d, headStart)
		}
	}
	got, err := Run(context.Background(), opts)
	if err != nil || got.Got() != 20 || got.Misses() == 0 {
		t.Errorf("%d got, %d misses, %v, want 20 and some", got.Got(), got.Misses(), err)
	}
	if early != "" {
		t.Errorf("%q was put before the window began", early)
	}
	if got.Wall > time.Since(start)-headStart {
		t.Errorf("the window took %v of %v, want it to be without %v", got.Wall, time.Since(start), headStart)
	}
}
