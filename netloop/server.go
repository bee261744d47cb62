package netloop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Server speaks the protocols of an engine's clients on event loops. Its methods may be called from
// any goroutine.
type Server struct {
	// Immutable after New.
	opts      Options
	log       logger
	started   time.Time
	clock     clock
	status    *serverStatus
	syncer    *syncer
	writer    *syncer // waits for writes that take long, and for no sync
	inline    inlineSync
	bodies    bodies
	drainer   *drainer
	loops     []*driver
	listeners []*listener

	handshakes handshakes
	accounts   accountQuotas
	usages     usages

	connections atomic.Int64 // open
	refused     atomic.Int64 // over the limit
	refusals    refusalCounts
	logPaces    refusalPaces
	overQuota   atomic.Int64  // requests that Admit has refused
	denied      atomic.Int64  // requests that CountDenied has counted
	admitted    atomic.Int64  // ever
	numbered    atomic.Uint64 // number of the newest connection
	sniffing    sync.Mutex    // held while an operator listens
	tracing     atomic.Bool   // the beginning and end of connections are logged
	buffered    atomic.Int64  // bytes of input kept by all sessions
	promised    atomic.Int64  // of buffered: what sessions of other loops are about to give up
	givenUp     atomic.Int64  // bytes of input that sessions have given up, and the engine still counts
	owed        atomic.Int64  // bytes of replies that have not left, as far as loops have reported
	turnLogged  atomic.Int64  // when a long turn was logged last: Unix time in ns

	stopOnce sync.Once
	stopping chan struct{}   // closed when Shutdown begins
	ending   context.Context // done then
	end      context.CancelFunc
	stopped  chan struct{} // closed when the loops have ended
	accepts  sync.WaitGroup
	running  sync.WaitGroup // loops
	serving  bool           // Start was called
	workers  sync.WaitGroup
	jobs     sync.WaitGroup
	// droppedLater counts what jobs have brought back of the reads of sessions that have ended.
	droppedLater atomic.Int64
	cutOff       atomic.Bool // requests have had their time: jobs that take long are given up
	clearing     sync.Mutex  // held for a piece of a flush
}

// New makes a server and opens its ports; Start makes it answer. It returns an error if opts are
// not valid or a port cannot be opened.
func New(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("netloop: bad options: %w", err)
	}
	opts = opts.withDefaults()
	clock := newClock()
	s := &Server{
		opts: opts, log: opts.Logger, started: time.Now(), clock: clock,
		inline:   inlineSync{allowed: runtime.NumCPU() == 1, slow: slowSync},
		status:   newServerStatus(opts),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.accounts.set(opts.Accounts)
	s.handshakes.slots = make(chan struct{}, handshakeSlots())
	s.ending, s.end = context.WithCancel(context.Background())
	s.tracing.Store(opts.TraceSessions)
	s.bodies = bodies{account: opts.Engine.Account, users: map[*byte]int{}}
	s.syncer = newSyncer(opts.Engine, s.inline.took)
	s.writer = newSyncer(opts.Engine, func(time.Duration) {})
	s.opts.Loops = opts.loops()
	for range s.opts.Loops {
		d := &driver{loop: newLoop(s), poller: s.opts.newPoller(), buf: make([]byte, readSize)}
		d.wake = d.poller.ring
		d.opened = func() bool { return d.watchdog.inPart() >= maxShare/2 }
		s.loops = append(s.loops, d)
	}
	var err error
	if s.drainer, err = newDrainer(opts.Engine.Account, s.bodies.drop, opts.MaxLingering); err != nil {
		return nil, fmt.Errorf("netloop: %w", err)
	}
	if err := s.listen(); err != nil {
		s.drainer.close()
		return nil, errors.Join(err, s.closeListeners())
	}
	return s, nil
}

// SetAccounts replaces the quotas of accounts. They hold from the next request on.
func (s *Server) SetAccounts(quotas map[string]AccountQuota) { s.accounts.set(quotas) }

// background is how many processors, in the sense of GOMAXPROCS, there are beside those of the loops.
const background = 4

