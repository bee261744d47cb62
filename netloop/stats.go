package netloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// Stats is a server, and the engine that it serves, at one moment. Nothing in it is shared.
type Stats struct {
	At      engine.Time
	Started time.Time
	Engine  engine.Stats
	Queues  []engine.QueueStats // sorted by name
	Aliases []engine.AliasStats // likewise
	// Withheld are the queues that are not served; Queues has the others.
	Withheld []engine.WithheldQueue

	Counters    Counters
	Refusals    Refusals
	Connections int64 // open
	Lingering   int64 // connections that have ended and whose clients have not read everything
	// MaxConnections and MaxLingering bound the two.
	MaxConnections, MaxLingering int64
	Files                        engine.Files
	Refused                      int64 // connections over the limit, since the start
	Handshakes, HandshakesFailed int64 // of TLS
	RepliesCut                   int64 // connections that ended before their clients had read everything
	Items                        int64 // queued, in all queues
	Bytes                        int64 // their size
	OpenReads                    int64
	Waiters                      int64
	// ReservedMemory is how much memory the queues may take by their options, as a ratio of the
	// engine's limit.
	ReservedMemory float64

	Requested, Enforced Status
}

// Stats describes the server. It locks each shard of the engine for as long as one queue takes.
func (s *Server) Stats() Stats {
	e, now := s.opts.Engine, engine.Now()
	st := s.summary(now)
	st.Queues = e.Queues(now)
	for i := range st.Queues {
		st.add(&st.Queues[i])
	}
	return st
}

// summary is Stats without the queues and the sums over them.
func (s *Server) summary(now engine.Time) Stats {
	e := s.opts.Engine
	cut, _ := s.drainer.undelivered()
	return Stats{
		At: now, Started: s.started, Engine: e.Stats(), Aliases: e.Aliases(), Withheld: e.Withheld(),
		Counters: s.Counters(), Refusals: s.Refusals(), Connections: s.connections.Load(), Refused: s.refused.Load(),
		Handshakes: s.handshakes.passed.Load(), HandshakesFailed: s.handshakes.failed.refused.Load(),
		Lingering: s.drainer.count(), RepliesCut: cut, Files: e.Files(),
		MaxConnections: int64(s.opts.MaxConnections), MaxLingering: int64(s.opts.MaxLingering),
		Requested: s.status.Requested(), Enforced: s.status.Enforced(),
	}
}

// add adds q to the sums over all queues.
func (st *Stats) add(q *engine.QueueStats) {
	st.Items += q.Items
	st.Bytes += q.Bytes
	st.OpenReads += q.OpenReads
	st.Waiters += q.Waiters
	st.ReservedMemory += float64(q.Options.MaxMemorySize) / float64(st.Engine.MemoryLimit)
}

// Engine returns the engine that the server serves.
func (s *Server) Engine() *engine.Engine { return s.opts.Engine }

// Probe returns nil when every event loop has come round once, or the error of ctx if that is done
// first.
func (s *Server) Probe(ctx context.Context) error {
	seen := make(chan struct{}, len(s.loops))
	for _, d := range s.loops {
		d.do(func() { seen <- struct{}{} })
	}
	for range s.loops {
		select {
		case <-seen:
		case <-s.stopped:
			return errors.New("event loop has ended")
		case <-ctx.Done():
			return fmt.Errorf("event loop does not answer: %w", ctx.Err())
		}
	}
	return nil
}
