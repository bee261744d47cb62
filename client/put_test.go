package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPutGet(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	ctx := within(t)
	large := bytes.Repeat([]byte("0123456789"), 1<<17)
	for _, item := range []Item{{Data: []byte("hello"), Flags: 7}, {Data: []byte{}}, {Data: large, Flags: 1<<32 - 1}} {
		if err := c.Put(ctx, "café", item.Data, PutOptions{Flags: item.Flags}); err != nil {
			t.Fatal(err)
		}
		peeked, err := c.Peek(ctx, "café")
		if err != nil || !bytes.Equal(peeked.Data, item.Data) {
			t.Errorf("Peek = %.20q, %v", peeked.Data, err)
		}
		got, err := c.Get(ctx, "café", 0)
		if err != nil || got.Flags != item.Flags || !bytes.Equal(got.Data, item.Data) {
			t.Errorf("Get = %.20q with flags %d, %v; want %.20q with %d", got.Data, got.Flags, err, item.Data, item.Flags)
		}
	}
	if _, err := c.Get(ctx, "café", 20*time.Millisecond); !errors.Is(err, ErrEmpty) {
		t.Errorf("Get of an empty queue = %v, want ErrEmpty", err)
	}
	if _, err := c.Peek(ctx, "café"); !errors.Is(err, ErrEmpty) {
		t.Errorf("Peek at an empty queue = %v, want ErrEmpty", err)
	}
}

func TestPutTTL(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		ttl  time.Duration
		want int64
	}{
		{0, 0}, {1, 1}, {time.Second, 1}, {1500 * time.Millisecond, 2},
		{999_999 * time.Second, 999_999}, {1_000_000 * time.Second, 1_701_000_000},
	} {
		got, err := PutOptions{TTL: tt.ttl}.expiry(now)
		if got != tt.want || err != nil {
			t.Errorf("a TTL of %v is sent as %d, %v, want %d", tt.ttl, got, err, tt.want)
		}
	}
	if _, err := (PutOptions{TTL: -1}).expiry(now); err == nil {
		t.Error("a negative TTL is taken")
	}
	for _, ttl := range []time.Duration{time.Unix(LatestExpiry+1, 0).Sub(now), math.MaxInt64} {
		if got, err := (PutOptions{TTL: ttl}).expiry(now); err == nil || !strings.Contains(err.Error(), "2038") {
			t.Errorf("a TTL of %v is sent as %d, %v; want an error that says how long one can be", ttl, got, err)
		}
	}
	if got, err := (PutOptions{TTL: time.Unix(LatestExpiry, 0).Sub(now)}).expiry(now); err != nil || got != LatestExpiry {
		t.Errorf("the longest TTL is sent as %d, %v", got, err)
	}
}

// TestPutAll puts more than a lane has room for, and finds all of it in order.
func TestPutAll(t *testing.T) {
	t.Parallel()
	c := dial(t, Options{}, serve(t).addr)
	ctx := within(t)
	const n = 40_000
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Appendf(nil, "item %d of many, which are as long as this one", i)
	}
	if err := c.PutAll(ctx, "work", items, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutAll(ctx, "work", nil, PutOptions{}); err != nil {
		t.Errorf("PutAll of nothing = %v", err)
	}
	s := c.Stats(ctx)
	if len(s) != 1 || s[0].Err != nil || s[0].Items != n {
		t.Fatalf("Stats = %+v, want %d items", s, n)
	}
	for i := range 3000 {
		got, err := c.Get(context.Background(), "work", 0) // the client's ReplyTimeout bounds each
		if err != nil || !bytes.Equal(got.Data, items[i]) {
			t.Fatalf("item %d is %q, %v", i, got.Data, err)
		}
	}
}

