package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// lease returns a consumer with leases of a queue, which ends with the test.
func lease(t testing.TB, c *Client, queue string, d time.Duration) *Consumer {
	t.Helper()
	k, err := c.ConsumeLeased(queue, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// TestConsumeLeased tests every way to end a lease, and what is said of one that has ended.
func TestConsumeLeased(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	k := lease(t, c, "q", time.Minute)
	ctx := within(t)
	put(t, c, "q", "a")
	d := next(t, k, "a")
	if d.Deliveries != 1 {
		t.Errorf("%d deliveries, want 1", d.Deliveries)
	}
	if err := d.Release(ctx); err != nil {
		t.Errorf("Release = %v", err)
	}
	d = next(t, k, "a")
	if d.Deliveries != 1 {
		t.Errorf("%d deliveries after a release, want 1", d.Deliveries)
	}
	if err := d.Abort(ctx); err != nil {
		t.Errorf("Abort = %v", err)
	}
	d = next(t, k, "a")
	if d.Deliveries != 2 {
		t.Errorf("%d deliveries after an abort, want 2", d.Deliveries)
	}
	began := time.Now()
	if err := d.AbortAfter(ctx, 50*time.Millisecond); err != nil {
		t.Errorf("AbortAfter = %v", err)
	}
	d = next(t, k, "a")
	if waited := time.Since(began); waited < 50*time.Millisecond {
		t.Errorf("the item is back after %v", waited)
	}
	if err := d.Extend(ctx, time.Minute); err != nil {
		t.Errorf("Extend = %v", err)
	}
	if err := d.Reject(ctx); err != nil {
		t.Errorf("Reject = %v", err)
	}
	for name, err := range map[string]error{
		"Confirm": d.Confirm(ctx), "Release": d.Release(ctx), "Reject": d.Reject(ctx), "Extend": d.Extend(ctx, time.Minute),
	} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s after the end = %v, want ErrEnded", name, err)
		}
	}
	dead := next(t, lease(t, c, "q_dead", time.Minute), "a")
	if err := dead.Confirm(ctx); err != nil {
		t.Errorf("Confirm = %v", err)
	}
	if _, err := c.ConsumeLeased("q", time.Microsecond); !errors.Is(err, errBadLease) {
		t.Errorf("a lease of a microsecond: %v", err)
	}
}

// TestLeaseOutlivesConnections tests that a leased item is not lost with the connections of the client, nor
// with a restart of the server.
func TestLeaseOutlivesConnections(t *testing.T) {
	s := serve(t)
	c := dial(t, Options{}, s.addr)
	k := lease(t, c, "q", time.Minute)
	put(t, c, "q", "a", "b")
	a, b := next(t, k, "a"), next(t, k, "b")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; {
		err := a.Confirm(ctx) // it may take a while until the server is back
		if err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, ErrLost) || errors.Is(err, ErrEnded) {
			t.Fatalf("Confirm after a restart = %v", err)
		}
	}
	select {
	case <-b.Lost():
		t.Error("b is lost")
	default:
	}
	if err := b.Abort(within(t)); err != nil {
		t.Errorf("Abort after a restart = %v", err)
	}
	next(t, k, "b").Confirm(within(t))
}

// TestLeaseLapses tests that whoever had a lease hears that it is over, and cannot end that of somebody else.
func TestLeaseLapses(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "q", "a")
	d := next(t, lease(t, c, "q", 100*time.Millisecond), "a")
	other := next(t, lease(t, c, "q", time.Minute), "a")
	select {
	case <-d.Lost():
	case <-within(t).Done():
		t.Fatal("Lost is not closed when the lease is over")
	}
	if err := d.Confirm(within(t)); !errors.Is(err, ErrLost) {
		t.Errorf("Confirm of an item that somebody else has = %v, want ErrLost", err)
	}
	if err := d.Release(within(t)); err != nil {
		t.Errorf("Release = %v", err)
	}
	if err := other.Confirm(within(t)); err != nil || other.Deliveries != 2 {
		t.Errorf("Confirm = %v, after %d deliveries", err, other.Deliveries)
	}
}

