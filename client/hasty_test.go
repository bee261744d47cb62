package client

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// TestHastyServer asks a server to wait that answers at once that there is nothing, as each server does for an alias. It
// is not asked again and again without a pause.
func TestHastyServer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *Client) error{
		"Get": func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, "work", time.Hour); return err },
		"Next": func(ctx context.Context, c *Client) error {
			k, err := c.Consume("work")
			if err != nil {
				return err
			}
			defer k.Close()
			_, err = k.Next(ctx)
			return err
		},
		"Next of leases": func(ctx context.Context, c *Client) error {
			k, err := c.ConsumeLeased("work", time.Minute)
			if err != nil {
				return err
			}
			defer k.Close()
			_, err = k.Next(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			r := rigged(t, func(_ int, conn net.Conn) {
				buf := make([]byte, 1<<10)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					asked.Add(1)
					if string(buf[:n]) == "version\r\n" {
						conn.Write([]byte("VERSION 3.0.0\r\n"))
						continue
					}
					conn.Write([]byte(memcache.ReplyEnd))
				}
			})
			c := dial(t, Options{}, r.addr)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := call(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want DeadlineExceeded", err)
			}
			if n := asked.Load(); n > 50 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}
