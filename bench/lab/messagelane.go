package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// messageLane is one client, and a queue that it alone uses, with delays, leases by receipt and dead letters. It sends
// one request at a time, so of every item but one it knows where it is, or when it changed. Kills change none of that:
// a lease goes on, and so does a delay. It belongs to the goroutine that runs it; between two runs to that of the
// experiment.
type messageLane struct {
	t        *trial
	bodies   *lane
	protocol string
	queue    string

	next  int // number of the next item
	items map[int]*message
	asked int // fetches from the queue that were not answered; each may have leased an item
	taken int // likewise from the dead-letter queue, each for good

	// off is by how much the clock of the server was off when that started. All that is due goes by the clock as it was
	// then, and goes on. The times of items are as the server has them.
	off     time.Duration
	lasting bool // delays and leases are of hours and days, too
}

// now is the present, as the server has it for what is due.
func (l *messageLane) now() time.Time { return time.Now().Add(l.off) }

// message is what the client knows of an item that is not gone for good.
type message struct {
	unsure  bool      // a request about it was not answered: it may be anywhere, or gone
	dead    bool      // it is in the dead-letter queue
	early   time.Time // nobody gets it before
	late    time.Time // and from then on the next client that asks does
	receipt uint64    // of its lease; 0: none
	low     int       // deliveries that count for certain
	high    int       // and those that may
	hidden  bool      // it was delayed, or leased: what the journal says of it has a time
}

const (
	maxMessages   = 60
	maxDeliveries = 5
	// earlySlack is how much sooner than it should something may happen: the server's clock has milliseconds.
	earlySlack = 10 * time.Millisecond
	// lateSlack is how long an item that is due may take to be there, on a busy machine with a slow disk.
	lateSlack = 5 * time.Second
)

func newMessageLane(t *trial, protocol, policy string) *messageLane {
	name := "messages-" + protocol
	l := &messageLane{
		t: t, bodies: newLane(t, name, protocol, policy), protocol: protocol, queue: name, next: 1,
		items: make(map[int]*message),
	}
	l.bodies.small = true
	return l
}

// messageLanes returns a lane for each protocol that has receipts of its own.
func messageLanes(t *trial) []*messageLane {
	return []*messageLane{newMessageLane(t, "memcache", "always"), newMessageLane(t, "thrift", "never")}
}

// config has a small queue, so that delayed items go to the disk.
func (l *messageLane) config() string {
	table := fmt.Sprintf("sync_journal = %q\nmax_memory_size = \"4KiB\"\n", l.bodies.policy)
	return fmt.Sprintf("[queues.%q]\n%smax_deliveries = %d\n[queues.%q]\n%s", l.queue, table, maxDeliveries, l.deadQueue(), table)
}

func (l *messageLane) deadQueue() string { return l.queue + "_dead" }

// run sends requests until the connection ends, or the server refuses one.
func (l *messageLane) run(s *server, rng *rand.Rand) {
	c, err := dial(s, l.protocol)
	if err != nil {
		return
	}
	defer c.conn.Close()
	for talk := c.talk(l.protocol); err == nil; {
		err = l.one(talk, rng)
	}
	var refused refusedError
	if !errors.As(err, &refused) {
		return
	}
	l.t.counts.refusals.Add(1)
	if !l.t.refusals.Load() {
		l.t.violate("%s: %v", l.queue, err)
	}
}

// one sends one request, and checks and notes what came of it.
func (l *messageLane) one(talk messageTalk, rng *rand.Rand) error {
	known, held := 0, []int(nil)
	for item, m := range l.items {
		if !m.unsure {
			known++
		}
		if !m.unsure && m.receipt != 0 {
			held = append(held, item)
		}
	}
	slices.Sort(held)
	puts := 40
	if known > maxMessages {
		puts = 5
	}
	n := rng.IntN(100)
	switch {
	case n < puts:
		return l.put(talk, l.drawDuration(rng))
	case n < puts+(100-puts)/2:
		hold := 10 * time.Minute
		switch {
		case rng.IntN(3) == 0:
			hold = time.Duration(1+rng.IntN(2000)) * time.Millisecond
		case l.lasting:
			hold = time.Duration(1+rng.IntN(20*24)) * time.Hour
		}
		return l.lease(talk, hold)
	case n < 95 && len(held) > 0:
		return l.end(talk, held[rng.IntN(len(held))], leaseConfirm+leaseEnd(rng.IntN(5)), l.drawDuration(rng))
	}
	return l.take(talk)
}