// TestPutsAtTheSameTime has many goroutines put: each item is there once.
func TestPutsAtTheSameTime(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr, serve(t).addr)
	ctx := within(t)
	var putting sync.WaitGroup
	for g := range 20 {
		putting.Go(func() {
			for i := range 50 {
				if err := c.Put(ctx, "work", fmt.Appendf(nil, "%d/%d", g, i), PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	putting.Wait()
	for _, s := range c.Stats(ctx) {
		if s.Items < 100 {
			t.Errorf("%s has %d items of 1000: they are not spread", s.Server, s.Items)
		}
	}
	seen := make(map[string]bool)
	for {
		item, err := c.Get(ctx, "work", 0)
		if errors.Is(err, ErrEmpty) {
			break
		}
		if err != nil || seen[string(item.Data)] {
			t.Fatalf("Get = %q, %v", item.Data, err)
		}
		seen[string(item.Data)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("there are %d items, want 1000", len(seen))
	}
}

func TestPutRefused(t *testing.T) {
	for _, tt := range []struct {
		reply string
		want  error
		lasts bool // the connection goes on
	}{
		{"NOT_STORED\r\n", ErrNotStored, true},
		{"CLIENT_ERROR\r\n", ErrRefused, true},
		{"SERVER_ERROR\r\n", ErrRefused, false},
		{"SERVER_ERROR out of memory\r\n", ErrRefused, true},
		{"SERVER_ERROR journal failed\r\n", ErrUnknownOutcome, true},
		{"SERVER_ERROR out of disk space\r\n", ErrUnknownOutcome, true},
		{"HTTP/1.1 400 Bad Request\r\n", ErrProtocol, false},
		{"VALUE work 0 x\r\n", ErrProtocol, false},
	} {
		r := rigged(t, answering(tt.reply))
		c := dial(t, Options{}, r.addr)
		err := c.Put(within(t), "work", []byte("x"), PutOptions{})
		if !errors.Is(err, tt.want) {
			t.Errorf("a put that is answered %q = %v, want %v", tt.reply, err, tt.want)
		}
		if unsure := errors.Is(err, ErrUnknownOutcome); unsure != errors.Is(tt.want, ErrUnknownOutcome) && tt.want != ErrProtocol {
			t.Errorf("a put that is answered %q = %v", tt.reply, err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Server != r.addr || e.Queue != "work" {
			t.Errorf("the error %v names neither queue nor server", err)
		}
	}
}

// TestPutGoesOn tests that a put goes to another server if the first certainly has not done it.
func TestPutGoesOn(t *testing.T) {
	gone := rigged(t, silent)
	gone.close() // nobody listens there any more
	blocked := rigged(t, func(_ int, conn net.Conn) {
		io.ReadAtLeast(conn, make([]byte, 100), 1)
		io.WriteString(conn, "SERVER_ERROR\r\n")
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
	})
	good := serve(t)
	c := dial(t, Options{}, gone.addr, blocked.addr, good.addr)
	for range 50 {
		put(t, c, "work", "x")
	}
	items := make([][]byte, 100)
	for i := range items {
		items[i] = []byte("y")
	}
	for range 10 {
		if err := c.PutAll(within(t), "work", items, PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if s := good.engine.Stats(); s.TotalItems != 1050 {
		t.Errorf("the server that works has %d items, want 1050", s.TotalItems)
	}
}

// TestPutStalls tests that a server that does not answer costs one put its answer, and others
// nothing.
func TestPutStalls(t *testing.T) {
	t.Parallel()
	stalled := rigged(t, silent)
	good := serve(t)
	// The server that works must answer in this time on a machine that is busy with other things, too.
	c := dial(t, Options{ReplyTimeout: 2 * time.Second, DialTimeout: 2 * time.Second}, stalled.addr, good.addr)
	unsure, stored := 0, 0
	for range 300 {
		switch err := c.Put(within(t), "work", []byte("x"), PutOptions{}); {
		case err == nil:
			stored++
		case errors.Is(err, ErrUnknownOutcome):
			unsure++
		default:
			t.Fatal(err)
		}
	}
	if unsure != 1 {
		t.Errorf("%d puts of 300 have no known outcome, want 1: the server that stalls is chosen again", unsure)
	}
	if s := good.engine.Stats(); s.TotalItems != int64(stored) {
		t.Errorf("the server has %d items, want %d", s.TotalItems, stored)
	}
}

// TestPutWithdraws tests that puts which have gathered behind a server that stalls, and are not sent, go to another.
// Only what the first was sent stays without an answer.
func TestPutWithdraws(t *testing.T) {
	var mu sync.Mutex
	received := 0 // puts
	stalled := rigged(t, func(_ int, conn net.Conn) {
		buf := make([]byte, 1<<16)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			received += bytes.Count(buf[:n], []byte("set "))
			mu.Unlock()
		}
	})
	good := serve(t)
	c := dial(t, Options{ReplyTimeout: time.Hour}, stalled.addr, good.addr)
	const puts = 100
	results := make(chan error, puts)
	for range puts {
		go func() { results <- c.Put(within(t), "work", []byte("x"), PutOptions{}) }()
	}
	stored := int64(0)
	for end := time.Now().Add(patience); ; {
		stored = good.engine.Stats().TotalItems
		mu.Lock()
		sent := received
		mu.Unlock()
		if stored+int64(sent) == puts {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("of %d puts %d are stored, and %d were sent to the server that stalls", puts, stored, sent)
		}
	}
	for range stored {
		if err := <-results; err != nil {
			t.Errorf("Put = %v", err)
		}
	}
	c.Close()
	for range puts - stored {
		if err := <-results; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a put that was sent = %v, want ErrUnknownOutcome", err)
		}
	}
}

func TestPutWithoutAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(int, net.Conn)
	}{
		{"a server that stalls", silent},
		{"one that closes", func(_ int, conn net.Conn) { conn.Read(make([]byte, 1000)) }},
		{"one that half-closes", func(_ int, conn net.Conn) {
			conn.Read(make([]byte, 1000))
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
		}},
		{"one that stops within a reply", func(_ int, conn net.Conn) {
			conn.Read(make([]byte, 1000))
			io.WriteString(conn, "STOR")
		}},
	} {
		r := rigged(t, tt.script)
		c := dial(t, Options{ReplyTimeout: 200 * time.Millisecond}, r.addr)
		if err := c.Put(within(t), "work", []byte("x"), PutOptions{}); !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: Put = %v, want ErrUnknownOutcome", tt.name, err)
		}
	}
}

// TestPutToReadOnly puts far more than a server reads before it refuses for its status. The server closes the
// connection with bytes unread, which resets it. Certainly no item is stored, so all may go to another server.
func TestPutToReadOnly(t *testing.T) {
	closed, open := serve(t), serve(t)
	items := slices.Repeat([][]byte{make([]byte, 256<<10)}, 8)
	one := dial(t, Options{}, closed.addr)
	if err := one.SetStatus(within(t), "ReadOnly"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := one.PutAll(within(t), "work", items, PutOptions{}); err == nil || errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("PutAll to a server that is read-only = %v", err)
		}
	}
	both := dial(t, Options{}, closed.addr, open.addr)
	for range 10 {
		if err := both.PutAll(within(t), "work", items, PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if s := dial(t, Options{}, open.addr).Stats(within(t)); s[0].Items != 80 {
		t.Errorf("the other server has %d items, want 80", s[0].Items)
	}
}

// TestPutEndsWithContext tests that a put ends with its context, with an unknown outcome.
func TestPutEndsWithContext(t *testing.T) {
	c := dial(t, Options{}, rigged(t, silent).addr)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	err := c.Put(ctx, "work", []byte("x"), PutOptions{})
	if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put = %v, want ErrUnknownOutcome and DeadlineExceeded", err)
	}
	if err := c.Put(ctx, "work", []byte("x"), PutOptions{}); errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put after the end = %v, want DeadlineExceeded alone", err)
	}
}

// TestPutAllPartly tests what PutAll says of each item.
func TestPutAllPartly(t *testing.T) {
	r := rigged(t, func(_ int, conn net.Conn) {
		io.ReadAtLeast(conn, make([]byte, 1000), 4*len("set q 0 0 1\r\nx\r\n"))
		io.WriteString(conn, "STORED\r\nNOT_STORED\r\nSTORED\r\n")
	})
	c := dial(t, Options{}, r.addr)
	x := []byte("x")
	err := c.PutAll(within(t), "q", [][]byte{x, x, x, x}, PutOptions{})
	var failed *BatchError
	if !errors.As(err, &failed) {
		t.Fatalf("PutAll = %v", err)
	}
	for i, want := range []error{nil, ErrNotStored, nil, ErrUnknownOutcome} {
		if !errors.Is(failed.Items[i], want) {
			t.Errorf("item %d: %v, want %v", i, failed.Items[i], want)
		}
	}
	if !strings.HasPrefix(err.Error(), "2 of 4 items are not stored") {
		t.Errorf("the error says %q", err)
	}
}

// TestServerComesBack tests that a client goes on when its only server has been away, without its
// items or with them.
func TestServerComesBack(t *testing.T) {
	k := serve(t)
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: 10 * time.Millisecond}}, k.addr)
	put(t, c, "work", "a")
	if err := k.stop(); err != nil {
		t.Fatal(err)
	}
	err := c.Put(within(t), "work", []byte("b"), PutOptions{})
	if err == nil || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("Put to a server that is away = %v, want a refusal", err)
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	put(t, c, "work", "c")
	for _, want := range []string{"a", "c"} {
		if got, err := c.Get(within(t), "work", 0); string(got.Data) != want || err != nil {
			t.Errorf("Get = %q, %v, want %q", got.Data, err, want)
		}
	}
	if err := k.stop(); err != nil {
		t.Fatal(err)
	}
	k.dir = t.TempDir() // comes back empty
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(within(t), "work", 0); !errors.Is(err, ErrEmpty) {
		t.Errorf("Get = %v, want ErrEmpty", err)
	}
}

