package netloop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// This file has the options of a server.

// Version is what the server calls itself. Clients of the memcache protocol want it to start with a
// number above zero.
const Version = "3.0.0"

// Defaults of Options.
const (
	DefaultMaxOpenReads   = 1
	DefaultMaxConnections = 1 << 20
	DefaultMaxLingering   = 1 << 10
	DefaultMaxLine        = 8 << 10 // bytes
	DefaultMaxPending     = 1 << 20 // bytes
	DefaultBufferLimit    = 1 << 28 // bytes
	DefaultShutdownGrace  = 5 * time.Second
)

// largestRequests is room for the largest request of any protocol, and for what may come behind it: bytes.
const largestRequests = 4 + thrift.DefaultMaxFrame + 2*DefaultMaxPending

// What event loops wait with; DefaultEventLoop is EventLoopGnet.
const (
	EventLoopGnet  = "gnet"  // the reactor of gnet
	EventLoopEpoll = "epoll" // calls of epoll, on Linux
)

// Options configure a [Server]. Zero means the default of a field, where it has one.
type Options struct {
	// Engine holds the queues. The server does not close it.
	Engine *engine.Engine
	// Memcache is the address, host:port, to speak the memcache protocol on; "" turns it off, and
	// port 0 takes a free one.
	Memcache string
	// Listeners are further ports, of any protocol.
	Listeners []Listener
	// Text is the address to speak the text protocol on, in the same form.
	Text string
	// Thrift is the address to speak the Thrift protocol on, in the same form.
	Thrift string
	// Burrow is the address to speak Burrow's HTTP protocol on, in the same form.
	Burrow string
	// Auth is how peers of the first three addresses say who they are.
	Auth Auth
	// TLS encrypts these three addresses; nil does not.
	TLS *tls.Config
	// Access knows the users; nil if there are none.
	Access *access.Checker
	// Listen opens an address for TCP; nil means net.Listen. What it returns accepts *net.TCPConn.
	Listen func(addr string) (net.Listener, error)
	// Accounts are quotas of accounts of Burrow's protocol, by name; see Server.SetAccounts.
	Accounts map[string]AccountQuota
	// Loops is the number of event loops; zero means one for each processor.
	Loops int
	// EventLoop says what event loops wait with: EventLoopGnet or EventLoopEpoll.
	EventLoop string
	// Backlog is the length of the queue of connections not yet accepted; zero leaves it to the
	// operating system.
	Backlog int

	// MaxOpenReads is how many open reads a connection may have on one queue.
	// (max_open_transactions)
	MaxOpenReads int
	// ClientTimeout ends connections that complete no request for this long; zero means never.
	// Time in which the server owes a reply does not count.
	ClientTimeout time.Duration
	// MaxConnections bounds the number of connections, each of which takes a descriptor. The server
	// refuses further connections with an error.
	MaxConnections int
	// MaxLingering bounds the connections that have ended and are kept, each with a descriptor, until
	// their clients have read what they are owed. If there are more, the one that has not read for
	// longest is closed.
	MaxLingering int
	// RefuseReadsOver and RefuseWritesOver are numbers of connections. A connection accepted when there are more,
	// itself included, cannot fetch, or put, for its whole life; zero means never. (connection_limit_refuse_reads,
	// …_refuse_writes)
	RefuseReadsOver  int
	RefuseWritesOver int

	// MaxItemSize is the largest item, in bytes, that is read into memory; zero means the engine's
	// limit. A larger one is read over and refused.
	MaxItemSize int
	// MaxLine is the longest request line in bytes.
	MaxLine int
	// ReplyWithKey has the reply to a GET of the memcache protocol repeat the whole key of the request, options
	// included, and not only the queue. (memcache_reply_key)
	ReplyWithKey bool
	// MaxPending is how many bytes of replies may wait for a client that does not read, before the server stops running
	// its requests. It is also how many bytes of requests the server takes while it does not run them, because the
	// client waits or does not read. More of them cut the client off. An item on its way is allowed on top.
	MaxPending int
	// BufferLimit bounds the bytes that all connections together may hold of requests that are not complete. Zero is
	// half of the engine's memory limit, but at least what one Thrift call takes, and DefaultBufferLimit at most.
	BufferLimit int64

	// StatusFile keeps the status over restarts; "" keeps nothing.
	StatusFile string
	// DefaultStatus is the status at the first start.
	DefaultStatus Status
	// StatusGrace is how long after a change to a stricter status it is enforced.
	// (status_change_grace_period)
	StatusGrace time.Duration

	// Publishers get every status, the first one at Start.
	Publishers []Publisher

	// NoHistograms turns the measuring of latencies off.
	NoHistograms bool

	// Reload applies the configuration anew, for the command RELOAD; nil makes it do nothing.
	Reload func() error
	// RequestShutdown is called when a client asks the server to stop; it returns at once.
	RequestShutdown func()
	// ShutdownGrace is how long Shutdown lets requests that have begun to arrive come to an end.
	ShutdownGrace time.Duration
	// TraceSessions logs the beginning and end of every connection, until SetTraceSessions says
	// otherwise. (enable_session_trace)
	TraceSessions bool
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
}

