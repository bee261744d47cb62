// Secure measures what TLS and users cost: processor time of the server for a SET and a GET of 64 bytes. Kestrel,
// redis-server with tls-port and memcached with -Z run over TLS in one run, round by round, with one certificate. One
// more kestrel runs without TLS on two ports: its clients need no user on the one, and log in on the other.
//
//	go run ./bench/secure -kestrel bin/kestrel
//
// The report goes to standard output as markdown, progress to standard error. The server has processor 0 and the clients
// have processor 1. The CPU clock of the server is read while no request is outstanding. Each connection puts its share of
// items, and then gets as many, five times; the first time warms up. Redis has its log (AOF, everysec) and a list;
// memcached keeps nothing on disk.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const (
	itemSize   = 64 // bytes
	cycles     = 4  // of puts and gets that are counted; one before them is not
	serverCPU  = 0
	clientsCPU = 1
	askWait    = time.Minute // for a reply, and for a server to be ready
)

// load is how many connections have how many requests in flight.
type load struct{ connections, pipeline int }

// requests is how many requests each connection sends in one cycle of puts, and as many of gets. That is all of them
// together, or eight times that if many are in flight.
func (l load) requests(all int) int {
	if l.pipeline > 1 {
		all *= 8
	}
	return max(all/l.connections/l.pipeline, 1) * l.pipeline
}

func loads() []load { return []load{{16, 1}, {16, 32}, {100, 1}, {100, 32}} }

// sample is the processor time of the server for one request of each kind, in µs.
type sample struct{ put, get float64 }

func main() {
	runtime.LockOSThread() // servers die with the thread that has started them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "secure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("secure", flag.ContinueOnError)
	f.SetOutput(stderr)
	kestrel := f.String("kestrel", "bin/kestrel", "`path` of the kestrel binary")
	rounds := f.Int("rounds", 5, "`rounds` over all servers of a case")
	chosen := f.String("servers", "", "regular `expression` on the names of the servers that take part")
	connections := f.Int("connections", 0, "only the loads of so many `connections`; 0: all")
	requests := f.Int("requests", 10_000, "`requests` of a cycle, of all connections, and eight times as many with 32 in flight")
	dir := f.String("dir", os.TempDir(), "`directory` on the disk that the servers write to")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := spawn.PinSelf([]int{clientsCPU}); err != nil {
		return err
	}
	own, err := os.MkdirTemp(*dir, "secure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	if err := writeCertificate(own); err != nil {
		return err
	}
	program, err := filepath.Abs(*kestrel)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(*chosen)
	if err != nil {
		return fmt.Errorf("-servers: %w", err)
	}
	all := slices.DeleteFunc(servers(program, own), func(s server) bool { return !wanted.MatchString(s.String()) })
	results := make(map[string][]*sample) // by server and load
	for round := range *rounds {
		for _, l := range loads() {
			if *connections > 0 && l.connections != *connections {
				continue
			}
			for _, s := range all {
				if _, err := exec.LookPath(s.program); err != nil {
					return err
				}
				got, err := measure(ctx, s, l, l.requests(*requests), own)
				if err != nil {
					return fmt.Errorf("%v: %w", &s, err)
				}
				for i, f := range s.faces {
					fmt.Fprintf(stderr, "round %d/%d c=%d P=%d %-14s put %.2f get %.2f µs\n", round+1, *rounds, l.connections,
						l.pipeline, f.name, got[i].put, got[i].get)
					key := fmt.Sprint(f.name, l)
					results[key] = append(results[key], got[i])
				}
			}
		}
	}
	_, err = io.WriteString(stdout, report(results, *rounds))
	return err
}