func TestClosed(t *testing.T) {
	c := dial(t, Options{}, rigged(t, silent).addr)
	waiting := make(chan error, 2)
	go func() { waiting <- c.Put(within(t), "work", []byte("x"), PutOptions{}) }()
	go func() {
		_, err := c.Get(within(t), "work", time.Minute)
		waiting <- err
	}()
	c.Close()
	for range 2 {
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("a call that waits while the client is closed = %v, want ErrClosed", err)
		}
	}
	if err := c.Put(within(t), "work", nil, PutOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Put = %v, want ErrClosed", err)
	}
	if _, err := c.Consume("work"); !errors.Is(err, ErrClosed) {
		t.Errorf("Consume = %v, want ErrClosed", err)
	}
	c.Close()
}

func TestBadNames(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	for _, name := range []string{"", "a b", "a/b", "a\nb", "日本", "\x7f"} {
		if err := c.Put(within(t), name, nil, PutOptions{}); !errors.Is(err, ErrBadName) {
			t.Errorf("Put to %q = %v, want ErrBadName", name, err)
		}
		if _, err := c.Get(within(t), name, 0); !errors.Is(err, ErrBadName) {
			t.Errorf("Get from %q = %v, want ErrBadName", name, err)
		}
	}
	put(t, c, "a+b", "x")
}

