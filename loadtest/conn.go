package loadtest

import (
	"bytes"
	"math"
	"time"
)

// conn is one connection. It is owned by its thread.
type conn struct {
	// Immutable.
	group    *group
	index    int // in the group
	queue    int // index in group.queues
	name     []byte
	producer *producer // nil unless the group puts and there is a ledger
	consumer *consumer // nil unless the group gets and there is a ledger

	number int // among all connections of the run
	slot   int // in the thread's conns
	pacer  int // in the thread's pacers, if the group has a rate

	fd   int   // -1 when closed
	left int64 // operations the window still has for it
	// abandoned: it waited in vain, and the answer may still come.
	abandoned bool
	step      int // of the cycle, where the next batch begins
	first     int // of the cycle, where the batch in flight began
	batches   int // answered since the connection was opened

	// The batch in flight; count is 0 if there is none.
	batch      *batch
	count      int             // requests in it
	unsent     []byte          // request bytes the kernel has not taken
	sentAt     time.Duration   // since the start of the run
	due        []time.Duration // when each request was due; empty unless the group has a rate
	answered   int             // replies that are whole and right
	matched    int             // reply bytes found equal to those due
	parsing    bool            // replies are parsed, no longer only matched
	tail       []byte          // start of a reply, while parsing
	early      []byte          // what came without a request, from a server that may do so
	now        request         // the request whose reply is being parsed
	confirming int             // open reads that the batch confirms in one request
	taken      int64           // items of the batch
	idleAt     time.Duration   // since when it waits for a request to be due

	open     held  // what a confirm will name
	last     stamp // of the item got last, if it is still open
	lastOpen bool

	own    batch    // buffer of batch
	next   request  // the request that is being built
	values [][]byte // buffers of the values of one put
}

// kind returns the kind of request i of the batch in flight.
func (c *conn) kind(i int) requestKind {
	if c.group.stepwise {
		return c.group.cycle[c.first]
	}
	return c.group.cycle[(c.first+i)%len(c.group.cycle)]
}

// unbounded stands for a bound of a window that is not given.
const unbounded = math.MaxInt64

// size returns how many requests the next batch is to have, at most limit.
func (c *conn) size(limit int) int {
	g := c.group
	switch {
	case !g.stepwise:
		return limit
	case g.cycle[c.step] == confirmRequest:
		return max(c.open.len(), 1)
	case g.cycle[c.step] == confirmAllRequest, g.Operation == CloseOpen:
		return 1
	}
	return limit
}

// skip passes over the confirms of a cycle that opened nothing.
func (c *conn) skip() {
	g := c.group
	for g.stepwise && c.step > 0 && c.open.len() == 0 &&
		(g.cycle[c.step] == confirmRequest || g.cycle[c.step] == confirmAllRequest) {
		c.step = g.nextStep(c.step, 1)
	}
}

// prepare sets up a batch of count requests and advances the cycle. At is when it is sent, or due.
func (c *conn) prepare(count int, now time.Duration, at time.Time) {
	g := c.group
	c.first = c.step
	c.step = g.nextStep(c.step, count)
	c.count, c.sentAt, c.taken = count, now, 0
	c.answered, c.matched = 0, 0
	c.tail = c.tail[:0]
	if g.batches != nil {
		c.batch = &g.batches[c.queue][c.first]
	} else {
		c.build(at)
	}
	c.unsent = c.batch.requests[:c.batch.requestEnd[count-1]]
	c.parsing = !c.batch.exact
	c.begin()
}

// build encodes the batch that prepare has set up, with values and names of its own.
func (c *conn) build(at time.Time) {
	c.own.reset()
	c.batch = &c.own
	for i := range c.count {
		r := &c.next
		*r = request{
			kind:  c.kind(i),
			queue: c.name,
			seq:   int32(i),
			items: c.group.items,
			count: c.ask(),
			held:  &c.open,
			which: i,
			conn:  c.number,
		}
		if r.kind == confirmAllRequest {
			c.confirming = c.open.len()
			r.count = c.confirming
		}
		if r.kind == putRequest && c.producer != nil {
			r.items = c.nextItems(at)
		}
		c.own.add(c.group.protocol, r)
		if c.consumer != nil && r.kind.reads() {
			c.own.exact = false // the items are not known
		}
	}
	if kind := c.kind(0); c.group.stepwise && !kind.opens() || kind == closeOpenRequest {
		c.open.reset()
	}
}

