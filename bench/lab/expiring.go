package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	expiryAge = 300 * time.Millisecond // max_age of the queue
	// expirySlack is how far the server's clock may be off. A turn of an event loop uses the time at which it began,
	// and on a busy machine it may wait for a processor.
	expirySlack = 100 * time.Millisecond
)

// expiringLane is a client of a queue whose items expire into another queue. When each of them does so is not exactly
// known. So it checks after a crash that every item that was put, and not taken, is in exactly one of the two. The
// first must deliver none after its time, and the second must have none before. It sends one request at a time.
type expiringLane struct {
	lane    *lane         // makes and knows the bodies
	target  string        // queue that takes expired items; the lane's name is the other
	age     time.Duration // max_age of the queue, or time to live of its items
	ttl     bool          // the items say when they expire, the queue does not
	wall    wallTimes
	items   map[int]*expiring // put and, as far as is known, not taken; those in doubt included
	taken   map[int]bool      // whose removal was acknowledged
	asking  bool              // a fetch was not answered: it may have taken one item
	running sync.WaitGroup
}

// expiring is an item that expires.
type expiring struct {
	sent  time.Time
	acked time.Time // zero if the put was not answered, or nobody knows whether a fetch took the item
}

// wallTimes returns the earliest and the latest time that the server's clock may have shown in a
// period of the lab's.
type wallTimes func(from, to time.Time) (earliest, latest time.Time)

func newExpiringLane(t *trial) *expiringLane {
	return &expiringLane{
		lane: newLane(t, "expiring", "memcache", "always"), target: "expired", age: expiryAge,
		wall:  func(from, to time.Time) (time.Time, time.Time) { return from, to },
		items: make(map[int]*expiring), taken: make(map[int]bool),
	}
}

func (e *expiringLane) config() string {
	config := fmt.Sprintf("[queues.%q]\nexpire_to_queue = %q\n", e.lane.name, e.target)
	if !e.ttl {
		config += fmt.Sprintf("max_age = %q\n", e.age)
	}
	return config
}

// start lets the lane work until the server is gone.
func (e *expiringLane) start(s *server, rng *rand.Rand) {
	e.running.Go(func() {
		c, err := dial(s, e.lane.protocol)
		if err != nil {
			return
		}
		defer c.conn.Close()
		for e.step(c, rng) == nil {
		}
	})
}

func (e *expiringLane) wait() { e.running.Wait() }

func (e *expiringLane) step(c *client, rng *rand.Rand) error {
	l := e.lane
	switch n := rng.IntN(100); {
	case n < 65:
		item := l.next
		l.next++
		e.items[item] = &expiring{sent: time.Now()}
		r := request{op: opPut, queue: l.name, items: []int{item}}
		if e.ttl {
			r.ttl = int32(e.age / time.Millisecond)
		}
		a, err := c.ask(r, l.body)
		if err == nil && a.refusal == "" {
			e.items[item].acked = time.Now()
			l.t.counts.puts.Add(1)
		}
		return err
	case n < 80 || e.acknowledged() > maxQueued:
		return e.fetch(c, e.target)
	}
	return e.fetch(c, l.name)
}

// fetch takes an item for good.
func (e *expiringLane) fetch(c *client, queue string) error {
	sent := time.Now()
	e.asking = true
	a, err := c.ask(request{op: opGet, queue: queue, count: 1}, e.lane.body)
	if err != nil {
		return err
	}
	e.asking = false
	for _, it := range a.items {
		if item, ok := e.check(queue, it.data, sent); ok {
			delete(e.items, item)
			e.taken[item] = true
			e.lane.t.counts.removals.Add(1)
		}
	}
	return nil
}

// check checks an item that a request sent at a time has brought.
func (e *expiringLane) check(queue string, data []byte, sent time.Time) (item int, ok bool) {
	t := e.lane.t
	item, err := e.lane.itemOf(data)
	if err != nil {
		t.violate("queue %s holds %v", queue, err)
		return 0, false
	}
	x := e.items[item]
	if x == nil {
		x = &expiring{}
	}
	now, known := time.Now(), x.acked
	if known.IsZero() {
		known = now
	}
	putEarliest, putLatest := e.wall(x.sent, known)
	nowEarliest, _ := e.wall(sent, now)
	_, nowLatest := e.wall(x.sent, now)
	switch {
	case e.taken[item]:
		t.violate("item %d came again from queue %s", item, queue)
	case x.sent.IsZero():
		t.violate("item %d came from queue %s: it was never put", item, queue)
	case queue == e.target && nowLatest.Sub(putEarliest) < e.age-expirySlack:
		t.violate("%s: item %d expired after %v of %v", e.lane.name, item, nowLatest.Sub(putEarliest), e.age)
	case queue != e.target && nowEarliest.Sub(putLatest) > e.age+expirySlack:
		t.violate("%s: item %d was delivered %v after it was put, and expires after %v", e.lane.name, item,
			nowEarliest.Sub(putLatest), e.age)
	default:
		return item, true
	}
	return 0, false
}

// inspect compares the two queues with what the lane knows, after a crash.
func (e *expiringLane) inspect(s *server) error {
	t := e.lane.t
	v, err := inspect(t, s)
	if err != nil {
		return err
	}
	found := make(map[int]bool)
	look := func(queue string) error {
		sent := time.Now()
		v.arriving = queue == e.target
		items, err := v.queue(e.lane, queue)
		if err != nil {
			return err
		}
		for _, item := range items {
			if found[item] {
				t.violate("item %d is in both queues, or twice in %s", item, queue)
			}
			if _, ok := e.check(queue, e.lane.body(item), sent); ok {
				found[item] = true
			}
		}
		return nil
	}
	if err := look(e.lane.name); err != nil {
		return err
	}
	// What has left the one queue arrives in the other in the background, soon.
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err := look(e.target); err != nil {
			return err
		}
		if !e.misses(found) || time.Since(began) > patience {
			break
		}
	}
	e.compare(found)
	t.counts.checks.Add(1)
	return v.c.end()
}

// compare compares what was found with what the lane knows. What was in doubt when the server ended, and was not found,
// stays in doubt. It may be on its way from one queue to the other, and come later.
func (e *expiringLane) compare(found map[int]bool) {
	taken := e.asking
	for item, x := range e.items {
		switch {
		case found[item] && x.acked.IsZero():
			x.acked = time.Now() // it is there: from now on it counts
		case found[item] || x.acked.IsZero():
		case taken: // perhaps by the fetch that was not answered
			taken, x.acked = false, time.Time{}
		default:
			e.lane.t.violate("%s: item %d of %d, whose put was acknowledged %v ago, is in neither queue",
				e.lane.name, item, e.lane.next-1, time.Since(x.acked))
			delete(e.items, item)
		}
	}
	e.asking = false
}

// acknowledged is how many items are known to be in one of the queues.
func (e *expiringLane) acknowledged() (n int) {
	for _, x := range e.items {
		if !x.acked.IsZero() {
			n++
		}
	}
	return n
}

// misses reports whether an acknowledged item was not found. It allows for one that a fetch without an answer may have
// taken.
func (e *expiringLane) misses(found map[int]bool) bool {
	taken := e.asking
	for item, x := range e.items {
		if found[item] || x.acked.IsZero() {
			continue
		}
		if !taken {
			return true
		}
		taken = false
	}
	return false
}