// TestLeasesShareConnections has many handlers hold an item of one server each: they share one connection that asks for
// items, and one that confirms them.
func TestLeasesShareConnections(t *testing.T) {
	s := serve(t)
	c := dial(t, Options{}, s.addr)
	const handlers, rounds = 40, 5
	items := make([][]byte, handlers*rounds)
	for i := range items {
		items[i] = fmt.Append(nil, i)
	}
	if err := c.PutAll(within(t), "q", items, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	handled := make(map[string]int)
	all := make(chan struct{}, handlers) // a handler has an item
	goOn := make(chan struct{})
	stop := work(t, &Worker{Client: c, Queue: "q", Lease: time.Minute, Handlers: handlers, Handle: func(_ context.Context, d *Delivery) error {
		mu.Lock()
		handled[string(d.Data)]++
		mu.Unlock()
		all <- struct{}{}
		<-goOn
		return nil
	}})
	for range rounds {
		for range handlers {
			select {
			case <-all:
			case <-within(t).Done():
				t.Fatal("a handler has no item")
			}
		}
		stats := c.Stats(within(t))[0]
		if stats.Err != nil || stats.Connections > 5 { // puts, gets, confirms, and these figures; one that ends
			t.Errorf("%d handlers have %d connections (%v)", handlers, stats.Connections, stats.Err)
		}
		for range handlers {
			goOn <- struct{}{}
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(handled) != len(items) {
		t.Errorf("%d items are handled, want %d", len(handled), len(items))
	}
	for item, n := range handled {
		if n != 1 {
			t.Errorf("item %s is handled %d times", item, n)
		}
	}
	if stats := c.Stats(within(t))[0]; stats.Items != 0 {
		t.Errorf("%d items are left", stats.Items)
	}
}

// TestEndOfLeaseUnanswered has a server end the connection while several leases are being ended. Behind a refusal
// that closes, those that follow are refused as well, and may be tried again; without an answer they are unknown.
func TestEndOfLeaseUnanswered(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         error
	}{
		{"nothing", "", ErrUnknownOutcome},
		{"part of it", "EN", ErrUnknownOutcome},
		{"garbage", "\x00\x01\r\n", ErrProtocol},
		{"a refusal", "SERVER_ERROR\r\n", ErrRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const leases = 3
			r := rigged(t, func(_ int, conn net.Conn) {
				items := 0
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					switch {
					case err != nil:
						return
					case strings.HasPrefix(line, "version"):
						io.WriteString(conn, "VERSION 3.0.0\r\n")
					case strings.Contains(line, "/lease"):
						for range strings.Count(line, "/lease") {
							items++
							fmt.Fprintf(conn, "VALUE q 0 1 %d\r\nx\r\nEND\r\n", items)
						}
					default:
						io.WriteString(conn, tt.answer)
						return
					}
				}
			})
			c := dial(t, Options{}, r.addr)
			k := lease(t, c, "q", time.Minute)
			held := make(chan *Delivery, leases)
			for range leases {
				held <- next(t, k, "x")
			}
			results := make(chan error, leases)
			for range leases {
				go func() { results <- (<-held).Confirm(within(t)) }()
			}
			for range leases {
				if err := <-results; !errors.Is(err, tt.want) {
					t.Errorf("Confirm = %v, want %v", err, tt.want)
				}
			}
		})
	}
}

// TestLeasesNeedVersion tests that a server without leases is left alone.
func TestLeasesNeedVersion(t *testing.T) {
	old := rigged(t, answering("VERSION 2.4.1\r\n"))
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: time.Millisecond}}, old.addr)
	k := lease(t, c, "q", time.Minute)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for {
		k.mu.Lock()
		err := k.lastErr
		k.mu.Unlock()
		if err != nil {
			if !errors.Is(err, ErrTooOld) {
				t.Errorf("a server without leases: %v", err)
			}
			return
		}
		short, done := context.WithTimeout(ctx, 10*time.Millisecond)
		if _, err := k.Next(short); err == nil {
			t.Fatal("a server without leases gives items")
		}
		done()
	}
}

// TestWorkerLeases tests that a worker extends the lease of an item as long as its handler runs. When a handler fails,
// the worker gives the item back with a growing delay, or as a dead letter.
func TestWorkerLeases(t *testing.T) {
	t.Parallel()
	c := dial(t, Options{}, serve(t).addr)
	other := lease(t, c, "slow", time.Minute)
	put(t, c, "slow", "x")
	began, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	stop := work(t, &Worker{Client: c, Queue: "slow", Lease: 2 * time.Second, Handle: func(ctx context.Context, d *Delivery) error {
		close(began)
		<-finish
		err := d.Confirm(ctx)
		done <- err
		return err
	}})
	<-began
	ctx, cancel := context.WithTimeout(within(t), 2500*time.Millisecond) // longer than the lease
	defer cancel()
	if d, err := other.Next(ctx); err == nil {
		t.Errorf("somebody else gets %q while the handler runs", d.Data)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Errorf("Confirm after more than the lease = %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	put(t, c, "bad", "fails", "rejected")
	handled := make(chan string, 10)
	failed := make(chan error, 10)
	stop = work(t, &Worker{
		Client: c, Queue: "bad", Lease: time.Minute, Backoff: Backoff{First: 10 * time.Millisecond, Most: 20 * time.Millisecond},
		Failed: func(_ *Delivery, err error) { failed <- err },
		Handle: func(_ context.Context, d *Delivery) error {
			handled <- fmt.Sprint(string(d.Data), d.Deliveries)
			switch {
			case string(d.Data) == "rejected":
				return fmt.Errorf("it is no job: %w", ErrReject)
			case d.Deliveries < 3:
				return errors.New("not yet")
			}
			return nil
		},
	})
	seen := make(map[string]int)
	for range 4 {
		select {
		case what := <-handled:
			seen[what]++
		case <-within(t).Done():
			t.Fatalf("only %v were handled", seen)
		}
	}
	if got := fmt.Sprint(seen); got != "map[fails1:1 fails2:1 fails3:1 rejected1:1]" {
		t.Errorf("handled %s", got)
	}
	next(t, lease(t, c, "bad_dead", time.Minute), "rejected").Confirm(within(t))
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := len(failed); n != 3 {
		t.Errorf("%d failures are reported, want 3", n)
	}
}