// TestPutAllAllocations tests that many items cost no allocation each.
func TestPutAllAllocations(t *testing.T) {
	r := rigged(t, func(_ int, conn net.Conn) {
		buf := make([]byte, 1<<20)
		replies := bytes.Repeat([]byte("STORED\r\n"), 1000)
		for rest := 0; ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			rest += n
			for size := len("set work 0 0 1\r\nx\r\n") * 1000; rest >= size; rest -= size {
				conn.Write(replies)
			}
		}
	})
	c := dial(t, Options{}, r.addr)
	items := make([][]byte, 1000)
	for i := range items {
		items[i] = []byte("x")
	}
	allocations := testing.AllocsPerRun(50, func() {
		if err := c.PutAll(context.Background(), "work", items, PutOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 20 {
		t.Errorf("a call with 1000 items makes %v allocations", allocations)
	}
}

// BenchmarkPutAll measures puts of one goroutine, a thousand items in each call; ns/op are for one
// item.
func BenchmarkPutAll(b *testing.B) {
	c := dial(b, Options{}, serve(b).addr)
	items := make([][]byte, 1000)
	for i := range items {
		items[i] = bytes.Repeat([]byte("x"), 64)
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(items) {
		if err := c.PutAll(context.Background(), "work", items, PutOptions{}); err != nil {
			b.Fatal(err)
		}
		if n%1_000_000 == 0 {
			b.StopTimer()
			if err := c.Flush(context.Background(), "work"); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}
