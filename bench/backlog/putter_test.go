package main

import (
	"bufio"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test be the process of a putter.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == putterArg {
		main()
		return
	}
	os.Exit(m.Run())
}

// serve answers puts on one connection, each by reply, and returns the server's address. It hangs up
// after so many.
func serve(t *testing.T, reply string, puts int) (addr string, requests <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	seen := make(chan string, puts)
	go func() {
		defer close(seen)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for range puts {
			line, _ := r.ReadString('\n')
			data, err := r.ReadString('\n')
			if err != nil {
				return
			}
			seen <- line + data
			for _, piece := range strings.SplitAfter(reply, "O") {
				c.Write([]byte(piece))
			}
		}
	}()
	return ln.Addr().String(), seen
}

// TestPutter counts every put once, from when it was due.
func TestPutter(t *testing.T) {
	addr, requests := serve(t, "STORED\r\n", 1000)
	p, err := startPutter(addr, 1e5, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if got, want := <-requests, "set beside 0 0 64\r\n"+strings.Repeat("x", 64)+"\r\n"; got != want {
			t.Fatalf("request %q, want %q", got, want)
		}
	}
	s, err := p.end()
	if err != nil {
		t.Fatal(err)
	}
	n := s.latency.TotalCount()
	if n < 50 || s.lag.TotalCount() != n {
		t.Errorf("%d latencies and %d lags of 50 puts or more", n, s.lag.TotalCount())
	}
	if s.latency.Min() < s.lag.Min() || s.latency.Max() > time.Minute.Nanoseconds() {
		t.Errorf("latencies of %d to %d ns, lags from %d", s.latency.Min(), s.latency.Max(), s.lag.Min())
	}
}

// TestPutterFails: another reply than STORED, and a server that hangs up, end it with an error.
func TestPutterFails(t *testing.T) {
	for reply, want := range map[string]*regexp.Regexp{
		"SERVER_ERROR out of memory\r\n": regexp.MustCompile(`reply "SERVER_E`),
		"STORED\r\n":                     regexp.MustCompile(`hung up|reset|broken pipe`),
	} {
		addr, requests := serve(t, reply, 3)
		p, err := startPutter(addr, 1e5, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range requests {
		}
		// It ends by itself. The end of its input might come before it sees that the server hung up.
		if err := p.cmd.Wait(); err == nil || !want.MatchString(p.stderr.String()) {
			t.Errorf("after %q: %v, %s, want %v", reply, err, p.stderr.String(), want)
		}
	}
	for _, tt := range []struct {
		addr string
		cpu  int
	}{{"127.0.0.1:1", 0}, {"nowhere", 0}, {"127.0.0.1:1", 1 << 10}} {
		p, err := startPutter(tt.addr, 1, tt.cpu)
		if err == nil {
			_, err = p.end()
		}
		if err == nil {
			t.Errorf("put to %s from processor %d", tt.addr, tt.cpu)
		}
	}
}
