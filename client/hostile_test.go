package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// behaviours are servers that are not as they should be. None of them has an item, or stores one.
var behaviours = map[string]func(n int, conn net.Conn){
	"stalls":                  silent,
	"closes at once":          func(int, net.Conn) {},
	"resets":                  func(_ int, conn net.Conn) { conn.(*net.TCPConn).SetLinger(0) },
	"half-closes at once":     func(n int, conn net.Conn) { conn.(*net.TCPConn).CloseWrite(); silent(n, conn) },
	"half-closes in a reply":  afterRequest("VALUE work 0 10\r\nabc", func(conn net.Conn) { conn.(*net.TCPConn).CloseWrite() }),
	"closes in a reply":       afterRequest("VALUE work 0 10\r\nabc", func(conn net.Conn) { conn.Close() }),
	"closes in a line":        afterRequest("STO", func(conn net.Conn) { conn.Close() }),
	"stalls in a reply":       afterRequest("VALUE work 0 10\r\nabc", func(net.Conn) {}),
	"answers words":           answering("hello\r\n"),
	"answers bytes":           answering("\x00\xff\x80\r\n\x00"),
	"speaks HTTP":             answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
	"answers other things":    answering("VALUE other 0 3\r\nabc\r\nSTAT x 1\r\nDELETED\r\n"),
	"claims a huge item":      answering("VALUE work 0 4000000000\r\n"),
	"claims a negative item":  answering("VALUE work 0 -1\r\n"),
	"ends an item elsewhere":  answering("VALUE work 0 3\r\nabcdef\r\nEND\r\n"),
	"sends a line for ever":   endless(strings.Repeat("x", 1<<16)),
	"sends figures for ever":  endless(strings.Repeat("STAT queue_q_items 1\r\n", 1<<10)),
	"sends errors for ever":   endless(strings.Repeat("ERROR\r\n", 1<<10)),
	"speaks before it is due": func(n int, conn net.Conn) { io.WriteString(conn, "ERROR\r\n"); silent(n, conn) },
}

// afterRequest answers the first request with a text, does something, and says nothing from then on.
func afterRequest(text string, do func(conn net.Conn)) func(n int, conn net.Conn) {
	return func(n int, conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1<<16)); err != nil {
			return
		}
		io.WriteString(conn, text)
		do(conn)
		silent(n, conn)
	}
}

// endless sends a text again and again, from the first request on.
func endless(text string) func(n int, conn net.Conn) {
	return func(_ int, conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1<<16)); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// TestHostileServers makes every kind of call of every kind of server that is not as it should be. Each call ends, with
