package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// consume returns a consumer that the end of the test closes.
func consume(t testing.TB, c *Client, queue string) *Consumer {
	t.Helper()
	k, err := c.Consume(queue)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// next returns the next delivery, and tests what it is if want is not "".
func next(t testing.TB, k *Consumer, want string) *Delivery {
	t.Helper()
	d, err := k.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if want != "" && string(d.Data) != want {
		t.Fatalf("Next = %q, want %q", d.Data, want)
	}
	return d
}

func TestConsume(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "a", "b")
	k := consume(t, c, "work")
	ctx := within(t)
	a := next(t, k, "a")
	if err := a.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a", "b"} {
		d := next(t, k, want)
		if err := d.Confirm(ctx); err != nil {
			t.Fatal(err)
		}
		if err := d.Confirm(ctx); !errors.Is(err, ErrEnded) {
			t.Errorf("the second Confirm = %v, want ErrEnded", err)
		}
		if err := d.Abort(ctx); !errors.Is(err, ErrEnded) {
			t.Errorf("Abort after Confirm = %v, want ErrEnded", err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := k.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next of an empty queue = %v, want DeadlineExceeded", err)
	}
	put(t, c, "work", "late") // comes to a get whose caller has gone, and is given back or handed out
	next(t, k, "late")
}

// TestConsumeAtOnce has many items open at the same time and confirms them in another order. The server allows one
// open read for each connection.
func TestConsumeAtOnce(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr, serve(t).addr, serve(t).addr)
	const n = 60
	for i := range n {
		put(t, c, "work", fmt.Sprint(i))
	}
	k := consume(t, c, "work")
	var taking sync.WaitGroup
	var mu sync.Mutex
	var open []*Delivery
	for range n {
		taking.Go(func() {
			d, err := k.Next(within(t))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			open = append(open, d)
			mu.Unlock()
		})
	}
	taking.Wait()
	seen := make(map[string]bool)
	for i := len(open) - 1; i >= 0; i-- {
		seen[string(open[i].Data)] = true
		if err := open[i].Confirm(within(t)); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != n {
		t.Errorf("%d different items came, want %d", len(seen), n)
	}
	for _, s := range c.Stats(within(t)) {
		if s.Err != nil || s.Items != 0 || len(s.Queues) == 1 && s.Queues[0].OpenReads != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	}
}

// TestConsumeMerges tests that items of all servers get their turn: one caller that confirms each
// item at once does not stay with one server.
func TestConsumeMerges(t *testing.T) {
	servers := []*kestrel{serve(t), serve(t), serve(t)}
	const each = 5000 // far more than a server that is busy with other things needs to answer once
	for _, s := range servers {
		if err := dial(t, Options{}, s.addr).PutAll(within(t), "work", slices.Repeat([][]byte{[]byte("x")}, each), PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, Options{}, servers[0].addr, servers[1].addr, servers[2].addr)
	k := consume(t, c, "work")
	by := make(map[string]int)
	twice := func(s *kestrel) bool { return by[s.addr] >= 2 } // one comes from each also if another is preferred
	for !slices.ContainsFunc(servers, func(s *kestrel) bool { return by[s.addr] == each }) {
		d := next(t, k, "")
		by[d.Server]++
		if err := d.Confirm(within(t)); err != nil {
			t.Fatal(err)
		}
		if twice(servers[0]) && twice(servers[1]) && twice(servers[2]) {
			return
		}
	}
	t.Errorf("one server gave all it had, and another not two items: %v", by)
}

// TestSurplusGoesBack tests that what nobody asks for is soon with others, and how much that is.
func TestSurplusGoesBack(t *testing.T) {
	servers := []*kestrel{serve(t), serve(t), serve(t)}
	c := dial(t, Options{}, servers[0].addr, servers[1].addr, servers[2].addr)
	for _, s := range servers {
		one := dial(t, Options{}, s.addr)
		put(t, one, "work", "1", "2", "3", "4")
	}
	k := consume(t, c, "work")
	d := next(t, k, "1")
	open := func() (n int64) {
		for _, s := range c.Stats(within(t)) {
			for _, q := range s.Queues {
				n += q.OpenReads
			}
		}
		return n
	}
	if n := open(); n > 3 {
		t.Errorf("%d items are open for one call of Next on three servers, want 3 at most", n)
	}
	for end := time.Now().Add(patience); open() != 1; {
		if time.Now().After(end) {
			t.Fatalf("%d items are open, want the one that is in hand", open())
		}
	}
	if err := d.Confirm(within(t)); err != nil {
		t.Fatal(err)
	}
}

// TestConsumeManyServers has servers take turns: there are more than are asked at the same time.
func TestConsumeManyServers(t *testing.T) {
	t.Parallel()
	var addrs []string
	var last *kestrel
	for range maxCover + 4 {
		last = serve(t)
		addrs = append(addrs, last.addr)
	}
	c := dial(t, Options{}, addrs...)
	k := consume(t, c, "work")
	for _, addr := range addrs {
		put(t, dial(t, Options{}, addr), "work", addr)
		d := next(t, k, addr)
		if err := d.Confirm(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLost tests what a delivery says when its server dies.
func TestLost(t *testing.T) {
	k := serve(t)
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: 10 * time.Millisecond}}, k.addr)
	put(t, c, "work", "a")
	consumer := consume(t, c, "work")
	d := next(t, consumer, "a")
	k.stop()
	select {
	case <-d.Lost():
	case <-within(t).Done():
		t.Fatal("the delivery does not say that it is lost")
	}
	if err := d.Confirm(within(t)); !errors.Is(err, ErrLost) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("Confirm = %v, want ErrLost", err)
	}
	if err := d.Abort(within(t)); err != nil {
		t.Errorf("Abort = %v: the item has gone back", err)
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	d = next(t, consumer, "a")
	if err := d.Confirm(within(t)); err != nil {
		t.Fatal(err)
	}
}

// TestConfirmWithoutAnswer tests a server that says nothing to a confirm, or the wrong thing.
func TestConfirmWithoutAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         error
	}{
		{"nothing", "", ErrUnknownOutcome},
		{"part of it", "EN", ErrUnknownOutcome},
		{"garbage", "\x00\x01\r\n", ErrUnknownOutcome},
		{"an error", "SERVER_ERROR\r\n", ErrUnknownOutcome},
	} {
		r := rigged(t, func(_ int, conn net.Conn) {
			conn.Read(make([]byte, 1000))
			io.WriteString(conn, "VALUE work 0 1\r\nx\r\nEND\r\n")
			conn.Read(make([]byte, 1000))
			io.WriteString(conn, tt.answer)
			io.Copy(io.Discard, conn)
		})
		c := dial(t, Options{ReplyTimeout: 100 * time.Millisecond}, r.addr)
		d := next(t, consume(t, c, "work"), "x")
		if err := d.Confirm(within(t)); !errors.Is(err, tt.want) {
			t.Errorf("a confirm that is answered by %s = %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestConsumeHostile tests that servers that break the protocol cost nothing but themselves.
func TestConsumeHostile(t *testing.T) {
	good := serve(t)
	addrs := []string{good.addr}
	for _, script := range []func(int, net.Conn){
		silent,
		answering("SERVER_ERROR\r\n"),
		answering("garbage\x00\xff\r\n"),
		answering("VALUE work 0 99999999999\r\n"),
		answering("VALUE work 0 2000000000\r\nx"),
		answering("STORED\r\n"),
		func(_ int, conn net.Conn) { conn.(*net.TCPConn).CloseWrite(); silent(0, conn) },
		func(_ int, conn net.Conn) { io.WriteString(conn, "SERVER_ERROR too many open connections\r\n") },
	} {
		addrs = append(addrs, rigged(t, script).addr)
	}
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: time.Millisecond}}, addrs...)
	one := dial(t, Options{}, good.addr)
	k := consume(t, c, "work")
	for i := range 100 {
		put(t, one, "work", fmt.Sprint(i))
		d := next(t, k, fmt.Sprint(i))
		if err := d.Confirm(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConsumeWithoutServers tests that Next says why nothing comes.
func TestConsumeWithoutServers(t *testing.T) {
	r := rigged(t, silent)
	r.close()
	k := consume(t, dial(t, Options{}, r.addr), "work")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := k.Next(ctx)
	var refused *net.OpError
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &refused) {
		t.Errorf("Next = %v, want a deadline and the refused connection", err)
	}
}

func TestConsumerClose(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "a")
	k := consume(t, c, "work")
	d := next(t, k, "a")
	waiting := make(chan error)
	go func() {
		_, err := k.Next(within(t))
		waiting <- err
	}()
	k.Close()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("Next = %v, want ErrClosed", err)
	}
	if _, err := k.Next(within(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("Next = %v, want ErrClosed", err)
	}
	if err := d.Confirm(within(t)); err != nil {
		t.Errorf("Confirm of what was open before = %v", err)
	}
}

// TestOpenBatchTells opens an item with a key and an expiry, and one without.
func TestOpenBatchTells(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	ctx, begin := within(t), time.Now().Truncate(time.Millisecond)
	if err := c.Put(ctx, "work", []byte("a"), PutOptions{Key: "k", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	put(t, c, "work", "b")
	latest := time.Now().Add(time.Hour)
	for _, want := range []string{"k", ""} {
		b, err := c.OpenBatch(ctx, "work", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		item := b.Items[0]
		if item.Key != want || item.Expires.IsZero() != (want == "") {
			t.Errorf("%q has the key %q and expires at %v", item.Data, item.Key, item.Expires)
		}
		if want != "" && (item.Expires.Before(begin.Add(time.Hour)) || item.Expires.After(latest)) {
			t.Errorf("it expires at %v, want in an hour from %v", item.Expires, begin)
		}
		if err := b.Confirm(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenBatch opens batches, on servers that allow many open reads for each connection and one.
func TestOpenBatch(t *testing.T) {
	for _, opens := range []int{0, 100} {
		k := &kestrel{addr: "127.0.0.1:0", dir: t.TempDir(), opens: opens}
		if err := k.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { k.stop() })
		c := dial(t, Options{}, k.addr)
		put(t, c, "work", "a", "b", "c", "d")
		ctx := within(t)
		b, err := c.OpenBatch(ctx, "work", 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := min(3, max(opens, 1))
		if len(b.Items) != want || string(b.Items[0].Data) != "a" {
			t.Errorf("OpenBatch = %d items, want %d", len(b.Items), want)
		}
		if err := b.Abort(ctx); err != nil {
			t.Fatal(err)
		}
		if head, err := c.Peek(ctx, "work"); string(head.Data) != "a" {
			t.Errorf("after Abort the head is %q, %v", head.Data, err)
		}
		if err := b.Confirm(ctx); !errors.Is(err, ErrEnded) {
			t.Errorf("Confirm after Abort = %v, want ErrEnded", err)
		}
		order := ""
		for len(order) < 4 {
			b, err := c.OpenBatch(ctx, "work", 2, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Items) == 0 {
				t.Fatal("OpenBatch returns an empty batch")
			}
			for _, item := range b.Items {
				order += string(item.Data)
			}
			if err := b.Confirm(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if order != "abcd" {
			t.Errorf("after Abort the items come as %q", order)
		}
		if _, err := c.OpenBatch(ctx, "work", 2, 0); !errors.Is(err, ErrEmpty) {
			t.Errorf("OpenBatch of an empty queue = %v, want ErrEmpty", err)
		}
		left, err := c.OpenBatch(ctx, "work", 1, time.Millisecond)
		if !errors.Is(err, ErrEmpty) || left != nil {
			t.Errorf("OpenBatch = %v, %v, want ErrEmpty", left, err)
		}
	}
}
