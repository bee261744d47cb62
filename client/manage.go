package client

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// Flush removes the items that are queued in a queue, on every server. Open reads stay, and may come
// back.
func (c *Client) Flush(ctx context.Context, queue string) error {
	return c.manage(ctx, "flush", queue, memcache.OpFlush, memcache.KindEnd)
}

// Delete removes a queue with all that is in it, open reads included, on every server. The next put
// makes it anew.
func (c *Client) Delete(ctx context.Context, queue string) error {
	return c.manage(ctx, "delete", queue, memcache.OpDelete, memcache.KindDeleted)
}

func (c *Client) manage(ctx context.Context, verb, queue string, op memcache.Op, want memcache.Kind) error {
	name, err := wire.Name(queue)
	if err != nil {
		return wordy(verb, queue, "", err)
	}
	return c.onAll(func(server string) error {
		_, err := c.command(ctx, server, op, name, want)
		return wordy(verb, queue, server, err)
	})
}

// Ping asks every server for its version, and returns why one does not answer.
func (c *Client) Ping(ctx context.Context) error {
	return c.onAll(func(server string) error {
		_, err := c.command(ctx, server, memcache.OpVersion, nil, memcache.KindVersion)
		return wordy("reach the server", "", server, err)
	})
}

// Status returns the status of each server, such as "UP" or "READONLY", by host:port. Servers that do
// not answer, or have no status, are missing, and in the error.
func (c *Client) Status(ctx context.Context) (map[string]string, error) {
	var mu sync.Mutex
	by := make(map[string]string)
	err := c.onAll(func(server string) error {
		status, err := c.command(ctx, server, memcache.OpStatus, nil, memcache.KindText)
		if err == nil && strings.ContainsFunc(status, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) }) {
			err = fmt.Errorf("%w: its status is %.100q", ErrProtocol, status)
		}
		if err == nil {
			mu.Lock()
			by[server] = status
			mu.Unlock()
		}
		return wordy("ask for the status", "", server, err)
	})
	return by, err
}

// SetStatus has every server take a status: "Up", "WriteAvoid", "ReadOnly" or "Quiescent", in any case. A
// server takes no stricter one while the grace period of another runs, and says nothing of that: ask [Client.Status]
// what it has.
func (c *Client) SetStatus(ctx context.Context, status string) error {
	return c.onAll(func(server string) error {
		_, err := c.command(ctx, server, memcache.OpStatus, []byte(status), memcache.KindEnd)
		return wordy("set the status", "", server, err)
	})
}
