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

// health answers whether the process does its work, or needs a restart. A server that replays, drains,
// has a status that refuses requests, or waits for its disk, is healthy.
func health(s *Server, r *http.Request) (any, error) {
	server := s.attached.Load()
	if server == nil {
		return verdict{good: true, word: "ok", details: object{{"phase", s.phase()}}}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTime)
	defer cancel()
	var loops error
	if server.Status() != netloop.Down { // else they are about to end
		loops = server.Probe(ctx)
	}
	return judge(server.Engine().Health(), loops), nil
}

// judge is the verdict on an engine, and on event loops that have come round or not. A journal that
// fails is no reason to restart: what is live is in memory, and is written to another journal from
// there.
func judge(h engine.Health, loops error) verdict {
	v := verdict{good: true, word: "ok"}
	if loops != nil {
		v.good, v.word = false, "not healthy"
		v.details = append(v.details, member{"loops", loops.Error()})
	}
	if h.DiskFull {
		v.details = append(v.details, member{"disk", "full: puts are refused until there is room"})
	}
	if err := h.JournalError; err != nil && !errors.Is(err, engine.ErrOutOfDisk) {
		v.details = append(v.details, member{"journal", "fails: puts are refused: " + err.Error()})
	}
	return v
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

// readiness answers whether clients should come: the queues are back, the ports are open, and the
// status that was published lets clients do something.
func readiness(s *Server, _ *http.Request) (any, error) {
	details := object{{"phase", s.phase()}}
	published := s.published.Load()
	if s.attached.Load() == nil || published == nil {
		return verdict{word: "not ready", details: append(details, s.progress()...)}, nil
	}
	details = append(details, member{"status", published.status.String()})
	details = append(details, s.discovery()...)
	if published.status.BlocksReads() {
		return verdict{word: "not ready", details: details}, nil
	}
	return verdict{good: true, word: "ready", details: details}, nil
}

// discovery says where the server is announced. A membership service that is away is no reason for
// clients not to come.
func (s *Server) discovery() object {
	if s.opts.Discovery == nil {
		return nil
	}
	d := s.opts.Discovery()
	sets := "none"
	switch {
	case d.Read && d.Write:
		sets = "read and write"
	case d.Read:
		sets = "read"
	case d.Write:
		sets = "write"
	}
	details := object{{"announced", sets}}
	if d.Err != nil {
		details = append(details, member{"discovery", "fails: " + d.Err.Error()})
	}
	return details
}

// progress reports how far the replay has come.
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
