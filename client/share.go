package client

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

const (
	// parkShare is how long a share stays without requests.
	parkShare = time.Second
	// trustShare is how long its connection is used again without a look whether the server has closed it.
	trustShare = 5 * time.Millisecond
)

// share is a connection to one server that small requests of many callers share. What gathers while one round of them
// is under way goes out in one write as the next. It ends when there have been no requests for a while.
type share struct {
	client *Client
	server string
	kick   chan struct{} // holds a token when there is something to ask

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
func (c *Client) askShared(
	ctx context.Context, server string, encode func(dst []byte) []byte, read func(r *memcache.Reply) error,
) error {
	if ctx.Err() != nil {
		return cause(ctx)
	}
	done := make(chan error, 1)
	a := &shared{read: read, then: func(err error) { done <- err }}
	if !c.addShared(server, encode, a) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return cause(ctx)
	}
}

// addShared gathers a request: encode appends it to what it is given. It returns false if the client has been closed.
func (c *Client) addShared(server string, encode func(dst []byte) []byte, a *shared) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	s := c.shares[server]
	if s == nil {
		s = &share{client: c, server: server, kick: make(chan struct{}, 1)}
		c.shares[server] = s
		c.running.Go(s.run)
	}
	s.out = encode(s.out)
	s.asks = append(s.asks, a)
	if len(s.asks) == 1 {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns what has gathered. The arguments are buffers to use again.
func (s *share) take(out []byte, asks []*shared) ([]byte, []*shared) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	took, served := s.out, s.asks
	s.out, s.asks = out[:0], asks[:0]
	return took, served
}

// end takes the share out if nothing has gathered, and reports whether that was so.
func (s *share) end() bool {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if len(s.asks) > 0 {
		return false
	}
	delete(s.client.shares, s.server)
	return true
}

// await waits for requests. It returns false if none come for a while, or the client has been closed.
func (s *share) await(park *time.Timer) bool {
	park.Reset(parkShare)
	defer park.Stop()
	select {
	case <-s.kick:
		runtime.Gosched() // callers that were woken together have their requests in one write
		return true
	case <-park.C:
	case <-s.client.ctx.Done():
	}
	return false
}

// run makes rounds until there is nothing to ask for a while.
func (s *share) run() {
	c := s.client
	var (
		conn    *wire.Conn
		release func() bool
		used    time.Time
		out     []byte
		asks    []*shared
	)
	hangUp := func() {
		release()
		conn.Close()
		conn = nil
	}
	park := time.NewTimer(parkShare)
	for {
		if out, asks = s.take(out, asks); len(asks) == 0 {
			if !s.await(park) && s.end() {
				break
			}
			continue
		}
		if conn != nil && time.Since(used) > trustShare && !conn.Quiet() {
			hangUp()
		}
		if conn == nil {
			var err error
			if conn, err = c.takeConn(c.ctx, s.server); err != nil {
				for _, a := range asks {
					a.then(&notSent{err: c.plain(err)})
				}
				continue
			}
			release = conn.Guard(c.ctx)
		}
		if !s.round(conn, out, asks) {
			hangUp()
		}
		used = time.Now()
		clear(asks)
	}
	if conn != nil {
		c.keepOrClose(s.server, conn, release())
	}
}

// round writes requests and reads their replies. It returns false if the connection is of no further use.
func (s *share) round(conn *wire.Conn, out []byte, asks []*shared) bool {
	conn.Renew(time.Now(), s.client.opts.ReplyTimeout)
	end := conn.Send(out) // why no more replies are to be read
	var reply memcache.Reply
	for _, a := range asks {
		if end == nil {
			end = conn.Read(&reply)
		}
		if end != nil {
			a.then(s.client.plain(end))
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
