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
)

func TestRunCounts(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		opts                      Options
		operations, hits, in, con int64
	}{
		{"one put", Options{Operations: 1}, 1, 0, 1, 1},
		{"set", Options{Connections: 7, Pipeline: 3, Operations: 1000}, 1000, 0, 1000, 7},
		{"set, warmed up", Options{Connections: 3, Pipeline: 32, Operations: 1000, WarmupOperations: 77},
			1000, 0, 1077, 3},
		{"set, two threads", Options{Connections: 5, Pipeline: 8, Operations: 999, Threads: 2},
			999, 0, 999, 5},
		{"set, more threads than connections", Options{Connections: 2, Operations: 99, Threads: 8},
			99, 0, 99, 2},
		{"set and get", Options{Operation: SetGet, Connections: 4, Pipeline: 6, Operations: 600},
			600, 300, 0, 4},
		{"open and close", Options{Operation: OpenClose, Connections: 4, Pipeline: 6, Operations: 600},
			600, 200, 0, 4},
		{"large items", Options{Operation: SetGet, Connections: 2, Pipeline: 16, ItemSize: 200_000,
			Operations: 64}, 64, 32, 0, 2},
		{"cycles over batches", Options{Operation: SetGet, Pipeline: 5, Operations: 602}, 602, 301, 0, 1},
		{"reconnect", Options{Connections: 3, Pipeline: 2, Operations: 60, Reconnect: 5}, 60, 0, 60, 6},
	} {
		for _, verify := range []bool{false, true} {
			s := newFakeServer(t, nil)
			tt.opts.Addr, tt.opts.Verify, tt.opts.Queues = s.addr(), verify, tt.opts.Connections
			got, err := Run(context.Background(), tt.opts)
			if err != nil {
				t.Errorf("%s, verify %v: %v", tt.name, verify, err)
			}
			if got.Operations != tt.operations || got.Hits != tt.hits || got.Misses+got.Errors != 0 {
				t.Errorf("%s, verify %v: %d operations, %d hits, %d misses, %d errors, want %d and %d",
					tt.name, verify, got.Operations, got.Hits, got.Misses, got.Errors, tt.operations, tt.hits)
			}
			pipeline := max(tt.opts.Pipeline, 1)
			if n := got.Latency.TotalCount(); n*int64(pipeline) < got.Operations {
				t.Errorf("%s, verify %v: %d latencies of %d requests", tt.name, verify, n, got.Operations)
			}
			if got.Wall <= 0 || got.ThreadCPU <= 0 || got.Rate() <= 0 {
				t.Errorf("%s, verify %v: wall %v, cpu %v", tt.name, verify, got.Wall, got.ThreadCPU)
			}
			if n := s.depth(); n != tt.in {
				t.Errorf("%s, verify %v: %d items left, want %d", tt.name, verify, n, tt.in)
			}
			n := s.accepted()
			if n < tt.con || n > tt.con && tt.opts.Reconnect == 0 {
				t.Errorf("%s, verify %v: %d connections, want %d", tt.name, verify, n, tt.con)
			}
		}
	}
}

// What one run has put, another gets: in order, and then it misses.
func TestRunGetsWhatWasPut(t *testing.T) {
	s := newFakeServer(t, nil)
	opts := Options{Addr: s.addr(), Pipeline: 8, Operations: 400, Verify: true}
	if _, err := Run(context.Background(), opts); err != nil {
		t.Fatal(err)
	}
	opts.Operation, opts.Operations, opts.Connections = Get, 480, 4
	got, err := Run(context.Background(), opts)
	if err != nil || got.Hits != 400 || got.Misses != 80 {
		t.Errorf("%d hits, %d misses, %v, want 400 and 80", got.Hits, got.Misses, err)
	}
}

func TestRunDuration(t *testing.T) {
	s := newFakeServer(t, nil)
	var calls []string
	got, err := Run(context.Background(), Options{
		Addr: s.addr(), Connections: 2, Duration: 10 * time.Millisecond, Warmup: time.Millisecond,
		Begin: func() { calls = append(calls, "begin") },
		End:   func() { calls = append(calls, "end") },
	})
	if err != nil || got.Operations == 0 || got.Wall < 10*time.Millisecond {
		t.Errorf("%d operations in %v, %v, want some in at least 10ms", got.Operations, got.Wall, err)
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
	corrupt := func(n int, due string) (string, bool) {
		if n == 7 {
			return strings.Replace(due, ".0000000000000003.", ".0000000000000002.", 1), true
		}
		return due, true
	}
	for _, tt := range []struct {
		name   string
		tamper func(int, string) (string, bool)
		opts   Options
		want   string // in the error
	}{
		{"refused put", at(3, "SERVER_ERROR\r\n", true), Options{}, `got "SERVER_ERROR\r\n`},
		{"refused first", at(0, "CLIENT_ERROR\r\n", false), Options{}, `got "CLIENT_ERROR\r\n`},
		{"get answered as put", at(5, "STORED\r\n", true), Options{Operation: SetGet}, `got "STORED\r\n`},
		{"truncated item", at(5, "VALUE load 0 3\r\n000\r\nEND\r\n", true), Options{Operation: SetGet},
			`item of another size: got "000"`},
		{"old item", corrupt, Options{Operation: SetGet, Verify: true}, "damaged value"},
		{"closed", at(5, "", false), Options{}, "unexpected EOF"},
		{"closed in a reply", at(5, "STO", false), Options{}, "unexpected EOF"},
	} {
		for _, pipeline := range []int{1, 4} {
			s := newFakeServer(t, tt.tamper)
			tt.opts.Addr, tt.opts.Pipeline, tt.opts.Operations = s.addr(), pipeline, 100
			got, err := Run(context.Background(), tt.opts)
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
	s := newFakeServer(t, func(n int, due string) (string, bool) {
		if n == 5 {
			return "", true
		}
		return due, true
	})
	_, err := Run(context.Background(), Options{
		Addr: s.addr(), Pipeline: 4, Operations: 100, ReplyWait: tickInterval,
	})
	if !errors.Is(err, ErrStalled) {
		t.Errorf("Run = %v, want ErrStalled", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := newFakeServer(t, func(int, string) (string, bool) { return "", true })
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, Options{
		Addr: s.addr(), Threads: 2, Connections: 2, Operations: 1, Begin: cancel,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	if _, err := Run(ctx, Options{Addr: s.addr(), Operations: 1}); !errors.Is(err, context.Canceled) {
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
	if _, err := Run(context.Background(), Options{Addr: addr, Operations: 1}); !errors.Is(
		err, unix.ECONNREFUSED) {
		t.Errorf("Run = %v, want ECONNREFUSED", err)
	}
	if _, err := Run(context.Background(), Options{Addr: "no port", Operations: 1}); err == nil {
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
	got, err := Run(context.Background(), Options{
		Addr: listener.Addr().String(), ItemSize: 1, Operations: 1,
	})
	if err != nil || got.Operations != 1 {
		t.Errorf("%d operations, %v, want 1", got.Operations, err)
	}
}
