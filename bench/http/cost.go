package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const costCycles = 4 // of puts and gets; the first is not counted

// load is how many connections have how many requests in flight.
type load struct{ connections, pipeline int }

func (l load) String() string {
	if l.connections == 1 {
		return fmt.Sprintf("1 connection, %d in flight", l.pipeline)
	}
	return fmt.Sprintf("%d connections, %d in flight each", l.connections, l.pipeline)
}

// each is how many requests one connection sends in a phase: of all together, and eight times that if many are in flight.
func (l load) each(all int) int {
	if l.pipeline > 1 {
		all *= 8
	}
	return max(all/l.connections/l.pipeline, 1) * l.pipeline
}

func costLoads() []load { return []load{{1, 32}, {16, 32}, {16, 1}} }

// party is who takes part: how its requests look, and how a reply is read.
type party struct {
	name     string
	of       func(own, nginx *server) (s *server, addr string)
	put, get func(client, i int) []byte
	putReply func(c *conn) error
	getReply func(c *conn) error
}

func item() string { return strings.Repeat("x", bodySize) }

// expectStatus returns how to read a reply of HTTP that must have a status, and a body of that length.
func expectStatus(want, length int) func(*conn) error {
	return func(c *conn) error {
		status, body, err := c.replyHTTP()
		if err == nil && (status != want || len(body) != length) {
			err = fmt.Errorf("reply %d with %d bytes, want %d with %d", status, len(body), want, length)
		}
		return err
	}
}

func expectMemcache(lines int, begins string) func(*conn) error {
	return func(c *conn) error {
		_, err := c.expectLines(lines, begins)
		return err
	}
}

const costQueue = "bench"

func parties() []party {
	path := func(client, i int) string { return fmt.Sprintf("/v1.0/default/%s/%d-%d", costQueue, client, i) }
	put := func(client, i int) []byte { return request("PUT", path(client, i), item()) }
	get := func(client, i int) []byte { return request("GET", path(client, i)+"?detail=body", "") }
	return []party{
		{"burrow", func(own, _ *server) (*server, string) { return own, own.http }, put, get,
			expectStatus(201, 0), expectStatus(200, bodySize)},
		{"memcache", func(own, _ *server) (*server, string) { return own, own.memcache },
			func(int, int) []byte { return fmt.Appendf(nil, "set %s 0 0 %d\r\n%s\r\n", costQueue, bodySize, item()) },
			func(int, int) []byte { return []byte("get " + costQueue + "\r\n") },
			expectMemcache(1, "STORED"), expectMemcache(3, "VALUE")},
		{"nginx", func(_, nginx *server) (*server, string) { return nginx, nginx.http }, put, get,
			expectStatus(204, 0), expectStatus(204, 0)},
	}
}

// cost measures processor time of the server for a PUT and a GET.
func (b *bench) cost(ctx context.Context) error {
	own, err := b.startKestrel(ctx, "")
	if err != nil {
		return err
	}
	defer own.Kill()
	nginx, err := b.startNginx(ctx)
	if err != nil {
		return err
	}
	defer nginx.Kill()
	type key struct {
		load load
		name string
		get  bool
	}
	results := make(map[key][]float64)
	for round := range b.rounds {
		for _, l := range costLoads() {
			for _, p := range parties() {
				put, get, err := b.measureCost(p, own, nginx, l)
				if err != nil {
					return fmt.Errorf("%s, %v: %w", p.name, l, err)
				}
				fmt.Fprintf(b.log, "round %d/%d %v: %-8s put %.2f get %.2f µs\n", round+1, b.rounds, l, p.name, put, get)
				results[key{l, p.name, false}] = append(results[key{l, p.name, false}], put)
				results[key{l, p.name, true}] = append(results[key{l, p.name, true}], get)
			}
		}
	}
	b.table(fmt.Sprintf("CPU of the server for a request of %d B, in µs; %d rounds, median (least–greatest)", bodySize, b.rounds),
		"request", "load", "Burrow", "memcache", "nginx, 204", "Burrow to memcache")
	for _, l := range costLoads() {
		for _, get := range []bool{false, true} {
			of := func(name string) []float64 { return results[key{l, name, get}] }
			name := "PUT beside SET"
			if get {
				name = "GET beside GET"
			}
			factor, text := ratio(of("burrow"), of("memcache"))
			figure, g := median(of("burrow")), goal{most: 3, unit: " µs"}
			if l.pipeline == 1 {
				figure, g = factor, goal{most: 1.3, unit: " × memcache"}
			}
			b.row(figure, g, name, l.String(), spread(of("burrow")), spread(of("memcache")), spread(of("nginx")), text)
		}
	}
	b.endTable()
	return nil
}

// measureCost returns the processor time of a server for a put and a get, in µs.
func (b *bench) measureCost(p party, own, nginx *server, l load) (put, get float64, err error) {
	s, addr := p.of(own, nginx)
	each := l.each(b.of(10_000))
	clients := make([]*conn, l.connections)
	puts, gets := make([][][]byte, l.connections), make([][][]byte, l.connections) // by client, batches
	for i := range clients {
		if clients[i], err = dial(addr); err != nil {
			return 0, 0, err
		}
		defer clients[i].Close()
		for n := 0; n < each; n += l.pipeline {
			var ps, gs []byte
			for k := range l.pipeline {
				ps, gs = append(ps, p.put(i, n+k)...), append(gs, p.get(i, n+k)...)
			}
			puts[i], gets[i] = append(puts[i], ps), append(gets[i], gs)
		}
	}
	var took [2]time.Duration
	for cycle := range costCycles {
		for kind, batches := range [][][][]byte{puts, gets} {
			reply := p.putReply
			if kind == 1 {
				reply = p.getReply
			}
			d, err := phase(s.PID, clients, batches, l.pipeline, reply)
			if err != nil {
				return 0, 0, err
			}
			if cycle > 0 {
				took[kind] += d
			}
		}
		if p.name == "burrow" { // its GET takes nothing away
			if status, _, err := clients[0].askHTTP("DELETE", "/v1.0/default/"+costQueue, ""); err != nil || status != 204 {
				return 0, 0, fmt.Errorf("DELETE of the queue: %d, %v", status, err)
			}
		}
	}
	requests := float64((costCycles - 1) * each * l.connections)
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / requests }
	return micros(took[0]), micros(took[1]), nil
}

// phase has every client send its batches, and returns what processor time the server took.
func phase(pid int, clients []*conn, batches [][][]byte, pipeline int, reply func(*conn) error) (time.Duration, error) {
	before, err := spawn.CPUTime(pid)
	if err != nil {
		return 0, err
	}
	errs := make([]error, len(clients))
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			c.SetDeadline(time.Now().Add(askWait))
			for _, batch := range batches[i] {
				if _, errs[i] = c.Write(batch); errs[i] != nil {
					return
				}
				for range pipeline {
					if errs[i] = reply(c); errs[i] != nil {
						return
					}
				}
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
