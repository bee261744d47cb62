package admin

import (
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/netloop"
)

// publication is a status that the server has published.
type publication struct {
	status netloop.Status
	at     time.Time
}

// Attach brings in the server that the commands are about, once it has started. From then on the
// process is ready.
func (s *Server) Attach(server *netloop.Server) { s.attached.Store(server) }

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

// account returns what counts memory for the memory limit. Before there is a server, nothing does.
func (s *Server) account() func(int64) {
	if server := s.attached.Load(); server != nil {
		return server.Engine().Account
	}
	return func(int64) {}
}

// unreadLimit is how many bytes answers may take while clients read them.
func (s *Server) unreadLimit() int64 {
	if server := s.attached.Load(); server != nil {
		return server.Engine().MemoryLimit() / unreadShare
	}
	return 0
}
