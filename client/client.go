package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
)

// Defaults of [Options].
const (
	DefaultDialTimeout  = 3 * time.Second
	DefaultReplyTimeout = 10 * time.Second
)

// Options configure a [Client]. The zero Options are good for most.
type Options struct {
	// Source says which servers there are, in place of the address.
	Source Source
	// TLS encrypts all connections; nil does not.
	TLS *tls.Config
	// User and Password are said first on every connection. User "" says nothing, and leaves it to the address.
	User, Password string
	// DialTimeout bounds the making of one connection.
	DialTimeout time.Duration
	// ReplyTimeout is how long a server may take to answer, on top of the time that it was asked to wait. Where items
	// are taken and ended, it is a quarter more at most. A server with sync_journal "always" answers when its disk has,
	// so this is no place for milliseconds: bound a single call by its context. It is also how long a put waits that a
	// server took before it stopped without closing the connection.
	ReplyTimeout time.Duration
	// Backoff is how long a server that failed is left alone.
	Backoff Backoff
	// Logger takes what an operator should know: servers that fail, and come back. Nil discards it.
	Logger *slog.Logger
}

// withDefaults returns o with defaults in place of zeros.
func (o Options) withDefaults() Options {
	if o.DialTimeout == 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.ReplyTimeout == 0 {
		o.ReplyTimeout = DefaultReplyTimeout
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = Backoff{First: 50 * time.Millisecond, Most: 10 * time.Second}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// Client speaks to one server or to many. All methods may be called from any goroutine.
type Client struct {
	// Immutable.
	opts   Options
	dialer wire.Dialer
	most   int64           // bytes of figures that one answer of a server may have: maxFigures
	ctx    context.Context // ends with the client
	cancel context.CancelCauseFunc

	running sync.WaitGroup // goroutines of the client

	// changing is held while members change, so that consumers see every change in its order. It is
	// taken before any other lock.
	changing sync.Mutex

	mu sync.Mutex
	// Guarded by mu.
	closed    bool
	members   Members
	lanes     map[string]*lane // by server, of the write set
	choice    []*lane          // the same, as a list that is replaced and never changed
	idle      map[string][]*wire.Conn
	shares    map[string]*share // by server, of those that have requests under way
	consumers map[*Consumer]bool
}

// Dial returns a client of servers. Close it. The address is one of
//
//	kestrel://a:22133,b:22133       a list, as [ParseAddress] says
//	kestrels://alice:s3cret@a,b     the same, encrypted, by a user with a password
//	zk://zk1:2181,zk2:2181/kestrel  the servers that announce themselves in ZooKeeper
//
// With opts.Source, that reports the servers, and the address says no more than how to connect to them. Dial waits,
// within ctx, for the first report, and for no server: connections are made when they are needed, and made
// again when they break.
func Dial(ctx context.Context, address string, opts Options) (*Client, error) {
	address, err := opts.takeLogin(address)
	if err != nil {
		return nil, err
	}
	source := opts.Source
	if source == nil {
		if source, err = sourceOf(address); err != nil {
			return nil, err
		}
	}
	c := &Client{
		opts:      opts.withDefaults(),
		most:      maxFigures,
		lanes:     make(map[string]*lane),
		idle:      make(map[string][]*wire.Conn),
		shares:    make(map[string]*share),
		consumers: make(map[*Consumer]bool),
	}
	c.dialer = wire.Dialer{Timeout: c.opts.DialTimeout, TLS: opts.TLS, User: opts.User, Password: opts.Password}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	if err := c.watch(ctx, source); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// watch starts watching source and waits for its first report.
func (c *Client) watch(ctx context.Context, source Source) error {
	first := make(chan struct{})
	gaveUp := make(chan error, 1)
	var once sync.Once
	c.running.Go(func() {
		err := source.Watch(c.ctx, func(m Members) {
			c.setMembers(m)
			once.Do(func() { close(first) })
		})
		if c.ctx.Err() == nil {
			c.opts.Logger.Warn("the source of servers has given up; the last list stays", "error", err)
		}
		gaveUp <- err
	})
	select {
	case <-first:
		return nil
	case err := <-gaveUp:
		return fmt.Errorf("find the servers: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("find the servers: %w", cause(ctx))
	}
}

// setMembers makes m the members; an empty list leaves those of before.
func (c *Client) setMembers(m Members) {
	c.changing.Lock()
	defer c.changing.Unlock()
	m = c.setLanes(m.clone())
	for _, consumer := range c.allConsumers() {
		consumer.setServers(m.Read)
	}
}

// allConsumers returns the consumers that are open.
func (c *Client) allConsumers() []*Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.consumers))
}

// setLanes makes a lane for each server of the write set, and returns the members of now.
func (c *Client) setLanes(m Members) Members {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.members
	}
	if len(m.Write) == 0 {
		m.Write = c.members.Write
	}
	if len(m.Read) == 0 {
		m.Read = c.members.Read
	}
	c.members = m
	gone := c.lanes
	c.lanes = make(map[string]*lane)
	c.choice = nil
	for _, server := range m.Write {
		l := gone[server]
		if l == nil {
			l = newLane(c, server)
		}
		delete(gone, server)
		c.lanes[server] = l
		c.choice = append(c.choice, l)
	}
	for _, l := range gone {
		l.leave()
	}
	for server, conns := range c.idle {
		if !m.has(server) {
			closeAll(conns)
			delete(c.idle, server)
		}
	}
	return m
}

func closeAll(conns []*wire.Conn) {
	for _, conn := range conns {
		conn.Close()
	}
}

// Members returns the servers of now.
func (c *Client) Members() Members {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members.clone()
}

// Close ends all connections, and calls that wait, with [ErrClosed]. What was opened and not
// confirmed the servers deliver again.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	for server, conns := range c.idle {
		closeAll(conns)
		delete(c.idle, server)
	}
	c.mu.Unlock()
	c.cancel(ErrClosed)
	c.running.Wait()
}

// spawn runs f on a goroutine that Close waits for, unless the client has been closed.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(f)
	return true
}

// readers returns the servers that have items, from a random one on.
func (c *Client) readers() []string {
	c.mu.Lock()
	servers := c.members.Read
	c.mu.Unlock()
	return rotated(servers)
}

// rotated returns a copy of list that begins at random.
func rotated[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	at := rand.IntN(len(list))
	return append(append(make([]T, 0, len(list)), list[at:]...), list[:at]...)
}