// an error that names the server, and leaves nothing behind. Nothing is taken for stored, or for an item.
func TestHostileServers(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *Client) error{
		"Put": func(ctx context.Context, c *Client) error { return c.Put(ctx, "work", []byte("x"), PutOptions{}) },
		"PutAll": func(ctx context.Context, c *Client) error {
			return c.PutAll(ctx, "work", [][]byte{{1}, {2}}, PutOptions{})
		},
		"Get": func(ctx context.Context, c *Client) error {
			_, err := c.Get(ctx, "work", time.Millisecond)
			return err
		},
		"Next": func(ctx context.Context, c *Client) error {
			k, err := c.Consume("work")
			return nextSoon(ctx, k, err)
		},
		"OpenBatch": func(ctx context.Context, c *Client) error {
			_, err := c.OpenBatch(ctx, "work", 10, time.Millisecond)
			return err
		},
		"Put with a key": func(ctx context.Context, c *Client) error {
			return c.Put(ctx, "work", []byte("x"), PutOptions{Key: "k", New: true})
		},
		"Peek": func(ctx context.Context, c *Client) error { _, err := c.Peek(ctx, "work"); return err },
		"Browse": func(ctx context.Context, c *Client) error {
			_, err := c.Browse(ctx, "work", BrowseOptions{Limit: 10})
			return err
		},
		"Look": func(ctx context.Context, c *Client) error { _, err := c.Look(ctx, "work", 7, ""); return err },
		"Next of leases": func(ctx context.Context, c *Client) error {
			k, err := c.ConsumeLeased("work", time.Minute)
			return nextSoon(ctx, k, err)
		},
		"Delete":    func(ctx context.Context, c *Client) error { return c.Delete(ctx, "work") },
		"SetStatus": func(ctx context.Context, c *Client) error { return c.SetStatus(ctx, "Quiescent") },
		"Stats":     func(ctx context.Context, c *Client) error { return c.Stats(ctx)[0].Err },
		"Status":    func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err },
		"Flush":     func(ctx context.Context, c *Client) error { return c.Flush(ctx, "work") },
		"Ping":      func(ctx context.Context, c *Client) error { return c.Ping(ctx) },
	}
	for name, behave := range behaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, behave)
			for call, make := range calls {
				c := dial(t, Options{ReplyTimeout: 200 * time.Millisecond, DialTimeout: patience,
					Backoff: Backoff{First: time.Millisecond, Most: 10 * time.Millisecond}}, r.addr)
				err := make(within(t), c)
				if call == "Status" && name == "answers words" && err == nil {
					continue // any word may be a status
				}
				next := strings.HasPrefix(call, "Next")
				if next && strings.HasPrefix(name, "stalls") && errors.Is(err, context.DeadlineExceeded) {
					continue // it was asked to wait
				}
				if err == nil || errors.Is(err, context.DeadlineExceeded) && !next || !strings.Contains(err.Error(), r.addr) {
					t.Errorf("%s: %v, want an error that names %s", call, err, r.addr)
				}
				c.Close()
			}
		})
	}
}

// TestItemsForEver asks a server for some items, which sends them without end: the client does not keep them all.
func TestItemsForEver(t *testing.T) {
	r := rigged(t, func(n int, conn net.Conn) {
		if buf := make([]byte, 1<<10); n == 1 { // of Browse, which asks for the version first
			conn.Read(buf)
			io.WriteString(conn, "VERSION 3.0.0\r\n")
			endless(strings.Repeat("VALUE work/7 0 1\r\nx\r\n", 1<<10))(n, conn)
			return
		}
		endless(strings.Repeat("VALUE work 0 1\r\nx\r\nEND\r\n", 1<<10))(n, conn)
	})
	c := dial(t, Options{ReplyTimeout: patience}, r.addr)
	if b, err := c.OpenBatch(within(t), "work", 10, 0); !errors.Is(err, ErrProtocol) {
		t.Errorf("OpenBatch = %v, %v, want ErrProtocol", b, err)
	}
	if found, err := c.Browse(within(t), "work", BrowseOptions{Limit: 10}); !errors.Is(err, ErrProtocol) {
		t.Errorf("Browse = %d items, %v, want ErrProtocol", len(found), err)
	}
}

// TestComesBackEmpty has a server lose its data directory while a client puts and takes: both go on, and what was lost
// is not delivered.
func TestComesBackEmpty(t *testing.T) {
	k := serve(t)
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: 10 * time.Millisecond}}, k.addr)
	consumer, err := c.Consume("work")
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	put(t, c, "work", "old 1", "old 2")
	open, err := consumer.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(k.dir); err != nil {
		t.Fatal(err)
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	<-open.Lost()
	if err := open.Confirm(within(t)); !errors.Is(err, ErrLost) {
		t.Errorf("Confirm of an item of before = %v, want ErrLost", err)
	}
	for i := range 3 {
		item := fmt.Sprintf("new %d", i)
		for c.Put(within(t), "work", []byte(item), PutOptions{}) != nil { // until the connection is there again
		}
		d, err := consumer.Next(within(t))
		if err != nil || string(d.Data) != item {
			t.Fatalf("Next = %v, %v; want %q", d, err, item)
		}
		if err := d.Confirm(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// nextSoon is Next of a consumer that was made, or not, for a while: it goes on trying.
func nextSoon(ctx context.Context, k *Consumer, err error) error {
	if err != nil {
		return err
	}
	defer k.Close()
	ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
	defer cancel()
	_, err = k.Next(ctx)
	return err
}