// nextItems returns the items of one put. They are valid until the next call.
func (c *conn) nextItems(at time.Time) [][]byte {
	g := c.group
	for len(c.values) < g.Burst {
		c.values = append(c.values, nil)
	}
	for i := range c.values {
		c.values[i] = appendValue(c.values[i][:0], g.ItemSize, c.producer.next(at), g.letters)
	}
	return c.values
}

// begin sets up the parsing of the next reply.
func (c *conn) begin() {
	c.now = request{
		kind:  c.kind(c.answered),
		queue: c.name,
		seq:   int32(c.answered),
		items: c.group.items,
		count: c.ask(),
	}
	if c.now.kind == confirmAllRequest {
		c.now.count = c.confirming
	}
}

// ask returns how many items one request asks for.
func (c *conn) ask() int {
	if c.group.Hits {
		return int(min(int64(c.group.Burst), max(c.left, 1)))
	}
	return c.group.Burst
}

// receive takes bytes that arrived and counts in t what they answer, at the time now. It reports
// whether they completed the batch.
func (c *conn) receive(t *tally, chunk []byte, now time.Duration) (done bool, err error) {
	before := c.answered
	if !c.parsing {
		due := c.batch.replies[c.matched:c.batch.replyEnd[c.count-1]]
		if len(chunk) <= len(due) && bytes.Equal(chunk, due[:len(chunk)]) {
			c.matched += len(chunk)
			for c.answered < c.count && c.batch.replyEnd[c.answered] <= c.matched {
				c.answered++
			}
			c.countMatched(t, before)
			c.record(t, before, now)
			return c.answered == c.count, nil
		}
		c.startParsing()
	}
	if len(c.tail) > 0 {
		c.tail = append(c.tail, chunk...)
		n, err := c.parse(t, c.tail, now)
		c.tail = c.tail[:copy(c.tail, c.tail[n:])]
		c.record(t, before, now)
		return c.answered == c.count, err
	}
	n, err := c.parse(t, chunk, now)
	c.tail = append(c.tail, chunk[n:]...)
	c.record(t, before, now)
	return c.answered == c.count, err
}

// startParsing goes over from matching to parsing, from the first reply that is not whole.
func (c *conn) startParsing() {
	start := 0
	if c.answered > 0 {
		start = c.batch.replyEnd[c.answered-1]
	}
	c.parsing = true
	c.tail = append(c.tail[:0], c.batch.replies[start:c.matched]...)
	c.begin()
}

// countMatched counts the requests from the given one up to answered, whose replies were the ones
// due.
func (c *conn) countMatched(t *tally, from int) {
	puts := 0
	for i := from; i < c.answered; {
		kind, same := c.span(i)
		items := int64(same * c.group.Burst)
		switch {
		case kind == putRequest:
			puts += same
			t.kinds[kind].items += items
		case kind.reads():
			t.kinds[kind].items += items
			c.taken += items
		}
		i += same
	}
	if puts > 0 && c.producer != nil {
		c.producer.acknowledge(puts * c.group.Burst)
	}
}

// span returns the kind of request i, and how many requests from there up to answered are of it, at
// least.
func (c *conn) span(i int) (kind requestKind, same int) {
	if c.group.stepwise || len(c.group.cycle) == 1 {
		return c.kind(i), c.answered - i
	}
	return c.kind(i), 1
}

// record records the latencies of the requests from the given one up to answered.
func (c *conn) record(t *tally, from int, now time.Duration) {
	latency := now - c.sentAt
	for i := from; i < c.answered; {
		kind, same := c.span(i)
		if len(c.due) > i {
			latency, same = now-c.due[i], 1
		}
		t.kinds[kind].requests += int64(same)
		recordValues(&t.kinds[kind].latency, latency, int64(same))
		i += same
	}
}
