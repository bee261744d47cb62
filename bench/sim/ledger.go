package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// ledger knows every item: what was promised of it, and what came of that.
type ledger struct {
	mu sync.Mutex
	// Guarded by mu.
	now       func() time.Time
	items     []*item // by number
	queues    map[string][]*entry
	live      map[string]int64                 // bytes in each queue, about
	taking    map[string]int                   // items that plain gets under way may take
	fetching  map[string]int                   // requests under way that may hold items
	fetched   map[string]time.Time             // when the last of them began, or was abandoned
	turns     map[string]int                   // how many of them there were
	blurred   map[string]time.Time             // until when items may be held of which nobody knows
	asides    map[string]time.Time             // until when they may be leased
	leasing   map[string]int                   // requests under way for a lease
	unheard   map[string]int64                 // how many deliveries nobody has heard of, at most
	first     map[string]int                   // in queues: from where on not all is gone
	leases    []*lease                         // that were given, the oldest first
	faulty    func() bool                      // the disk of this process has failed
	allowed   map[string]int                   // items that such gets may have taken when nobody was there any more
	set       engine.Settings                  // that hold
	toggling  bool                             // a reload is under way, or failed
	traced    func(format string, args ...any) // takes what happened to items; nil if nobody wants to know
	clearings []*clearing                      // of this process
	began     time.Time                        // when it began
	frozen    bool                             // the process is dead: what is said now was never heard
	stopping  bool                             // the server gives open reads back by itself
	children  bool                             // those of fan exist
	stepped   bool                             // the server's clock is set: nobody knows when what expires
	problems  []problem
	delivered int
	bytes     atomic.Int64 // of all items ever given to a put, for each queue; for any goroutine
	largest   atomic.Int64 // bytes of the largest of them; for any goroutine
	acked     int
}

// problem is a broken law.
type problem struct {
	Law  string
	Text string
}

func (p problem) String() string { return p.Law + ": " + p.Text }

func newLedger(set engine.Settings) *ledger {
	return &ledger{
		now: time.Now, queues: map[string][]*entry{}, live: map[string]int64{}, taking: map[string]int{},
		fetching: map[string]int{}, fetched: map[string]time.Time{}, allowed: map[string]int{}, set: set,
		turns: map[string]int{}, blurred: map[string]time.Time{}, unheard: map[string]int64{}, first: map[string]int{},
		asides: map[string]time.Time{}, leasing: map[string]int{},
		faulty: func() bool { return false },
	}
}

// violate notes that a law is broken. The caller holds mu.
func (l *ledger) violate(law, format string, args ...any) {
	if !l.frozen && len(l.problems) < 10 {
		l.problems = append(l.problems, problem{law, fmt.Sprintf(format, args...)})
	}
}

// doubt notes that a law is broken unless the server has ended the connection of a caller. That caller will learn of it
// by the reply that it waits for. One that has asked for nothing for about the idleTimeout learns nothing. The caller
// holds mu.
func (l *ledger) doubt(c *asker, law, format string, args ...any) {
	if !c.asking && !c.rests.IsZero() && l.now().Sub(c.rests) > idleTimeout-time.Second {
		return
	}
	if !c.asking {
		l.violate(law, format, args...)
		return
	}
	c.doubts = append(c.doubts, problem{law, fmt.Sprintf(format, args...)})
}

// asks notes that a caller begins to do something, and what is to be called when that has ended. The call says with
// what its connection is over, if it is.
func (l *ledger) asks(c *asker) (ended func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.asking = true
	return func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range c.doubts {
			if err != errBroken {
				l.violate(p.Law, "%s", p.Text)
			}
		}
		c.asking, c.doubts, c.rests = false, nil, l.now()
	}
}

func (l *ledger) report(law, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate(law, format, args...)
}

// epoch is when fake time begins.
var epoch = time.Date(2009, 11, 10, 23, 0, 0, 0, time.UTC)

func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(epoch).String()
}

