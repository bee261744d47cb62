package client

import (
	"context"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// Batch is items of one queue that were opened together, on one server. Confirm or abort it; its
// methods may be called from any goroutine.
type Batch struct {
	Items  []Item
	Queue  string
	Server string // host:port

	client *Client
	name   []byte
	once   sync.Once
	conn   *wire.Conn
	freed  func() bool // has the end of the client leave the connection alone
}

// OpenBatch opens up to most items of a queue, of the first server that has any, and waits up to wait for
// the first. It returns an error that wraps [ErrEmpty] if none comes.
//
// A server opens max_open_transactions items for one connection, 1 by default. If it has fewer items
// than that and than most, OpenBatch returns after a second with what there is.
func (c *Client) OpenBatch(ctx context.Context, queue string, most int, wait time.Duration) (*Batch, error) {
	name, err := wire.Name(queue)
	if err != nil {
		return nil, wordy("open items of", queue, "", err)
	}
	var b *Batch
	err = c.seek(ctx, wait, func(server string, turn time.Duration) (err error) {
		b, err = c.openOn(ctx, server, queue, name, most, turn)
		return err
	})
	return b, wordSought("open items of", queue, err)
}

// openOn opens items of one server, on a connection that belongs to the batch.
func (c *Client) openOn(
	ctx context.Context, server, queue string, name []byte, most int, wait time.Duration,
) (*Batch, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	conn, err := c.takeConn(ctx, server)
	if err != nil {
		return nil, c.plain(err)
	}
	b := &Batch{Queue: queue, Server: server, client: c, name: name, conn: conn}
	// Servers of the original take no notice of options that they do not know.
	first := memcache.AppendGet(nil, name, memcache.GetOptions{Open: true, WaitMillis: millis(wait), Meta: true})
	usable, err := c.converse(ctx, conn, wait, first, func(r *memcache.Reply) (bool, error) {
		if r.Kind == memcache.KindValue {
			item := itemOf(r)
			if len(r.Meta) > 0 {
				var known Listed
				if err := known.describe(r.Meta); err != nil {
					return false, err
				}
				item.Key, item.Expires = known.Key, known.Expires
			}
			b.Items = append(b.Items, item)
			return false, nil
		}
		if r.Kind == memcache.KindEnd {
			return false, nil
		}
		return false, refusal(r)
	})
	if err == nil && len(b.Items) == 0 {
		c.keepOrClose(server, conn, usable)
		return nil, ErrEmpty
	}
	if err == nil && most > 1 {
		more := memcache.AppendMonitor(nil, name, 1, int32(min(most-1, 1<<20)))
		_, err = c.converse(ctx, conn, time.Second, more, func(r *memcache.Reply) (bool, error) {
			if r.Kind == memcache.KindValue {
				if len(b.Items) >= most {
					return false, errMoreThanAsked
				}
				b.Items = append(b.Items, itemOf(r))
				return true, nil
			}
			if r.Kind == memcache.KindEnd {
				return false, nil
			}
			return false, refusal(r)
		})
	}
	if err != nil {
		conn.Close() // what was opened goes back
		return nil, err
	}
	b.freed = conn.Guard(c.ctx)
	return b, nil
}

// Confirm says that all items are done with: they are gone for good. An error wraps [ErrUnknownOutcome] if no answer
// came, and [ErrLost] if the server had taken them back. It wraps [ErrEnded] if the batch was confirmed or aborted
// before.
func (b *Batch) Confirm(ctx context.Context) error {
	err := ErrEnded
	b.once.Do(func() {
		request := memcache.AppendConfirm(nil, b.name, int32(len(b.Items)))
		if len(b.Items) == 1 { // which older servers know, too
			request = memcache.AppendGet(nil, b.name, memcache.GetOptions{Close: true})
		}
		var refused error
		var usable bool
		usable, err = b.client.converse(ctx, b.conn, 0, request, func(r *memcache.Reply) (bool, error) {
			switch r.Kind {
			case memcache.KindEnd:
			case memcache.KindError:
				refused = ErrLost
			default:
				refused = refusal(r)
			}
			return false, refused
		})
		if err != nil && refused == nil {
			err = unknown(err)
		}
		b.client.keepOrClose(b.Server, b.conn, b.freed() && usable)
	})
	return wordy("confirm", b.Queue, b.Server, err)
}

// Abort gives all items back to the head of their queue, in their order, and waits until the server has them. That the
// connection is lost is no error: they have gone back already. An error wraps [ErrEnded] if the batch was confirmed or
// aborted before. If it wraps [ErrUnknownOutcome] the server did not answer, and has them back when it notices that the
// connection has ended.
func (b *Batch) Abort(ctx context.Context) error {
	err := ErrEnded
	b.once.Do(func() {
		// Several aborts would turn their order round; the end of the connection does not.
		request := memcache.AppendCommand(nil, memcache.OpQuit, nil)
		if len(b.Items) == 1 {
			request = memcache.AppendGet(nil, b.name, memcache.GetOptions{Abort: true})
		}
		var usable bool
		usable, err = b.client.converse(ctx, b.conn, 0, request, func(r *memcache.Reply) (bool, error) {
			if r.Kind == memcache.KindEnd {
				return false, nil
			}
			return false, refusal(r)
		})
		b.client.keepOrClose(b.Server, b.conn, b.freed() && usable)
		if err != nil && (wire.TimedOut(err) || ctx.Err() != nil) {
			err = unknown(err)
		} else {
			err = nil
		}
	})
	return wordy("abort", b.Queue, b.Server, err)
}