// drawDuration is none, or up to some seconds: so many that items are written to the disk.
func (l *messageLane) drawDuration(rng *rand.Rand) time.Duration {
	if l.lasting && rng.IntN(4) == 0 {
		return time.Duration(1+rng.IntN(20*24)) * time.Hour
	}
	return time.Duration(rng.IntN(2)*rng.IntN(1+rng.IntN(20_000))) * time.Millisecond
}

func (l *messageLane) put(talk messageTalk, delay time.Duration) error {
	item := l.next
	l.next++
	l.bodies.next = l.next
	m := &message{unsure: true, early: l.now().Add(delay)}
	l.items[item] = m
	if err := talk.put(l.queue, l.bodies.body(item), delay); err != nil {
		return err
	}
	m.unsure, m.late, m.hidden = false, l.now().Add(delay), delay > 0
	l.t.counts.puts.Add(1)
	return nil
}

func (l *messageLane) lease(talk messageTalk, hold time.Duration) error {
	sent := l.now()
	data, receipt, err := talk.lease(l.queue, hold)
	switch {
	case err == errNothing:
		l.t.counts.checks.Add(1)
		for item, m := range l.items {
			if !m.unsure && !m.dead && m.high < maxDeliveries && m.late.Add(lateSlack).Before(sent) {
				l.t.violate("%s: a fetch gets nothing, and item %d is there since %v: %+v", l.queue, item, m.late, *m)
				m.unsure = true
			}
		}
		return nil
	case err != nil:
		l.asked++
		return err
	}
	item, m := l.seen(data, false)
	if m == nil {
		return nil
	}
	*m = message{
		early: sent.Add(hold), late: l.now().Add(hold), receipt: receipt, low: m.low, high: m.high + 1, hidden: true,
	}
	l.t.counts.items.Add(1)
	if receipt == 0 {
		l.t.violate("%s: item %d comes without a receipt", l.queue, item)
	}
	return nil
}

// take takes a dead letter.
func (l *messageLane) take(talk messageTalk) error {
	data, err := talk.take(l.deadQueue())
	switch {
	case err == errNothing:
		for item, m := range l.items {
			if !m.unsure && m.dead {
				l.t.violate("%s has nothing, and item %d is there", l.deadQueue(), item)
				m.unsure = true
			}
		}
		return nil
	case err != nil:
		l.taken++
		return err
	}
	if item, m := l.seen(data, true); m != nil {
		delete(l.items, item)
		l.t.counts.removals.Add(1)
	}
	return nil
}

// end does something with the lease of an item.
func (l *messageLane) end(talk messageTalk, item int, how leaseEnd, d time.Duration) error {
	m := l.items[item]
	was := *m
	switch how {
	case leaseTouch:
		d = time.Duration(1+d/time.Second) * time.Second
	case leaseReject:
		d = 0
	}
	sent := l.now()
	m.unsure = true
	err := talk.end(l.queue, m.receipt, how, d)
	now := l.now()
	switch {
	case err == errNotHeld:
		l.t.counts.checks.Add(1)
		if now.Add(earlySlack).Before(was.early) {
			l.t.violate("%s: %v of item %d says that it is not held: %+v", l.queue, how, item, was)
			return nil
		}
		*m = was // it has lapsed
		m.receipt = 0
		return nil
	case err != nil:
		return err
	}
	m.unsure, m.receipt = false, 0
	switch how {
	case leaseConfirm:
		delete(l.items, item)
		l.t.counts.removals.Add(1)
		return nil
	case leaseReject:
		m.dead = true
		return nil
	case leaseTouch:
		m.receipt = was.receipt
	case leaseAbort:
		m.low, m.high = m.low+1, m.high+1
		m.dead, m.unsure = m.low >= maxDeliveries, m.low < maxDeliveries && m.high >= maxDeliveries
	}
	m.early, m.late, m.hidden = sent.Add(d), now.Add(d), d > 0
	return nil
}