// Start begins to take in connections.
func (s *Server) Start() error {
	// Loops keep theirs while they wait briefly. Background work mostly waits for a disk, and needs some too: a queue
	// that spills keeps three waiting. With one left idle, the runtime lets those that wait keep theirs, and does not
	// look every 20 µs whether they still do.
	if want := s.opts.Loops + background; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
	for _, d := range s.loops {
		if err := d.poller.start(); err != nil {
			s.closePollers()
			return fmt.Errorf("netloop: %w", err)
		}
	}
	s.serving = true
	s.inline.doubts.Store(quickSyncs) // nobody knows the disk yet
	for _, d := range s.loops {
		s.running.Go(d.run)
	}
	s.workers.Go(func() { s.syncer.run(s.stopped) })
	s.workers.Go(func() { s.writer.run(s.stopped) })
	s.workers.Go(s.drainer.run)
	s.status.publishFirst()
	for _, ln := range s.listeners {
		s.accepts.Go(func() { s.accept(ln) })
	}
	return nil
}

// Counters returns what clients have done, summed over the loops.
func (s *Server) Counters() Counters {
	var sum Counters
	for _, d := range s.loops {
		c := d.Counters()
		sum.add(&c)
	}
	sum.ReadsDropped += s.droppedLater.Load()
	sum.OverQuota.Operations += s.overQuota.Load()
	sum.Denied += s.denied.Load()
	return sum
}

// CountDenied counts a request that was refused because its user has no right to it, and did not come over a connection
// of the server's.
func (s *Server) CountDenied() { s.denied.Add(1) }

// SetTraceSessions begins or ends logging the beginning and end of every connection. Any goroutine may
// call it.
func (s *Server) SetTraceSessions(on bool) { s.tracing.Store(on) }

// MaxConnections returns how many connections there may be.
func (s *Server) MaxConnections() int { return s.opts.MaxConnections }

// Connections returns the number of open connections.
func (s *Server) Connections() int64 { return s.connections.Load() }

// Status returns the status that was asked for last.
func (s *Server) Status() Status { return s.status.Requested() }

// EnforcedStatus returns the status that clients are held to: the one asked for last, or while a
// grace period runs the one before.
func (s *Server) EnforcedStatus() Status { return s.status.Enforced() }

// SetStatus changes what clients may do; see [Status]. A change to a stricter status takes effect
// after Options.StatusGrace, and is dropped without an error while an earlier one is pending.
// SetStatus waits for the disk. It returns ErrForbiddenStatus for Down, and for any status when the
// server stops.
func (s *Server) SetStatus(to Status) error { return s.status.set(to) }

// Shutdown stops the server. It accepts no more connections, and ends every wait with nothing. It lets requests that
// have begun to arrive come to an end, closes the connections, and gives their open reads back. Requests, and clients
// that read replies, have Options.ShutdownGrace, or until ctx is done if that is sooner. The server logs and counts
// replies that it cuts off then. When Shutdown returns, nothing of the server runs any more, and every reply that was
// sent is as good as its queue's SyncPolicy makes it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() {
		close(s.stopping)
		s.end()
		s.closeListeners()
		s.accepts.Wait()
		s.handshakes.ended.Wait()
		s.status.goDown()
		cutBefore, bytesBefore := s.drainer.undelivered()
		if s.serving {
			s.drain(ctx)
			s.cutOff.Store(true)
			for _, d := range s.loops {
				d.do(d.stop)
			}
			s.running.Wait()
		}
		s.jobs.Wait()
		close(s.stopped)
		if s.serving {
			s.drainer.stop()
		} else {
			s.drainer.close()
		}
		s.workers.Wait()
		if n, bytes := s.drainer.undelivered(); n > cutBefore {
			s.log.Warn("replies cut off at shutdown: their clients did not read them in time",
				"connections", n-cutBefore, "bytes", bytes-bytesBefore)
		}
		for _, d := range s.loops {
			d.alarm.stop()
		}
		s.closePollers()
	})
	<-s.stopped
	return nil
}

func (s *Server) closePollers() {
	for _, d := range s.loops {
		d.poller.close()
	}
}

// drain asks the loops to end their sessions. It waits until they have, and until their clients have read what they are
// owed, or until the time is over.
func (s *Server) drain(ctx context.Context) {
	for _, d := range s.loops {
		d.do(d.drain)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.ShutdownGrace)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.connections.Load() > 0 || s.drainer.count() > 0 {
		select {
		case <-ctx.Done():
			if n := s.connections.Load(); n > 0 {
				s.log.Warn("connections cut off at shutdown", "count", n)
			}
			return
		case <-tick.C:
		}
	}
}
