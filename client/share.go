package client

import (
	"context"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// share is a connection to one server that small requests of many callers share: what gathers while one round of
// them is under way goes out in one write as the next. It lasts as long as there are requests.
type share struct {
	client *Client
	server string

	// Guarded by Client.mu.
	out  []byte
	asks []*shared // that out holds, in order
}

// shared is one request on its way.
type shared struct {
	read func(r *memcache.Reply) error // makes an error of the reply, or none
	then func(err error)               // is called once with the outcome; neither may wait
}

// askShared makes a request that has one reply, beside those of others on the same connection, and returns what
// read makes of the reply. Its errors are those of ask. Read may be called after askShared has returned because ctx
// has ended, and must not wait.
func (c *Client) askShared(ctx context.Context, server string, request []byte, read func(r *memcache.Reply) error) error {
	if ctx.Err() != nil {
		return cause(ctx)
	}
	done := make(chan error, 1)
	a := &shared{read: read, then: func(err error) { done <- err }}
	if !c.addShared(server, request, a) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return cause(ctx)
	}
}

// addShared gathers a request. It returns false if the client has been closed.
func (c *Client) addShared(server string, request []byte, a *shared) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	s := c.shares[server]
	if s == nil {
		s = &share{client: c, server: server}
		c.shares[server] = s
		c.running.Go(s.run)
	}
	s.out = append(s.out, request...)
	s.asks = append(s.asks, a)
	return true
}

// take returns what has gathered. If that is nothing the share is at its end. The arguments are buffers to use again.
func (s *share) take(out []byte, asks []*shared) ([]byte, []*shared) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.asks) == 0 {
		delete(c.shares, s.server)
		return nil, nil
	}
	took, served := s.out, s.asks
	s.out, s.asks = out[:0], asks[:0]
	return took, served
}

// run makes rounds until nothing is left to ask.
func (s *share) run() {
	c := s.client
	var (
		conn    *wire.Conn
		release func() bool
		out     []byte
		asks    []*shared
	)
	for {
		if out, asks = s.take(out, asks); len(asks) == 0 {
			break
		}
		if conn == nil {
			var err error
			if conn, err = c.takeConn(c.ctx, s.server); err != nil {
				for _, a := range asks {
					a.then(s.worded(&notSent{err: plain(err)}))
				}
				continue
			}
			release = conn.Guard(c.ctx)
		}
		if !s.round(conn, out, asks) {
			release()
			conn.Close()
			conn = nil
		}
		clear(asks)
	}
	if conn != nil {
		c.keepOrClose(s.server, conn, release())
	}
}

// round writes requests and reads their replies. It returns false if the connection is of no further use.
func (s *share) round(conn *wire.Conn, out []byte, asks []*shared) bool {
	deadline := time.Now().Add(s.client.opts.ReplyTimeout)
	conn.ReadUntil(deadline)
	end := conn.Write(out, deadline) // why no more replies are to be read
	var reply memcache.Reply
	for _, a := range asks {
		if end == nil {
			end = conn.Read(&reply)
		}
		if end != nil {
			a.then(s.worded(plain(end)))
			continue
		}
		err := a.read(&reply)
		if closing(err) || errors.Is(err, ErrProtocol) {
			end = err
		}
		a.then(err)
	}
	return end == nil
}

// worded returns why a request has no reply.
func (s *share) worded(err error) error {
	if s.client.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}
