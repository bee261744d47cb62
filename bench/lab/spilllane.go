package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// taking is how a spill lane takes items.
type taking uint8

const (
	takeAhead    taking = iota + 1 // fetches sent ahead of their replies
	takeWaiting                    // fetches that wait for an item
	takeReliably                   // opens several, then confirms them, or hangs up
	takeMany                       // several items with each fetch
	takeLines                      // each fetch confirms the one before
)

// spillLane is a queue with a small window, one client that puts to it and one that takes from it.
// Both work at the same time and as fast as they can. So the queue spills, is filled, and leaves
// read-behind while it is appended to. Its fields belong to the goroutine that changes them, and
// between two runs to that of the experiment.
type spillLane struct {
	t      *trial
	bodies *lane // makes and knows the bodies
	queue  string
	how    taking
	policy string // sync_journal of the queue
	memory string // max_memory_size
	most   int64  // items that the producer may be ahead of the consumer

	sent  atomic.Int64 // the last item that was sent; changed by the producer
	acked atomic.Int64 // … and acknowledged
	gone  atomic.Bool  // one of the two has lost its connection

	// Of the consumer.
	order   fifo
	opened  []int        // items that are open, oldest first
	asked   int          // items that requests without an answer may have taken
	reached atomic.Int64 // an item behind which the consumer is; changed by it
	removed atomic.Int64 // the first item that is not known to be removed; changed by it

	// Of the experiment: what was known when the power was cut, if it was.
	cut                  bool
	cutAcked, cutRemoved int
}

func newSpillLane(t *trial, name, protocol string, how taking, policy, memory string) *spillLane {
	l := &spillLane{
		t: t, bodies: newLane(t, name, protocol, policy), queue: name, how: how, policy: policy,
		memory: memory, most: math.MaxInt64,
	}
	l.bodies.next = math.MaxInt
	l.order.next = 1
	l.removed.Store(1)
	return l
}

func (l *spillLane) config() string {
	return fmt.Sprintf("[queues.%q]\nsync_journal = %q\nmax_memory_size = %q\n", l.queue, l.policy,
		l.memory)
}

// spillLanes returns lanes of every protocol, policy and way of taking.
func spillLanes(t *trial) []*spillLane {
	// One has runs of several files, which are written past the page cache: smaller queues do not.
	heavy := newSpillLane(t, "heavy", "memcache", takeAhead, "never", "512KiB")
	heavy.bodies.heavy = true
	return []*spillLane{
		heavy,
		newSpillLane(t, "ahead", "memcache", takeAhead, "never", "5KiB"),
		newSpillLane(t, "waiting", "memcache", takeWaiting, "never", "16KiB"),
		newSpillLane(t, "reliable", "memcache", takeReliably, period.String(), "8KiB"),
		newSpillLane(t, "many", "thrift", takeMany, "never", "64KiB"),
		newSpillLane(t, "lines", "text", takeLines, "never", "6KiB"),
		newSpillLane(t, "synced", "memcache", takeAhead, "always", "4KiB"),
	}
}

// start lets both clients work until the server is gone; acked is called for each reply to a put.
func (l *spillLane) start(s *server, running *sync.WaitGroup, rng *rand.Rand, acked func()) {
	l.gone.Store(false)
	other := rand.New(rand.NewPCG(rng.Uint64(), 0))
	running.Go(func() { defer l.gone.Store(true); l.note(l.put(s, rng, acked)) })
	running.Go(func() { defer l.gone.Store(true); l.note(l.take(s, other)) })
}

// note makes an answer that is none a violation. Other errors say that the server is gone.
func (l *spillLane) note(err error) {
	var garbled *garbledError
	if errors.As(err, &garbled) {
		l.t.violate("%s: %v", l.queue, err)
	}
}

