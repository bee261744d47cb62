package admin

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// Build says what is running.
type Build struct {
	Name     string
	Version  string
	Go       string // version of the toolchain
	Revision string // of the source
}

// Discovery says in which sets of a membership service the server is announced.
type Discovery struct {
	Read, Write bool  // as far as the service has confirmed it
	Err         error // why the service cannot be used; nil if it can
}

// Options configure a [Server]. A function that is nil makes its command answer an error.
type Options struct {
	// Address is host:port; port 0 takes a free one. "" leaves it to Listeners.
	Address string
	// Auth is how clients of that address say who they are.
	Auth netloop.Auth
	// TLS encrypts that address; nil does not.
	TLS *tls.Config
	// Listeners are further ports to listen on; their protocol is not looked at.
	Listeners []netloop.Listener
	// Access knows the users; nil if there are none.
	Access *access.Checker
	// Listen opens an address for TCP; nil means net.Listen.
	Listen func(addr string) (net.Listener, error)
	Build  Build
	// MaxConnections bounds the number of connections, each of which takes a descriptor. Further ones get
	// an error and are closed. Zero means DefaultMaxConnections.
	MaxConnections int
	// Progress is that of the Open of the engine that Attach will bring; nil reports none.
	Progress *engine.Progress
	// Reload reads the configuration again and applies it.
	Reload func() error
	// RequestShutdown makes the process stop; it returns at once.
	RequestShutdown func()
	// Discovery says where the server is announced to clients; nil if that is not configured.
	Discovery func() Discovery
	// LogLevel is the level of the process's log, which the command logging changes.
	LogLevel *slog.LevelVar
	// StatsFilters match the names that stats?filtered=1 leaves out. (admin_stats_filters)
	StatsFilters []*regexp.Regexp
	// Hosts are further names that requests may call the server by, as those of DNS or of a reverse
	// proxy. (admin_hosts)
	Hosts []string
	// GetControls lets a GET change what otherwise only a POST may. (admin_get_controls)
	GetControls bool
	// Profiling turns /debug/pprof/ and /pprof/ on. (pprof)
	Profiling bool
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger

	// requestTime bounds how long a client takes to send a request; zero means its default.
	requestTime time.Duration
	// answerTime bounds how long a client takes to read an answer; zero means its default.
	answerTime time.Duration
}

// all returns the ports to listen on.
func (o *Options) all() []netloop.Listener {
	if o.Address == "" {
		return o.Listeners
	}
	return append([]netloop.Listener{{Port: ports.Spec{Address: o.Address}, Auth: o.Auth, TLS: o.TLS}}, o.Listeners...)
}

func (o Options) withDefaults() Options {
	if o.Listen == nil {
		o.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	if o.requestTime == 0 {
		o.requestTime = defaultRequestTime
	}
	if o.answerTime == 0 {
		o.answerTime = defaultAnswerTime
	}
	if o.LogLevel == nil {
		o.LogLevel = new(slog.LevelVar)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// errNotOffered is the error of a command whose function in Options is nil.
var errNotOffered = errors.New("not offered by this process")
