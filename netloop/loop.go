package netloop

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// loop is what one event loop works with. Its fields, and the sessions it has, belong to the loop's goroutine, except
// where it says otherwise. A turn is all that happens between two waits for events. The tick at its end commits what
// the turn did, and sends the replies.
type loop struct {
	// Immutable.
	server *Server
	engine *engine.Engine
	log    logger
	// wake makes the loop's goroutine call tick soon. It may be called from any goroutine.
	wake func()

	now      engine.Time // read by begin; zero between turns, and after each round of wrapUp
	clock    moment      // the same, on the clock that waits are timed by
	share    share       // from then on, for what clients send
	began    time.Time   // of the turn
	turns    int64       // that have ended
	draining bool        // the server stops: nothing waits any more
	paceEnds moment      // when the driver is to look which paced connections may be read again; zero: there are none
	ticket   engine.Ticket
	dirty    []*session // have replies, or are to be closed
	cleaned  []*session // the slice that dirty had in the last tick, to use again
	held     []*session // wait for a commit that is under way
	failed   *failure   // of a commit whose held replies a turn had no time for; nil: none
	resuming []*session // stalled, and may go on; see goOn
	news     []*session // out of the mailbox, and not heeded yet
	sessions idleList   // all of them
	deadlines
	alarm alarm

	counters  Counters
	latencies *latencies // nil if nothing is measured
	watchdog  watchdog
	sniff     *sniffer // nil unless an operator listens
	buffers   buffers
	ledger    ledger
	bySize    bySize
	spaces    []space  // that no session uses any more, until the turn ends
	gathered  gathered // by the session being run
	// Scratch, for the time of one request.
	request      memcache.Request
	call         thrift.Request
	utf8Name     []byte           // of a queue
	headItem     []byte           // of a Thrift peek
	burrowAnswer *burrowAnswer    // for requests that are answered at once
	replaced     int              // items that the last put has overwritten
	refs         []engine.ReadRef // of a fetch, confirm or abort of many items
	receipts     []uint64         // of a Thrift get, confirm or abort

	// For any goroutine.
	mailbox mailbox
	awake   atomic.Bool             // a tick will come without a call of wake
	failure atomic.Pointer[failure] // of a commit that the syncer was asked for; see takeFailure

	countersMu   sync.Mutex
	lastCounters Counters // as of the last tick; guarded by countersMu
}

func newLoop(s *Server) *loop {
	l := &loop{server: s, engine: s.opts.Engine, log: s.log, burrowAnswer: new(burrowAnswer)}
	l.ledger.engine, l.ledger.total = l.engine, &s.owed
	l.watchdog = newWatchdog(s)
	l.gathered.puts = make([]engine.PutRequest, 0, maxGathered)
	if !s.opts.NoHistograms {
		l.latencies = newLatencies(l.engine)
	}
	l.alarm.ring = l.ring
	return l
}

// begin starts a turn, unless one has begun. After a wrapUp within a turn it reads the clock anew.
func (l *loop) begin() {
	if l.now == 0 {
		l.began = time.Now()
		l.watchdog.start(l.began)
		l.share = l.newShare()
		l.now = engine.At(l.began)
		l.clock = l.server.clock.at(l.began)
		l.awake.Store(true)
	}
}

// makeDirty notes that s has something for the tick to do.
func (l *loop) makeDirty(s *session) {
	if !s.dirty {
		s.dirty = true
		l.dirty = append(l.dirty, s)
	}
}

// post hands news of s to the loop. Any goroutine may call it.
func (l *loop) post(s *session, n news) {
	l.mailbox.post(s, n)
	l.ring()
}

// ring makes sure that a tick will come. Any goroutine may call it.
func (l *loop) ring() {
	if !l.awake.Load() && l.awake.CompareAndSwap(false, true) {
		l.wake()
	}
}

// cancel ends the wait of s, unless the engine has ended it already or it is one for a job. It reports whether it
// has ended the wait.
func (l *loop) cancel(s *session) bool {
	l.deadlines.remove(s)
	switch v := s.wait.several; {
	case s.wait.kind == waitJob:
		return false
	case v != nil && v.waiting:
		if !l.engine.CancelAny(&v.wait) {
			return false
		}
		v.waiting = false
	case !l.engine.CancelWait(&s.wait.waiter):
		return false
	}
	s.wait.kind = noWait
	s.uncountWait()
	s.releaseReserved(false)
	return true
}

// Counters returns what the loop had counted at its last tick. Any goroutine may call it.
func (l *loop) Counters() Counters {
	l.countersMu.Lock()
	defer l.countersMu.Unlock()
	return l.lastCounters
}

// copyCounters makes what the loop has counted visible to other goroutines.
func (l *loop) copyCounters() {
	l.countersMu.Lock()
	l.lastCounters = l.counters
	l.countersMu.Unlock()
}
