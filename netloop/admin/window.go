package admin

import (
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	maxPeriods     = 8
	maxPeriod      = 86400 // seconds
	maxNamespaces  = 32
	namespaceTime  = time.Hour // after which a namespace that nobody asks for is forgotten
	minPeriodsIdle = 3         // windows after which nobody is waited for any more
	minIdle        = 5 * time.Minute
)

// statistics answers stats: the totals, those of the last window of a period, or those since the
// last request with the same namespace.
func statistics(s *Server, r *http.Request) (any, error) {
	query := r.URL.Query()
	var t *totals
	var err error
	delta := true
	switch {
	case query.Has("period"):
		t, err = s.periodOf(query.Get("period"))
	case query.Has("namespace"):
		t, err = s.windows.sinceLast(namespaceOf(r, query.Get("namespace")))
	default:
		delta = false
		t, err = s.totals()
	}
	if err != nil {
		return nil, err
	}
	var filters []*regexp.Regexp
	if delta && query.Get("filtered") == "1" {
		filters = s.opts.StatsFilters
	}
	return t.seenBy(userOf(r)).object(filters), nil
}

// periodOf returns the last whole window of a period, a number of seconds.
func (s *Server) periodOf(text string) (*totals, error) {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 || seconds > maxPeriod {
		return nil, badRequestf("period %q is not a number of seconds from 1 to %d", text, maxPeriod)
	}
	return s.windows.latched(time.Duration(seconds) * time.Second)
}

// windows keep earlier totals, for requests that ask what has happened since. Nothing is kept that
// nobody asks for.
type windows struct {
	take func() (*totals, error)

	mu sync.Mutex
	// Guarded by mu.
	closed     bool
	periods    map[time.Duration]*period
	namespaces map[string]*namespace
}

// period is a window that is latched whenever the clock comes to a multiple of its length.
type period struct {
	length time.Duration
	last   *totals // as of the end of the window
	window *totals // what the window holds
	asked  time.Time
	timer  *time.Timer
}

// namespace is the last answer to one client.
type namespace struct {
	last  *totals
	asked time.Time
}

func newWindows(take func() (*totals, error)) *windows {
	return &windows{
		take: take, periods: make(map[time.Duration]*period), namespaces: make(map[string]*namespace),
	}
}

// latched returns the last whole window of that length; the first holds the totals so far.
func (w *windows) latched(length time.Duration) (*totals, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.periods[length]; p != nil {
		p.asked = time.Now()
		return p.window, nil
	}
	if len(w.periods) == maxPeriods {
		return nil, badRequestf("%d periods are in use already; ask for one of them, or later", maxPeriods)
	}
	now, err := w.take()
	if err != nil {
		return nil, err
	}
	p := &period{length: length, last: now, window: now, asked: time.Now()}
	if !w.closed {
		w.periods[length] = p
		p.timer = time.AfterFunc(p.left(), func() { w.latch(p) })
	}
	return p.window, nil
}

// left is how long the window that runs now still has.
func (p *period) left() time.Duration {
	now := time.Now()
	return now.Truncate(p.length).Add(p.length).Sub(now)
}

// latch ends a window, and the period if nobody has asked for a while.
func (w *windows) latch(p *period) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if time.Since(p.asked) > max(minPeriodsIdle*p.length, minIdle) {
		delete(w.periods, p.length)
		return
	}
	if now, err := w.take(); err == nil {
		p.window, p.last = now.since(p.last), now
	}
	p.timer.Reset(p.left())
}

// sinceLast returns what happened since the last call with that name; the first call gets the
// totals.
func (w *windows) sinceLast(name string) (*totals, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.take()
	if err != nil {
		return nil, err
	}
	n := w.namespaces[name]
	if n == nil {
		if !w.makeRoom() {
			return nil, badRequestf("namespace %q: all %d are in use; use one of them again, or wait until one was unused for an hour",
				name, maxNamespaces)
		}
		w.namespaces[name] = &namespace{now, time.Now()}
		return now, nil
	}
	delta := now.since(n.last)
	n.last, n.asked = now, time.Now()
	return delta, nil
}

// makeRoom forgets namespaces that nobody asks for, and reports whether there is room for another.
func (w *windows) makeRoom() bool {
	for name, n := range w.namespaces {
		if time.Since(n.asked) > namespaceTime {
			delete(w.namespaces, name)
		}
	}
	return len(w.namespaces) < maxNamespaces
}

// close ends every period.
func (w *windows) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, p := range w.periods {
		p.timer.Stop()
	}
}