// start notes that another server starts, whose clock is off by so much. With a clock that was set back, what was due
// may be hidden again, or not. The server before may have recorded that it is due. What was never hidden is there.
func (l *messageLane) start(off time.Duration) {
	before := l.now().Add(earlySlack)
	l.off = off
	for _, m := range l.items {
		if !m.hidden {
			m.early, m.late = time.Time{}, l.now()
		} else if m.early.Before(before) {
			m.early = time.Time{}
		}
	}
}

// seen checks an item that was found just now in the queue, or in that of dead letters. It returns what is known of it;
// nil if it must not be anywhere.
func (l *messageLane) seen(data []byte, dead bool) (item int, m *message) {
	l.t.counts.checks.Add(1)
	item, err := l.bodies.itemOf(data)
	if err != nil {
		l.t.violate("queue %s holds %v", l.queue, err)
		return item, nil
	}
	m = l.items[item]
	switch {
	case m == nil:
		l.t.violate("%s: item %d was removed for good, and is there (dead: %t)", l.queue, item, dead)
		return item, nil
	case m.unsure:
		m.high++ // what was not answered may have counted
	case m.dead && !dead:
		l.t.violate("%s: item %d is a dead letter, and is in its queue", l.queue, item)
	case dead && !m.dead && m.high < maxDeliveries:
		l.t.violate("%s: item %d is a dead letter after %d deliveries", l.queue, item, m.high)
	case !dead && l.now().Add(earlySlack).Before(m.early):
		l.t.violate("%s: item %d is hidden, or leased, for %v more, and comes: %+v", l.queue, item, m.early.Sub(l.now()), *m)
	}
	m.unsure, m.dead = false, dead
	return item, m
}

// inspect compares what is there after a restart with what must be. All items stay open on the connection of v.
func (l *messageLane) inspect(v *inspection) error {
	began := l.now()
	v.arriving = true
	defer func() { v.arriving = false }()
	queued, err := v.queue(l.bodies, l.queue)
	if err != nil {
		return err
	}
	dead, err := v.queue(l.bodies, l.deadQueue())
	if err == nil {
		l.found(queued, dead, began)
	}
	return err
}

// found compares what both queues have handed out since a time with what must be there.
func (l *messageLane) found(queued, dead []int, began time.Time) {
	for _, m := range l.items {
		m.high += l.asked // a fetch that was not answered may have had it, for a lease that is over
	}
	found := make(map[int]bool)
	for i, item := range slices.Concat(queued, dead) {
		if found[item] {
			l.t.violate("%s: item %d is there twice", l.queue, item)
		}
		found[item] = true
		if _, m := l.seen(l.bodies.body(item), i >= len(queued)); m != nil {
			m.receipt, m.early, m.late = 0, time.Time{}, l.now()
			m.high++ // it comes back as one that was delivered
		}
	}
	l.miss(found, began)
}

// miss notes the items that were to be found from a time on, and were not.
func (l *messageLane) miss(found map[int]bool, began time.Time) {
	gone := 0
	var missing []int
	for item, m := range l.items {
		switch {
		case m.unsure || found[item]:
			continue
		case !m.dead && !m.late.Add(lateSlack).Before(began): // it need not be there, and may have been fetched
			m.unsure = l.asked > 0 && m.early.Before(began)
			continue
		case m.dead:
			gone++
		default:
			missing = append(missing, item)
		}
		m.unsure = true
	}
	if slices.Sort(missing); len(missing) > l.asked {
		l.t.violate("%s: items %v are missing, and %d fetches were not answered", l.queue, missing, l.asked)
	}
	if gone > l.taken {
		l.t.violate("%s: %d items are missing, and %d fetches were not answered", l.deadQueue(), gone, l.taken)
	}
	l.asked, l.taken = 0, 0
}
