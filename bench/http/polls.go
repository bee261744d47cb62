package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

func median(values []float64) float64 { return figures.Summarize(values).Median }

// quantile returns a quantile of values, which it sorts.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(float64(len(values))*q), len(values)-1)]
}

// memory is what a server takes: resident bytes, and those of its heap that are in use behind a collection.
type memory struct{ resident, heap int64 }

func (s *server) memory() (m memory, err error) {
	if m.heap, err = s.heap(); err != nil {
		return m, err
	}
	m.resident, err = spawn.Resident(s.PID)
	return m, err
}

// polls measures what a long poll takes of the server's memory.
func (b *bench) polls(ctx context.Context) error {
	s, err := b.startKestrel(ctx, "")
	if err != nil {
		return err
	}
	defer s.Kill()
	before, err := s.memory()
	if err != nil {
		return err
	}
	n := b.of(10_000)
	poll := []byte("POST /v1.0/acme/jobs?limit=1&hide=30&wait=300 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	for range n {
		c, err := net.DialTimeout("tcp", s.http, askWait)
		if err != nil {
			return fmt.Errorf("%w: is the limit of open files above %d?", err, n)
		}
		defer c.Close()
		if _, err := c.Write(poll); err != nil {
			return err
		}
	}
	if err := s.awaitWaiters("acme/jobs", n); err != nil {
		return err
	}
	after, err := s.memory()
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Memory of the server for each of %d long polls", n), "measure", "bytes for each")
	for _, m := range []struct {
		name          string
		before, after int64
	}{{"resident", before.resident, after.resident}, {"heap in use, behind a collection", before.heap, after.heap}} {
		each := float64(m.after-m.before) / float64(n)
		b.row(each, goal{most: 4096, unit: " B"}, m.name, strconv.FormatFloat(each, 'f', 0, 64))
	}
	b.endTable()
	return nil
}

const (
	deliveryPolls = 500
	deliveryRate  = 500 // messages a second
)

// waiting is a way to wait for a message, and to send one.
type waiting struct {
	name  string
	addr  func(*server) string
	queue string // as /v1.1 has it
	ask   []byte
	got   func(*conn) (body []byte, err error)
	send  func(c *conn, i int, body string) error
}

func waitings() []waiting {
	return []waiting{
		{"burrow", func(s *server) string { return s.http }, "acme/jobs",
			request("DELETE", "/v1.0/acme/jobs?limit=1&wait=60&detail=body", ""),
			func(c *conn) ([]byte, error) {
				status, body, err := c.replyHTTP()
				if err == nil && status != 200 {
					err = fmt.Errorf("reply %d %s", status, body)
				}
				return bytes.Trim(body, `[]"`), err
			},
			func(c *conn, i int, body string) error {
				status, _, err := c.askHTTP("PUT", fmt.Sprintf("/v1.0/acme/jobs/%d", i), body)
				if err == nil && status != 201 {
					err = fmt.Errorf("reply %d", status)
				}
				return err
			}},
		{"memcache", func(s *server) string { return s.memcache }, "default/jobs", []byte("get jobs/t=60000\r\n"),
			func(c *conn) ([]byte, error) { return c.expectLines(3, "VALUE") },
			func(c *conn, _ int, body string) error {
				c.SetDeadline(time.Now().Add(askWait))
				if _, err := fmt.Fprintf(c, "set jobs 0 0 %d\r\n%s\r\n", len(body), body); err != nil {
					return err
				}
				_, err := c.expectLines(1, "STORED")
				return err
			}},
	}
}

// delivery measures how long it takes from when a message is due to be sent until one of many waiting clients has it.
func (b *bench) delivery(ctx context.Context) error {
	s, err := b.startKestrel(ctx, "")
	if err != nil {
		return err
	}
	defer s.Kill()
	p50, p99 := make(map[string][]float64), make(map[string][]float64)
	for round := range b.rounds {
		for _, w := range waitings() {
			took, err := b.deliver(s, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			p50[w.name] = append(p50[w.name], quantile(took, 0.5))
			p99[w.name] = append(p99[w.name], quantile(took, 0.99))
			fmt.Fprintf(b.log, "round %d/%d delivery: %-8s p50 %.0f p99 %.0f µs\n", round+1, b.rounds, w.name,
				quantile(took, 0.5), quantile(took, 0.99))
		}
	}
	b.table(fmt.Sprintf("Delivery to %d waiting clients, %d messages a second, in µs from when a message is due; %d rounds",
		deliveryPolls, deliveryRate, b.rounds), "", "Burrow", "memcache", "Burrow to memcache")
	factor, text := ratio(p99["burrow"], p99["memcache"])
	fmt.Fprintf(&b.report, "| median | %s | %s | | | |\n", spread(p50["burrow"]), spread(p50["memcache"]))
	b.row(factor, goal{most: 1.5, below: true, unit: " ×"}, "p99", spread(p99["burrow"]), spread(p99["memcache"]), text)
	b.endTable()
	return nil
}

// deliver sends messages to clients that wait, and returns the times in µs. A message is when it is due, in ns.
func (b *bench) deliver(s *server, w waiting) ([]float64, error) {
	messages := b.of(3 * deliveryRate)
	took := make(chan float64, messages)
	var running sync.WaitGroup
	var clients []*conn
	defer func() {
		for _, c := range clients {
			c.Close()
		}
		running.Wait()
	}()
	for range deliveryPolls {
		c, err := dial(w.addr(s))
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
		running.Go(func() {
			for {
				if _, err := c.Write(w.ask); err != nil {
					return
				}
				body, err := w.got(c)
				if err != nil {
					return // the round is over, or the count is short
				}
				if due, err := strconv.ParseInt(string(body), 10, 64); err == nil {
					took <- float64(time.Now().UnixNano()-due) / 1e3
				}
			}
		})
	}
	if err := s.awaitWaiters(w.queue, deliveryPolls); err != nil {
		return nil, err
	}
	sender, err := dial(w.addr(s))
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	due := time.Now()
	for i := range messages {
		due = due.Add(time.Second / deliveryRate)
		time.Sleep(time.Until(due))
		if err := w.send(sender, i, strconv.FormatInt(due.UnixNano(), 10)); err != nil {
			return nil, err
		}
	}
	var all []float64
	for timeout := time.After(askWait); len(all) < messages; {
		select {
		case t := <-took:
			all = append(all, t)
		case <-timeout:
			return nil, fmt.Errorf("%d of %d messages have come", len(all), messages)
		}
	}
	return all, nil
}