// put puts in bursts: up to so many items ahead of the consumer, and on when it has come near.
func (l *spillLane) put(s *server, rng *rand.Rand, acked func()) error {
	c, err := dial(s, l.bodies.protocol)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for !l.gone.Load() {
		high := min(int64(1+rng.IntN(16<<rng.IntN(9))), l.most)
		for l.sent.Load()-l.reached.Load() < high && !l.gone.Load() {
			if err := l.putBatch(c, 1+rng.IntN(48), acked); err != nil {
				return err
			}
		}
		low := max(rng.Int64N(2*high)-high, 0) // every other time nothing is left
		for l.sent.Load()-l.reached.Load() > low && !l.gone.Load() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return nil
}

func (l *spillLane) putBatch(c *client, n int, acked func()) error {
	batch := make([]request, n)
	first := int(l.sent.Load()) + 1
	for i := range batch {
		batch[i] = request{op: opPut, queue: l.queue, items: []int{first + i}}
	}
	l.sent.Add(int64(n))
	if err := c.send(batch, l.bodies.body); err != nil {
		return err
	}
	for _, r := range batch {
		a, err := c.receive(r)
		if err != nil {
			return err
		}
		if a.refusal != "" || a.count != 1 {
			return l.wrong(fmt.Errorf("%v got %+v", r, a))
		}
		l.acked.Store(int64(r.items[0]))
		l.t.counts.puts.Add(1)
		acked()
	}
	return nil
}

// take takes items until the server is gone, or a promise is broken.
func (l *spillLane) take(s *server, rng *rand.Rand) error {
	c, err := dial(s, l.bodies.protocol)
	if err != nil {
		return err
	}
	defer func() { c.conn.Close() }()
	for !l.gone.Load() {
		found, err := l.fetch(c, rng)
		if err != nil {
			return err
		}
		if len(l.opened) > 0 && l.how == takeReliably {
			if c, err = l.finish(s, c, rng); err != nil {
				return err
			}
		}
		if !found {
			time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
		}
	}
	return nil
}

// fetch sends some fetches, and checks what they bring; found says that one brought something.
func (l *spillLane) fetch(c *client, rng *rand.Rand) (found bool, err error) {
	r := request{op: opGet, queue: l.queue, count: 1}
	n := 1 + rng.IntN(16)
	switch l.how {
	case takeWaiting:
		n, r.wait = 1+rng.IntN(3), 50
	case takeReliably, takeLines:
		r.op = opOpen
	case takeMany:
		n, r.count = 1+rng.IntN(3), 1+rng.IntN(20)
	}
	batch := make([]request, n)
	for i := range batch {
		batch[i] = r
	}
	if l.how != takeReliably {
		l.asked = n * r.count
	}
	sent, acked := time.Now(), int(l.acked.Load())
	if err := c.send(batch, l.bodies.body); err != nil {
		return false, err
	}
	for range batch {
		a, err := c.receive(r)
		if err != nil {
			return found, err
		}
		if wait := time.Duration(r.wait) * time.Millisecond; wait > 0 && time.Since(sent) >= wait {
			acked = 0 // the disk may have taken longer than the client was going to wait
		}
		if err := l.check(r, a, acked); err != nil {
			return found, l.wrong(err)
		}
		found = found || len(a.items) > 0
		if l.how != takeReliably {
			l.asked -= r.count
			l.t.counts.removals.Add(int64(len(a.items)))
			l.removed.Store(int64(l.first()))
		}
	}
	return found, nil
}

// check checks the answer to one fetch, sent when the puts up to acked had been acknowledged.
func (l *spillLane) check(r request, a answer, acked int) error {
	if a.refusal != "" {
		return fmt.Errorf("%v was refused: %s", r, a.refusal)
	}
	if l.how == takeLines {
		l.opened = l.opened[:0]
	}
	for _, it := range a.items {
		item, err := l.bodies.itemOf(it.data)
		if err != nil {
			return err
		}
		if err := l.order.came(item); err != nil {
			return err
		}
		if r.op == opOpen {
			l.opened = append(l.opened, item)
		}
		l.reached.Store(int64(item))
		l.t.counts.items.Add(1)
	}
	if len(a.items) > 0 {
		return nil
	}
	l.reached.Store(max(l.reached.Load(), int64(acked))) // what is missing was never there
	return l.order.ended(acked)
}

// finish confirms what is open, or now and then hangs up: then it all comes again.
func (l *spillLane) finish(s *server, c *client, rng *rand.Rand) (*client, error) {
	if rng.IntN(20) == 0 {
		if err := c.end(); err != nil {
			return c, err
		}
		l.order.crashed(l.opened[0], l.order.acked, 0)
		l.opened = l.opened[:0]
		fresh, err := dial(s, l.bodies.protocol)
		if err != nil {
			return c, err
		}
		return fresh, nil
	}
	r := request{op: opConfirm, queue: l.queue, count: len(l.opened)}
	l.asked = r.count
	a, err := c.ask(r, l.bodies.body)
	if err != nil {
		return c, err
	}
	if a.refusal != "" || a.count != r.count {
		return c, l.wrong(fmt.Errorf("%v got %+v", r, a))
	}
	l.t.counts.removals.Add(int64(r.count))
	l.asked, l.opened = 0, l.opened[:0]
	l.removed.Store(int64(l.first()))
	return c, nil
}

// wrong notes an answer that breaks a promise, unless the disk is known to be gone.
func (l *spillLane) wrong(err error) error {
	if l.t.refusals.Load() {
		l.t.counts.refusals.Add(1)
	} else {
		l.t.violate("%s: %v", l.queue, err)
	}
	return errEnded
}

// first returns the first item that is not known to be removed.
func (l *spillLane) first() int {
	if len(l.opened) > 0 {
		return l.opened[0]
	}
	return l.order.next
}

// cutNow notes that the power is about to be cut: what the server says behind that does not count.
func (l *spillLane) cutNow() {
	l.cut, l.cutAcked, l.cutRemoved = true, int(l.acked.Load()), int(l.removed.Load())
}

// crashed notes that the server is gone.
func (l *spillLane) crashed() {
	next, acked, taken := l.first(), int(l.acked.Load()), l.asked
	if l.cut {
		taken += next - l.cutRemoved
		next, acked = l.cutRemoved, l.cutAcked
	}
	l.order.acked = acked
	l.order.crashed(next, int(l.sent.Load()), taken)
	l.acked.Store(l.sent.Load())
	l.removed.Store(int64(next))
	l.opened, l.asked, l.cut = l.opened[:0], 0, false
}

// inspect looks at all that the queue holds, without changing it.
func (l *spillLane) inspect(v *inspection) error {
	items, err := v.queue(l.bodies, l.queue)
	if err != nil {
		return err
	}
	seen := l.order.clone()
	for _, item := range items {
		if err := seen.came(item); err != nil {
			l.t.violate("%s, inspected: %v", l.queue, err)
			return nil
		}
	}
	if err := seen.ended(seen.acked); err != nil {
		l.t.violate("%s, inspected behind %d items: %v", l.queue, len(items), err)
		return nil
	}
	l.t.counts.checks.Add(1)
	// Now it is known which of the items are there.
	first := l.order.acked + 1
	if len(items) > 0 {
		first = items[0]
	}
	l.order = *seen
	l.order.next, l.order.slack = first, 0
	l.removed.Store(int64(first))
	return nil
}
