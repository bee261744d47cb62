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

// putState is what is known of a put.
type putState uint8

const (
	putting   putState = iota // no reply yet
	unsure                    // no reply will come, or it says that nobody knows
	refused                   // it was not stored
	found                     // nobody said so, but it was there after a restart
	confirmed                 // acknowledged
)

// goneState is what is known of an item's leaving its queue.
type goneState uint8

const (
	here    goneState = iota
	leaving           // a request for that is under way
	maybe             // nobody knows
	gone              // acknowledged
)

// entry is one item in one of the queues that it was put to.
type entry struct {
	n     int
	queue string
	sync  engine.SyncPolicy

	put     putState
	started time.Time // of the request
	ended   time.Time // of its reply

	life time.Duration // given with the item; zero: for ever

	state    goneState
	goneSync engine.SyncPolicy
	goneAt   time.Time

	holder  *caller   // that has it open
	touched time.Time // when it was handed out, or given back, last
	lost    bool      // the contract let it be lost: it must not come back
	swept   time.Time // when a flush, or delete, of its queue ended last
	flushed bool      // it had expired when its queue was flushed: it is on its way to another one
	fragile bool      // its removal was not recorded: the journal had failed
	seen    bool      // scratch of an examination
}

// item is what was put, once, to a name.
type item struct {
	name string
	data []byte
	in   []*entry
}

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
	allowed   map[string]int                   // items that such gets may have taken when nobody was there any more
	set       engine.Settings                  // that hold
	toggling  bool                             // a reload is under way, or failed
	traced    func(format string, args ...any) // takes what happened to items; nil if nobody wants to know
	sweeps    []*sweeping                      // of this process
	frozen    bool                             // the process is dead: what is said now was never heard
	stopping  bool                             // the server gives open reads back by itself
	children  bool                             // those of fan exist
	stepped   bool                             // the server's clock is set: nobody knows when what expires
	problems  []problem
	delivered int
	bytes     atomic.Int64 // of all items ever given to a put, for each queue; for any goroutine
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
	}
}

// violate notes that a law is broken. The caller holds mu.
func (l *ledger) violate(law, format string, args ...any) {
	if !l.frozen && len(l.problems) < 10 {
		l.problems = append(l.problems, problem{law, fmt.Sprintf(format, args...)})
	}
}

// doubt notes that a law is broken unless the server has ended the connection of a caller, who will learn
// of it by the reply that it waits for. The caller holds mu.
func (l *ledger) doubt(c *caller, law, format string, args ...any) {
	if !c.asking {
		l.violate(law, format, args...)
		return
	}
	c.doubts = append(c.doubts, problem{law, fmt.Sprintf(format, args...)})
}

// asks notes that a caller begins to do something, and what is to be called when that has ended: with
// what its connection is over, if it is.
func (l *ledger) asks(c *caller) (ended func(error)) {
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
		c.asking, c.doubts = false, nil
	}
}

func (l *ledger) report(law, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate(law, format, args...)
}

