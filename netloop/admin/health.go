package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

// probeTime is how long every event loop has to come round.
const probeTime = 2 * time.Second

// health answers whether the process does its work, or nothing but a restart will help it. A server that
// replays, drains, is told not to serve, or waits for room on the disk, is healthy.
func health(s *Server, r *http.Request) (any, error) {
	server := s.attached.Load()
	if server == nil {
		return verdict{good: true, word: "ok", details: object{{"phase", s.phase()}}}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTime)
	defer cancel()
	e := server.Engine().Health()
	var details object
	good := true
	if server.Status() != netloop.Down { // else the loops are about to end
		if err := server.Probe(ctx); err != nil {
			good = false
			details = append(details, member{"loops", err.Error()})
		}
	}
	if e.DiskFull {
		details = append(details, member{"disk", "full: puts are refused until there is room"})
	}
	if err := e.JournalError; err != nil && !errors.Is(err, engine.ErrOutOfDisk) {
		good = false
		details = append(details, member{"journal", "fails: puts are refused: " + err.Error()})
	}
	if !good {
		return verdict{word: "not healthy", details: details}, nil
	}
	return verdict{good: true, word: "ok", details: details}, nil
}

// phase is what the process does before it serves, or after.
func (s *Server) phase() string {
	switch p := s.published.Load(); {
	case p != nil && p.status == netloop.Down:
		return "stopping"
	case s.attached.Load() != nil:
		return "serving"
	}
	return "replaying"
}

// readiness answers whether clients should come: the queues are back, the ports are open, and the status
// that was published lets clients do something.
func readiness(s *Server, _ *http.Request) (any, error) {
	details := object{{"phase", s.phase()}}
	published := s.published.Load()
	if s.attached.Load() == nil || published == nil {
		return verdict{word: "not ready", details: append(details, s.progress()...)}, nil
	}
	details = append(details, member{"status", published.status.String()})
	if published.status.BlocksReads() {
		return verdict{word: "not ready", details: details}, nil
	}
	return verdict{good: true, word: "ready", details: details}, nil
}

// progress tells how far the replay has come.
func (s *Server) progress() object {
	if s.opts.Progress == nil {
		return nil
	}
	read, total := s.opts.Progress.Bytes()
	percent := 0.0
	if total > 0 {
		percent = float64(read) / float64(total) * 100
	}
	return object{
		{"journal_bytes_read", read},
		{"journal_bytes", total},
		{"percent", fmt.Sprintf("%.1f", percent)},
	}
}