// payload is what an item holds: it says what it is, and the rest follows from that.
func payload(n int, name string, size int) []byte {
	b := fmt.Appendf(nil, "%d %s ", n, name)
	for i := 0; len(b) < size; i++ {
		b = append(b, 'a'+byte((n+i)%26))
	}
	return append(b, '.')
}

// targets are the queues that a put to a name goes to. The caller holds mu.
func (l *ledger) targets(name string) []string {
	if to, ok := l.set.Aliases[name]; ok {
		var all []string
		for _, next := range to {
			for _, queue := range l.targets(next) {
				if !slices.Contains(all, queue) {
					all = append(all, queue)
				}
			}
		}
		return all
	}
	if name == "fan" {
		return []string{"fan", "fan+1", "fan+2"}
	}
	return []string{name}
}

// trace notes what happened to an entry, if somebody wants to know.
func (l *ledger) trace(e *entry, format string, args ...any) {
	if l.traced != nil {
		l.traced("%s item %d of %s: %s", since(l.now()), e.n, e.queue, fmt.Sprintf(format, args...))
	}
}

// putting begins a put and returns the item's number and bytes.
func (l *ledger) putting(name string, size int, life, delay time.Duration) (int, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.puttingKeyed(name, "", size, life, delay)
}

// puttingKeyed is putting of an item with a key, unless that is "". The caller holds mu.
func (l *ledger) puttingKeyed(name, key string, size int, life, delay time.Duration) (int, []byte) {
	n := len(l.items)
	it := &item{name: name, data: payload(n, name, size)}
	l.items = append(l.items, it)
	l.largest.Store(max(l.largest.Load(), int64(len(it.data))))
	for _, queue := range l.targets(name) {
		e := &entry{n: n, queue: queue, sync: l.set.For(queue).Sync, started: l.now(), life: life, key: key}
		if delay > 0 {
			e.hidden, e.hiddenByPut, e.readyAt = l.now().Add(delay), true, l.now().Add(delay)
			e.delayed = true
		}
		it.in = append(it.in, e)
		l.queues[queue] = append(l.queues[queue], e)
		l.live[queue] += int64(len(it.data))
		l.bytes.Add(int64(len(it.data)))
	}
	return n, it.data
}

// putEnded says what came of a put.
func (l *ledger) putEnded(n int, state putState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	it := l.items[n]
	for i, e := range it.in {
		s := state
		if s == refused && len(it.in) > 1 || i > 0 && it.name == "fan" && !l.children {
			s = unsure // others may have it, or there is no child
		}
		if e.put < s {
			e.put = s
		}
		if e.ended = l.now(); e.hiddenByPut {
			e.readyAt = e.readyAt.Add(e.ended.Sub(e.started))
		}
		l.trace(e, "put ended: %d", s)
		if s == refused {
			if !e.touched.IsZero() {
				l.violate("refused", "%v was delivered, and the put refused", e)
			}
			l.live[e.queue] -= int64(len(it.data))
		}
	}
	if state == confirmed {
		l.acked++
	}
}

// outstanding is about how many bytes are in a queue.
func (l *ledger) outstanding(queue string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[queue]
}

// offered is how many bytes of items puts have been given.
func (l *ledger) offered() int64 { return l.bytes.Load() }

// number is the number of an item that was found in a queue: -1 if nobody has put it. The caller holds mu.
func (l *ledger) number(queue string, data []byte) int {
	head, _, _ := bytes.Cut(data, []byte(" "))
	n, err := strconv.Atoi(string(head))
	if err != nil || n < 0 || n >= len(l.items) || !bytes.Equal(l.items[n].data, data) {
		l.violate("bytes", "queue %s has %.60q, which nobody has put", queue, data)
		return -1
	}
	return n
}

// find returns the entry of what was found in a queue. The caller holds mu.
func (l *ledger) find(queue string, data []byte) *entry {
	n := l.number(queue, data)
	if n < 0 {
		return nil
	}
	for _, e := range l.items[n].in {
		if e.queue == queue || queue != "" && l.mayMove(e.queue, queue) {
			return e
		}
	}
	l.violate("place", "queue %s has %.40q", queue, data)
	return nil
}