func (e *entry) String() string {
	return fmt.Sprintf("item %d of %s (put %d %s..%s, %s; gone %d %s)", e.n, e.queue, e.put,
		since(e.started), since(e.ended), e.sync, e.state, since(e.goneAt))
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
func (l *ledger) putting(name string, size int, life time.Duration) (int, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.items)
	it := &item{name: name, data: payload(n, name, size)}
	l.items = append(l.items, it)
	for _, queue := range l.targets(name) {
		e := &entry{n: n, queue: queue, sync: l.set.For(queue).Sync, started: l.now(), life: life}
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
		e.ended = l.now()
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

// find returns the entry of what was found in a queue. The caller holds mu.
func (l *ledger) find(queue string, data []byte) *entry {
	head, _, _ := bytes.Cut(data, []byte(" "))
	n, err := strconv.Atoi(string(head))
	if err != nil || n < 0 || n >= len(l.items) || !bytes.Equal(l.items[n].data, data) {
		l.violate("bytes", "queue %s has %.60q, which nobody has put", queue, data)
		return nil
	}
	for _, e := range l.items[n].in {
		if e.queue == queue || queue != "" && l.set.For(e.queue).ExpireTo == queue {
			return e
		}
	}
	l.violate("place", "queue %s has %.40q", queue, data)
	return nil
}

// handedOut notes that a request that began at a time has brought an item to c, for good or open.
func (l *ledger) handedOut(c *caller, queue string, data []byte, began time.Time, forGood bool) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return nil
	}
	e := l.find(queue, data)
	if e == nil {
		return nil
	}
	l.delivered++
	l.trace(e, "handed out to %s %p, for good %t, by a request of %s", c.client.Protocol, c, forGood, since(began))
	now := l.now()
	switch {
	case e.put == refused:
		l.violate("refused", "%v was refused, and delivered", e)
	case e.lost:
		l.violate("back", "%v was lost, and is back", e)
	case e.state == gone && e.goneAt.Before(began):
		l.violate("twice", "%v was delivered by a request of %s", e, since(began))
	case e.holder != nil && e.holder != c && !l.mayTimeOut(e.queue) && !l.stopping:
		l.doubt(e.holder, "open", "%v is open, and was delivered by a request of %s", e, since(began))
	}
	if e.put == confirmed && e.queue == queue && l.hasExpired(e, began) {
		l.violate("expired", "%v expired at %s, and was delivered by a request of %s", e,
			since(l.expiry(e, e.ended)), since(began))
	}
	e.touched = now
	if forGood {
		e.state, e.goneAt, e.goneSync, e.holder = gone, now, l.set.For(queue).Sync, nil
		l.live[e.queue] -= int64(len(data))
	} else {
		e.state, e.holder = here, c
		if !e.swept.Before(began) {
			e.state = maybe // it may have been open already when its queue was flushed or deleted
		}
	}
	return e
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

// clockTime is how much later than it says an item may expire: the engine counts milliseconds.
const clockTime = 2 * time.Millisecond

// mayTimeOut reports whether an open read of a queue may end by itself. The caller holds mu.
func (l *ledger) mayTimeOut(queue string) bool { return queue == "timeout" }

// expiry is when an item that was put at a time expires; zero if never. The caller holds mu.
func (l *ledger) expiry(e *entry, put time.Time) time.Time {
	life := e.life
	if age := l.set.For(e.queue).MaxAge; age > 0 && (life == 0 || age < life) {
		life = age
	}
	if life == 0 || put.IsZero() {
		return time.Time{}
	}
	return put.Add(life)
}

// hasExpired reports whether an item that was put had expired at a time, for certain. The caller holds mu.
func (l *ledger) hasExpired(e *entry, t time.Time) bool {
	at := l.expiry(e, e.ended)
	return !at.IsZero() && !l.stepped && at.Add(clockTime).Before(t)
}

// mayHaveExpired reports whether it may have expired by now. The caller holds mu.
func (l *ledger) mayHaveExpired(e *entry) bool {
	at := l.expiry(e, e.started)
	return !at.IsZero() && (l.stepped || at.Before(l.now()))
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
		e.holder, e.touched = nil, l.now()
	}
}

// fetch notes that a request begins that may hold items of a queue until it ends, and returns what is to
// be called then.
func (l *ledger) fetch(queue string) (ended func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetching[queue]++
	l.fetched[queue] = l.now()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fetching[queue]--
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
		l.fetched[queue] = l.now().Add(settleTime)
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

// withheld notes that a queue may refuse all that expires into it.
func (l *ledger) withheld(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed[queue] = 1 << 30
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
	for _, s := range l.sweeps {
		if !s.ended {
			l.sweep(s, false)
		}
	}
	l.sweeps = nil
	l.frozen = true
}
