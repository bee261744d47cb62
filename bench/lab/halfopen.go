package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// This file opens thousands of TLS handshakes that nobody ends, and measures what other clients feel of it.

const (
	halfOpen     = 10_000 // handshakes of one flood
	floodTime    = 4 * time.Second
	victims      = 8
	victimsPause = 5 * time.Millisecond // between two requests of one of them, on average
	mostSlower   = 2.0                  // p99 beside a flood, to that of the quiet times around it
)

// halfOpenTrial alternates quiet times and floods. Some clients of a flood send the first bytes of a ClientHello, and
// others all of it, so that the server has to compute. The p99 of clients who were there before is compared, flood by
// flood, with the mean of that before and behind it. The median of these ratios counts.
func halfOpenTrial(ctx context.Context, t *trial) error {
	dir := filepath.Join(t.dir, "halfopen")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s, err := launch{binary: t.binary, dir: dir, args: []string{"--tls-self-signed"}}.start(ctx)
	if err != nil {
		return err
	}
	defer s.kill()
	hello, err := clientHello()
	if err != nil {
		return err
	}
	var ratios [2][]float64
	quiet, err := halfOpenPhase(ctx, t, s, nil, 0)
	if err != nil {
		return err
	}
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		for kind, first := range [][]byte{hello[:3], hello} {
			beside, err := halfOpenPhase(ctx, t, s, first, 1+2*cycle+kind)
			if err != nil {
				return err
			}
			again, err := halfOpenPhase(ctx, t, s, nil, 0)
			if err != nil {
				return err
			}
			ratio := beside / ((quiet + again) / 2)
			ratios[kind] = append(ratios[kind], ratio)
			fmt.Fprintf(t.log, "halfopen: %d handshakes of %d bytes: p99 %.0f µs, quiet %.0f and %.0f: %.2f\n", halfOpen, len(first),
				beside, quiet, again, ratio)
			quiet = again
			t.counts.trials.Add(1)
		}
	}
	for kind, what := range []string{"of three bytes", "of a whole ClientHello"} {
		slices.Sort(ratios[kind])
		if len(ratios[kind]) == 0 {
			continue
		}
		median := quantile(ratios[kind], 0.5)
		fmt.Fprintf(t.log, "halfopen: handshakes %s: p99 %.2f times that of quiet times (%.2f to %.2f)\n", what, median,
			ratios[kind][0], ratios[kind][len(ratios[kind])-1])
		if median > mostSlower {
			t.violate("beside %d half-open handshakes %s the p99 of others is %.2f times as long", halfOpen, what, median)
		}
	}
	return nil
}

// halfOpenPhase has victims put and get for floodTime, beside a flood of handshakes that begin with first, and returns
// their p99 in µs. Nil is no flood.
func halfOpenPhase(ctx context.Context, t *trial, s *server, first []byte, number int) (p99 float64, err error) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	errs := make([]error, victims)
	times := make([][]float64, victims)
	var ready sync.WaitGroup
	ready.Add(victims)
	for i := range victims {
		rng := rand.New(rand.NewPCG(t.seed, uint64(i)))
		running.Go(func() {
			times[i], errs[i] = victim(s.addr["memcache"], fmt.Sprint("work", i), rng, ready.Done, stop)
		})
	}
	ready.Wait()
	if first == nil {
		select {
		case <-time.After(floodTime):
		case <-ctx.Done():
		}
	} else {
		err = flood(ctx, s.addr["memcache"], first, number)
	}
	close(stop)
	running.Wait()
	if err := errors.Join(append(errs, err, ctx.Err())...); err != nil {
		return 0, err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	t.counts.checks.Add(int64(len(all)))
	return quantile(all, 0.99), nil
}

// victim connects, and puts and gets at drawn times until stop is closed. It returns the µs of every pair.
func victim(addr, queue string, rng *rand.Rand, ready func(), stop <-chan struct{}) (times []float64, err error) {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	ready()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	request := fmt.Appendf(nil, "set %s 0 0 5\r\nhello\r\nget %s\r\n", queue, queue)
	want := fmt.Sprintf("STORED\r\nVALUE %s 0 5\r\nhello\r\nEND\r\n", queue)
	in, got := bufio.NewReader(c), make([]byte, len(want))
	for {
		select {
		case <-stop:
			return times, nil
		case <-time.After(time.Duration(rng.ExpFloat64() * float64(victimsPause))):
		}
		sent := time.Now()
		c.SetDeadline(sent.Add(patience))
		if _, err := c.Write(request); err != nil {
			return times, err
		}
		if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
			return times, fmt.Errorf("%q instead of %q, %w", got, want, err)
		}
		times = append(times, float64(time.Since(sent))/float64(time.Microsecond))
	}
}

// flood opens handshakes, evenly over floodTime, and keeps every connection until all are open. The server ends the
// oldest meanwhile. Each flood comes from an address of its own, whose ports are all free.
func flood(ctx context.Context, addr string, first []byte, number int) error {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(number>>8), byte(number))}}
	begun := time.Now()
	for i := range halfOpen {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		conns = append(conns, c)
		if _, err := c.Write(first); err != nil {
			return err
		}
		if ahead := time.Until(begun.Add(floodTime * time.Duration(i) / halfOpen)); ahead > 0 {
			time.Sleep(ahead)
		}
	}
	return nil
}

// clientHello returns the first flight of a client.
func clientHello() ([]byte, error) {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake()
		client.Close()
	}()
	head := make([]byte, 5) // of a record: its kind, version and length
	if _, err := io.ReadFull(server, head); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		return nil, err
	}
	return append(head, body...), nil
}
