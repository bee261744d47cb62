package netloop

import (
	"sync/atomic"
	"time"
)

// This file has the watchdog, which measures the turns of a loop and names what took long.

const (
	// longTurn is how long a turn takes at least to be counted and logged.
	longTurn = 5 * time.Millisecond
	// longPart is how long a part of a turn takes at least to be named.
	longPart = time.Millisecond
	// turnLogInterval is how long the server logs no other long turn.
	turnLogInterval = time.Second
	// maxNoted bounds how many bytes of a queue's name the watchdog keeps.
	maxNoted = 64
)

// watchdog measures the turns of one loop, and names the part of a turn that took longest. Parts are the requests of
// one session, the commit, the replies, news from other goroutines, a deadline, a task, and the end of a session. A few
// replies count with the commit. Its owner is the loop.
//
// It reads the clock once for each part, and asks the kernel only now and then, and after a long turn. A loop that had
// to wait for a processor has not worked, and the log says which it was.
type watchdog struct {
	elapsed func(time.Time) time.Duration
	delay   func(thread int) threadDelay
	log     logger
	logged  *atomic.Int64 // when the server logged a long turn last: Unix time in ns
	running bool
	began   time.Time     // of the turn
	at      time.Duration // from began to the end of the part measured last

	doing   string // request being run; empty: none
	queue   []byte // its queue; aliases the request
	longest part   // of this turn
	sampled threadDelay
	since   time.Time // when the turn of sampled began

	unlogged int64 // long turns since the last that this loop logged
}

// part is a part of a turn.
type part struct {
	took    time.Duration
	what    string
	session *session // whose part it is; nil: nobody's
	queue   [maxNoted]byte
	named   int // bytes of queue in use
}

// name says what the part that took longest was.
func (p *part) name() string {
	if p.took == 0 {
		return "many short parts"
	}
	return p.what
}

// newWatchdog returns a watchdog for a loop of s.
func newWatchdog(s *Server) watchdog {
	return watchdog{elapsed: time.Since, delay: readThreadDelay, log: s.log, logged: &s.turnLogged}
}

// start begins a turn, unless one has begun.
func (w *watchdog) start(began time.Time) {
	if !w.running {
		w.running, w.began, w.at = true, began, 0
	}
}

// request notes which request is being run, and on which queue, if on any. The queue's name must not
// change until the part has ended.
func (w *watchdog) request(what string, queue []byte) { w.doing, w.queue = what, queue }

// end ends a part of the turn, that of session s, or of nobody if s is nil. A session's part is named after the request
// that it ran last. If it ran none, or is nobody's, it is named what.
func (w *watchdog) end(what string, s *session) {
	at := w.elapsed(w.began)
	if took := at - w.at; took >= longPart && took > w.longest.took {
		w.note(took, what, s)
	}
	w.at, w.doing, w.queue = at, "", nil
}

// time is when the part measured last ended.
func (w *watchdog) time() time.Time { return w.began.Add(w.at) }

// inPart is how long the part at hand has taken so far.
func (w *watchdog) inPart() time.Duration { return w.elapsed(w.began) - w.at }

// note keeps a part that took longer than those before.
func (w *watchdog) note(took time.Duration, what string, s *session) {
	p := &w.longest
	p.took, p.what, p.session, p.named = took, what, s, 0
	if s != nil && w.doing != "" {
		p.what = w.doing
		p.named = copy(p.queue[:], w.queue)
	}
}

// finish ends the turn. It counts a long one, and returns whether it was one.
func (w *watchdog) finish(c *Counters) (long bool) {
	if !w.running {
		return false
	}
	w.running = false
	took := w.at
	if took < longTurn {
		if w.began.Sub(w.since) >= delayInterval {
			w.sampled, w.since = w.delay(ownThread), w.began
		}
		if w.longest.took > 0 {
			w.longest = part{}
		}
		return false
	}
	delay := w.delay(ownThread)
	before := delay
	if w.sampled.known && w.sampled.thread != delay.thread { // Go moves a loop whose thread has waited for long
		before = w.delay(w.sampled.thread)
	}
	waited := min(before.since(w.sampled), took)
	w.sampled, w.since = delay, w.began
	c.LongTurns++
	if us := took.Microseconds(); us > c.LongestTurn {
		c.LongestTurn, c.LongestTurnPart = us, w.longest.name()
	}
	c.LongestTurnWork = max(c.LongestTurnWork, (took - waited).Microseconds())
	w.report(took, waited, w.time())
	w.longest = part{}
	return true
}

// report logs a long turn, unless the server has logged one a moment ago.
func (w *watchdog) report(took, waited time.Duration, now time.Time) {
	w.unlogged++
	last := w.logged.Load()
	if now.UnixNano()-last < int64(turnLogInterval) || !w.logged.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	p := &w.longest
	attrs := []any{"ms", milliseconds(took), "without_processor_ms", milliseconds(waited)}
	attrs = append(attrs, "part", p.name())
	if p.took > 0 {
		attrs = append(attrs, "part_ms", milliseconds(p.took))
	}
	if p.named > 0 {
		attrs = append(attrs, "queue", string(p.queue[:p.named]))
	}
	if p.session != nil {
		attrs = append(attrs, "peer", p.session.sink.peer())
	}
	if w.unlogged > 1 {
		attrs = append(attrs, "long_turns", w.unlogged)
	}
	w.unlogged = 0
	if waited > took/2 {
		w.log.Warn("event loop waited for a processor", attrs...)
		return
	}
	w.log.Warn("event loop was busy for long", attrs...)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