type logger = *slog.Logger

func (o Options) withDefaults() Options {
	setDefault(&o.MaxOpenReads, DefaultMaxOpenReads)
	setDefault(&o.MaxConnections, DefaultMaxConnections)
	setDefault(&o.MaxLingering, DefaultMaxLingering)
	setDefault(&o.MaxItemSize, engine.MaxItemSize)
	setDefault(&o.MaxLine, DefaultMaxLine)
	setDefault(&o.MaxPending, DefaultMaxPending)
	setDefault(&o.BufferLimit, min(DefaultBufferLimit, max(o.Engine.MemoryLimit()/2, largestRequests)))
	setDefault(&o.ShutdownGrace, DefaultShutdownGrace)
	setDefault(&o.EventLoop, DefaultEventLoop)
	if o.Listen == nil {
		o.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Descriptors returns how many descriptors a server with these options has open beside those that MaxConnections and
// MaxLingering allow. There are three for each loop, or two with epoll, and two for what waits for slow readers. Each
// port has two, one of them for a connection that is refused or changes hands.
func (o Options) Descriptors() int {
	setDefault(&o.EventLoop, DefaultEventLoop)
	n := 2 * (o.loops() + 1)
	if o.EventLoop == EventLoopGnet {
		n += o.loops()
	}
	for _, l := range o.all() {
		if n += 2; l.TLS != nil {
			n += handshakeSlots() // connections that change hands
		}
	}
	return n
}

// loops is how many event loops there are.
func (o Options) loops() int {
	if o.Loops == 0 {
		return runtime.NumCPU()
	}
	return o.Loops
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Validate reports every problem of o.
func (o Options) Validate() error {
	var errs []error
	if o.Engine == nil {
		errs = append(errs, errors.New("no engine"))
	}
	if o.EventLoop != "" && !slices.Contains(EventLoops(), o.EventLoop) {
		errs = append(errs, fmt.Errorf("event_loop is %q, which this system does not have; it has %q", o.EventLoop, EventLoops()))
	}
	if _, ok := o.Accounts[engine.DefaultAccount]; ok {
		errs = append(errs, errors.New("account default has the plain queues, which other protocols reach as well: it takes no quota"))
	}
	for i := range o.Listeners {
		l := &o.Listeners[i]
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("listener %d: %w", i+1, err))
		}
		if l.Auth.Asks() && o.Access == nil {
			errs = append(errs, fmt.Errorf("listener %d asks for users, and there are none: add users, or set its auth to none", i+1))
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"loops", int64(o.Loops)},
		{"connection_backlog", int64(o.Backlog)},
		{"max_open_transactions", int64(o.MaxOpenReads)},
		{"client_timeout", int64(o.ClientTimeout)},
		{"max_connections", int64(o.MaxConnections)},
		{"maximum of lingering connections", int64(o.MaxLingering)},
		{"connection_limit_refuse_reads", int64(o.RefuseReadsOver)},
		{"connection_limit_refuse_writes", int64(o.RefuseWritesOver)},
		{"maximum item size", int64(o.MaxItemSize)},
		{"maximum line", int64(o.MaxLine)},
		{"maximum pending", int64(o.MaxPending)},
		{"buffer limit", o.BufferLimit},
		{"status_change_grace_period", int64(o.StatusGrace)},
		{"shutdown grace", int64(o.ShutdownGrace)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}