// mayReturn notes that an item that was handed out for good may come back after a crash.
func (l *ledger) mayReturn(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e != nil && !l.frozen {
		e.goneSync = engine.SyncNever
		e.fragile = true
	}
}

// peeked notes that a request that began at a time has shown an item.
func (l *ledger) peeked(queue string, data []byte, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	switch e := l.find(queue, data); {
	case e == nil:
	case e.put == refused, e.lost, e.state == gone && e.goneAt.Before(began):
		l.violate("twice", "%v was shown by a request of %s", e, since(began))
	}
}

// confirming begins to remove an open read.
func (l *ledger) confirming(e *entry, queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.state != gone {
		e.goneSync = l.set.For(queue).Sync
	}
	if e.state == here {
		e.state = leaving
	}
}

// confirmEnded says what came of that: gone, maybe, or here, if the read had ended before.
func (l *ledger) confirmEnded(e *entry, state goneState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	if state == gone && (l.mayTimeOut(e.queue) || e.state != leaving) {
		state = maybe // the read may have ended before, by a timeout or with its queue
	}
	l.trace(e, "confirm ended: %d", state)
	e.touched = l.now()
	if e.state == gone {
		return
	}
	e.state, e.holder = state, nil
	if state == gone {
		e.goneAt = l.now()
		l.live[e.queue] -= int64(len(l.items[e.n].data))
	}
}

// givenBack notes that open reads are, or will be, back in their queues.
func (l *ledger) givenBack(entries ...*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.trace(e, "given back")
		e.delayed = e.delayed || l.set.For(e.queue).RedeliveryDelay[0] > 0
		e.holder, e.touched = nil, l.now()
		e.high++
		e.blurred = later(e.blurred, l.now().Add(lostTime))
	}
}

// take notes that a request may take up to n items for good; when it has ended, -n.
func (l *ledger) take(queue string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.frozen {
		l.taking[queue] += n
	}
}

// abandon notes that nobody will hear what came of a request that may take up to n items.
func (l *ledger) abandon(queue string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.frozen {
		l.taking[queue] -= n
		l.allowed[queue] += n
		l.fetched[queue] = l.now().Add(returnTime)
	}
}

// reloading begins a reload.
func (l *ledger) reloading() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toggling = true
}

// reloaded says what came of it.
func (l *ledger) reloaded(set engine.Settings, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	l.set, l.toggling = set, !ok
}

// startFailing notes that the disk failed during a start, so that queues may be withheld. Such a queue takes nothing.
// What expires into dead may be lost. What is on its way to a dead-letter queue stays where it was.
func (l *ledger) startFailing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed["dead"] = 1 << 30
	for _, entries := range l.queues {
		for _, e := range entries {
			e.buried = false
		}
	}
}

// stops is called when the server begins to stop.
func (l *ledger) stops() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
}

// died is called when the process dies: from now on nothing is heard of it.
func (l *ledger) died() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for queue, n := range l.taking {
		l.allowed[queue] += n
	}
	clear(l.taking)
	for queue, n := range l.fetching {
		if n > 0 {
			l.unheard[queue] += int64(n)
			l.blur(queue, l.now().Add(maxLease+lostTime))
			if l.leasing[queue] > 0 {
				l.asides[queue] = l.now().Add(maxLease + lostTime)
			}
		}
	}
	for _, le := range l.leases {
		le.doubt = le.doubt || le.busy
		le.busy = false
	}
	for _, s := range l.clearings {
		if !s.ended {
			l.applyClearing(s, false)
		}
	}
	l.clearings = nil
	l.frozen = true
}

// blur notes that until a time nobody knows which items of a queue are held. The caller holds mu.
func (l *ledger) blur(queue string, until time.Time) {
	if l.blurred[queue].Before(until) {
		l.blurred[queue] = until
	}
}

const (
	// lostTime is how long the server may take to bring back what it has handed to somebody who is gone.
	lostTime = 5 * time.Second
	// maxLease is the longest lease, and the longest delay.
	maxLease = 10 * time.Second
)

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
