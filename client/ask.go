package client

import (
	"context"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// keepIdle is how many connections to one server are kept for requests to come.
const keepIdle = 64

// ask makes one request of a server, on a connection of its own meanwhile. It hands each reply to
// read, until read wants no more or finds an error. Wait is how long the server may wait by order.
//
// It returns a notSent if the request was not made; other errors of its own leave open whether the
// server has done it. What read returns comes back as it is.
func (c *Client) ask(
	ctx context.Context, server string, wait time.Duration, request []byte,
	read func(r *memcache.Reply) (more bool, err error),
) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return cause(ctx)
	}
	conn, err := c.takeConn(ctx, server)
	if err != nil {
		return &notSent{err: c.plain(err)}
	}
	usable, err := c.converse(ctx, conn, wait, request, read)
	c.keepOrClose(server, conn, usable)
	return err
}

// askList is ask for a list: each of its values is a reply.
func (c *Client) askList(
	ctx context.Context, server string, request []byte, read func(r *memcache.Reply) (more bool, err error),
) error {
	conn, err := c.takeConn(ctx, server)
	if err != nil {
		return &notSent{err: c.plain(err)}
	}
	usable, err := c.converseBy(ctx, conn, 0, request, read, (*wire.Conn).ReadListed)
	c.keepOrClose(server, conn, usable)
	return err
}

// converse makes a request on a connection and hands each reply to read. It reports whether the
// connection is of use for another: it is not after an error, of read included.
func (c *Client) converse(
	ctx context.Context, conn *wire.Conn, wait time.Duration, request []byte,
	read func(r *memcache.Reply) (more bool, err error),
) (usable bool, err error) {
	return c.converseBy(ctx, conn, wait, request, read, (*wire.Conn).Read)
}

// converseBy is converse, with replies as next reads them.
func (c *Client) converseBy(
	ctx context.Context, conn *wire.Conn, wait time.Duration, request []byte,
	read func(r *memcache.Reply) (more bool, err error), next func(*wire.Conn, *memcache.Reply) error,
) (usable bool, err error) {
	release, releaseToo := conn.Guard(ctx), conn.Guard(c.ctx)
	deadline := time.Now().Add(wait + c.opts.ReplyTimeout)
	conn.ReadUntil(deadline)
	err = conn.Write(request, deadline)
	var refused error
	var reply memcache.Reply
	for more := err == nil; more; {
		if err = next(conn, &reply); err != nil {
			break
		}
		more, refused = read(&reply)
	}
	open := release()
	open = releaseToo() && open
	switch {
	case err == nil:
		return open && refused == nil, refused
	case ctx.Err() != nil:
		return false, cause(ctx)
	case c.ctx.Err() != nil:
		return false, ErrClosed
	}
	return false, plain(err)
}

// takeConn returns a connection that nobody else uses. It is in no list until keepOrClose.
func (c *Client) takeConn(ctx context.Context, server string) (*wire.Conn, error) {
	for {
		conn := c.popIdle(server)
		if conn == nil {
			return c.dialer.Dial(ctx, server)
		}
		if conn.Quiet() {
			return conn, nil
		}
		conn.Close()
	}
}

func (c *Client) popIdle(server string) *wire.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conns := c.idle[server]
	if len(conns) == 0 {
		return nil
	}
	conn := conns[len(conns)-1]
	c.idle[server] = conns[:len(conns)-1]
	return conn
}

// keepOrClose keeps a connection for the next request, if it is usable, its server has not left meanwhile, and there
// are not enough.
func (c *Client) keepOrClose(server string, conn *wire.Conn, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !usable || c.closed || !c.members.has(server) || len(c.idle[server]) >= keepIdle {
		conn.Close()
		return
	}
	c.idle[server] = append(c.idle[server], conn)
}

// wordy returns err with what failed, on what.
func wordy(op, queue, server string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Queue: queue, Server: server, Err: err}
}

// command makes a request of one reply of a server.
func (c *Client) command(ctx context.Context, server string, op memcache.Op, args []byte, want memcache.Kind) (text string, err error) {
	err = c.ask(ctx, server, 0, memcache.AppendCommand(nil, op, args), func(r *memcache.Reply) (bool, error) {
		if r.Kind != want {
			return false, refusal(r)
		}
		text = wire.Text(r.Text)
		return false, nil
	})
	return text, err
}

// onAll does something on every server, all at once, and returns why it failed where it failed.
func (c *Client) onAll(do func(server string) error) error {
	servers := c.Members().all()
	if len(servers) == 0 {
		return ErrNoServers
	}
	failed := make(chan error, len(servers))
	for _, server := range servers {
		go func() { failed <- do(server) }()
	}
	var all []error
	for range servers {
		if err := <-failed; err != nil {
			all = append(all, err)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}
