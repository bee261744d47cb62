package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// Server answers operators. Its methods may be called from any goroutine.
type Server struct {
	// Immutable after New.
	opts     Options
	log      *slog.Logger
	started  time.Time
	ports    []*boundedListener
	room     room
	http     *http.Server
	commands map[string]command
	names    map[string]bool // that requests may call it by; see isNamed
	costly   chan struct{}   // has room for maxCostly
	unread   unread          // answers of these commands that clients have still to read
	windows  *windows
	work     sync.WaitGroup
	ending   context.Context // done once Close has begun: what would keep it waiting ends

	failedAt   atomic.Int64 // when a failure to authenticate was logged last: Unix time in ns
	refusedAt  atomic.Int64 // likewise, a command that was refused
	contending sync.Mutex   // held while contention is sampled

	watching sync.Mutex
	watched  map[*watchedRequest]struct{} // of users; guarded by watching

	// attached is nil while the engine replays.
	attached  atomic.Pointer[netloop.Server]
	published atomic.Pointer[publication] // nil before the first
}

var _ netloop.Publisher = (*Server)(nil)

// New opens the port; Start makes the server answer.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	s := &Server{
		opts: opts, log: opts.Logger, started: time.Now(),
		commands: commands(), names: namesOf(opts),
		costly: make(chan struct{}, maxCostly), watched: make(map[*watchedRequest]struct{}),
	}
	s.room.limit = int64(opts.MaxConnections)
	for _, l := range opts.all() {
		port, err := ports.Open(l.Port, opts.Listen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen for admin: %w", err), s.closePorts())
		}
		s.ports = append(s.ports, &boundedListener{Port: port, room: &s.room, auth: l.Auth, tls: l.TLS, log: opts.Logger})
	}
	s.windows = newWindows(s.totals)
	s.unread.limit = s.unreadLimit
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       withPeer,
		ReadHeaderTimeout: opts.requestTime,
		ReadTimeout:       opts.requestTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelWarn),
	}
	ending, end := context.WithCancel(context.Background())
	s.ending = ending
	s.http.RegisterOnShutdown(end)
	return s, nil
}

// Addr returns the first address that the server listens on.
func (s *Server) Addr() net.Addr { return s.ports[0].Addr() }

// Ports returns the ports that the server listens on.
func (s *Server) Ports() []netloop.OpenPort {
	var list []netloop.OpenPort
	for _, p := range s.ports {
		list = append(list, netloop.OpenPort{
			Protocol: "admin", Name: p.Name(), Others: p.IsOpenToOthers(), Auth: p.auth, TLS: p.tls != nil, Counts: p.Counts(),
		})
	}
	return list
}

// Readmit changes which peers the ports admit, for new connections. It matches ports by address.
func (s *Server) Readmit(list []netloop.Listener) {
	for _, p := range s.ports {
		for _, l := range list {
			if l.Port.Address == p.Spec().Address {
				p.Admit(l.Port.AllowFrom, l.Port.MaxConnections)
			}
		}
	}
}

func (s *Server) closePorts() (err error) {
	for _, p := range s.ports {
		err = errors.Join(err, p.Close())
	}
	return err
}

// Start begins to answer.
func (s *Server) Start() {
	for _, p := range s.ports {
		s.work.Go(func() {
			if err := s.http.Serve(p.secured()); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("admin port stopped answering", "err", err)
			}
		})
	}
}

// Close ends the server: requests that are being answered get until ctx is done.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.windows.close()
	s.closePorts() // Start may never have been called
	s.work.Wait()
	return err
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close")
		http.Error(w, "request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	c := peerOf(r).conn
	defer c.enter(c.enter(works))
	r.Body = body{http.MaxBytesReader(w, r.Body, maxBody), c}
	s.limitAnswer(w)
	if r = s.identify(w, r); r != nil && !s.profile(w, r) {
		s.answer(w, r)
	}
}