// report prints a table for each pair of servers that is compared.
func report(results map[string][]*sample, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPU of the server, µs a request of %d B, %d rounds; ratios are medians of rounds (least–greatest)\n\n", itemSize, rounds)
	b.WriteString("| request | server | CPU µs | beside | ratio | goal | reached |\n|---|---|--:|---|--:|--:|---|\n")
	for _, l := range loads() {
		for _, kind := range []struct {
			name   string
			figure func(*sample) float64
		}{{"SET", func(s *sample) float64 { return s.put }}, {"GET", func(s *sample) float64 { return s.get }}} {
			of := func(name string) (list []float64) {
				for _, s := range results[fmt.Sprint(name, l)] {
					list = append(list, kind.figure(s))
				}
				return list
			}
			for _, c := range []struct {
				own, peer string
				goal      float64
			}{
				{"kestrel-tls", "redis-tls", 1}, {"kestrel-tls", "memcached-tls", 1}, {"kestrel-user", "kestrel-plain", 1.02},
			} {
				if len(of(c.own)) == 0 || len(of(c.peer)) == 0 {
					continue // it did not take part
				}
				ratio := figures.Summarize(figures.Ratios(of(c.own), of(c.peer)))
				reached := "yes"
				if ratio.Median > c.goal {
					reached = "**no**"
				}
				fmt.Fprintf(&b, "| %s c=%d P=%d | %s | %v | %s, %v | %v | ≤ %v | %s |\n", kind.name, l.connections, l.pipeline, c.own,
					figures.Summarize(of(c.own)), c.peer, figures.Summarize(of(c.peer)), ratio, c.goal, reached)
			}
		}
	}
	return b.String()
}

// measure starts a server, and measures one load on it: each requests of a connection in a cycle. It returns a sample
// for each face. The connections to all faces are open all the time, and every other cycle begins with the last face. So
// neither place nor time favours one.
func measure(ctx context.Context, s server, l load, each int, own string) ([]*sample, error) {
	ports := make([]int, len(s.faces))
	for i := range ports {
		for ports[i] == 0 || slices.Contains(ports[:i], ports[i]) {
			var err error
			if ports[i], err = spawn.FreePort(); err != nil {
				return nil, err
			}
		}
	}
	dial := func(port int) (net.Conn, error) {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if !s.tls {
			return net.DialTimeout("tcp", addr, askWait)
		}
		return tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	}
	p, err := spawn.Start(ctx, spawn.Options{
		Name: s.faces[0].name, Program: s.program, Dir: own, CPUs: []int{serverCPU},
		Args: func(dir string) ([]string, error) { return s.args(dir, ports) },
		Ready: func() error {
			c, err := dial(ports[0])
			if err == nil {
				c.Close()
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	clients := make([][]*client, len(s.faces))
	for i := range l.connections * len(s.faces) {
		f := i % len(s.faces)
		c, err := dial(ports[f])
		if err != nil {
			return nil, err
		}
		defer c.Close()
		clients[f] = append(clients[f], &client{conn: c, in: bufio.NewReaderSize(c, 64<<10)})
		if login := s.faces[f].login; login != "" {
			if err := clients[f][len(clients[f])-1].ask([]byte(login), 1, 1, "STORED"); err != nil {
				return nil, err
			}
		}
	}
	samples := make([]*sample, len(s.faces))
	for f := range samples {
		samples[f] = new(sample)
	}
	requests := float64(cycles * each * l.connections)
	for cycle := range cycles + 1 {
		for turn := range s.faces {
			f := turn
			if cycle%2 == 1 {
				f = len(s.faces) - 1 - turn
			}
			for _, part := range []struct {
				request
				figure *float64
			}{{s.put, &samples[f].put}, {s.get, &samples[f].get}} {
				took, err := phase(p.PID, clients[f], each, l.pipeline, part.request)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s.faces[f].name, err)
				}
				if cycle > 0 {
					*part.figure += float64(took) / float64(time.Microsecond) / requests
				}
			}
		}
	}
	return samples, nil
}

// phase has every client send as many requests, and returns what processor time the server took.
func phase(pid int, clients []*client, each, pipeline int, r request) (time.Duration, error) {
	before, err := spawn.CPUTime(pid)
	if err != nil {
		return 0, err
	}
	batch := bytes.Repeat([]byte(r.bytes), pipeline)
	errs := make([]error, len(clients))
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			for sent := 0; sent < each && errs[i] == nil; sent += pipeline {
				errs[i] = c.ask(batch, pipeline, r.lines, r.begins)
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	after, err := spawn.CPUTime(pid)
	return after - before, err
}

// client is a connection.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// ask sends requests, and reads as many replies, each of so many lines, of which the first begins as it should.
func (c *client) ask(requests []byte, replies, lines int, begins string) error {
	c.conn.SetDeadline(time.Now().Add(askWait))
	if _, err := c.conn.Write(requests); err != nil {
		return err
	}
	for i := range replies * lines {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if i%lines == 0 && !bytes.HasPrefix(line, []byte(begins)) {
			return fmt.Errorf("answer %q, want %s", line, begins)
		}
	}
	return nil
}
