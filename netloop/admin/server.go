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
)

// Server answers operators. Its methods may be called from any goroutine.
type Server struct {
	// Immutable after New.
	opts     Options
	log      *slog.Logger
	started  time.Time
	listener *boundedListener
	http     *http.Server
	commands map[string]command
	names    map[string]bool // that requests may call it by; see isNamed
	costly   chan struct{}   // has room for maxCostly
	windows  *windows
	work     sync.WaitGroup
	ending   context.Context // done once Close has begun: what would keep it waiting ends

	contending sync.Mutex // held while contention is sampled

	// attached is nil while the engine replays.
	attached  atomic.Pointer[netloop.Server]
	published atomic.Pointer[publication] // nil before the first
}

var _ netloop.Publisher = (*Server)(nil)

// New opens the port; Start makes the server answer.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	ln, err := opts.Listen(opts.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for admin: %w", err)
	}
	s := &Server{
		opts: opts, log: opts.Logger, started: time.Now(),
		listener: &boundedListener{Listener: ln, limit: int64(opts.MaxConnections), log: opts.Logger},
		commands: commands(), names: namesOf(opts),
		costly: make(chan struct{}, maxCostly),
	}
	s.windows = newWindows(s.totals)
	s.http = &http.Server{
		Handler:           s,
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

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Start begins to answer.
func (s *Server) Start() {
	s.work.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin port stopped answering", "err", err)
		}
	})
}

// Attach brings in the server that the commands are about, once it has started. From then on the
// process is ready.
func (s *Server) Attach(server *netloop.Server) { s.attached.Store(server) }

// Close ends the server: requests that are being answered get until ctx is done.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.windows.close()
	s.listener.Close() // Start may never have been called
	s.work.Wait()
	return err
}

// publication is a status that the server has published.
type publication struct {
	status netloop.Status
	at     time.Time
}

// Publish implements [netloop.Publisher]: /readyz and /status answer what is published.
func (s *Server) Publish(status netloop.Status) error {
	s.published.Store(&publication{status, time.Now()})
	return nil
}

// errNotReady is returned for what needs the engine, while it replays.
var errNotReady = errors.New("the server is not ready; see /readyz")

// server returns what was attached.
func (s *Server) server() (*netloop.Server, error) {
	if n := s.attached.Load(); n != nil {
		return n, nil
	}
	return nil, errNotReady
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
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if !s.profile(w, r) {
		s.answer(w, r)
	}
}

// limitAnswer gives the client some time, from now on, to take the answer.
func (s *Server) limitAnswer(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.answerTime))
}
