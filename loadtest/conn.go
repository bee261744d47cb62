package loadtest

import (
	"bytes"
	"time"
)

// conn is one connection. It is owned by its thread.
type conn struct {
	// Immutable.
	index int // among all connections of the run
	queue int // index in plan.queues

	fd      int // -1 when closed
	step    int // of the cycle, where the next batch begins
	first   int // of the cycle, where the batch in flight began
	batches int // answered since the connection was opened

	// The batch in flight; count is 0 if there is none.
	batch    *batch
	count    int           // requests in it
	unsent   []byte        // request bytes the kernel has not taken
	sentAt   time.Duration // since the start of the run
	answered int           // replies parsed; stays 0 while matching
	matched  int           // reply bytes found equal to those due
	parsing  bool          // replies are parsed, no longer only matched
	tail     []byte        // start of a reply, while parsing

	own   *batch        // verifying: the buffer of batch
	seq   uint64        // verifying: puts sent
	order *orderChecker // verifying
	item  []byte        // verifying: buffer of a value
}

// prepare sets up a batch of count requests and advances the cycle.
func (c *conn) prepare(p *plan, count int, now time.Duration) {
	if p.opts.Verify {
		c.own.build(p.protocol, p.cycle, c.step, count, p.queues[c.queue], c.nextItem(p))
		c.batch = c.own
	} else {
		c.batch = &p.batches[c.queue][c.step]
	}
	c.first, c.step = c.step, (c.step+count)%len(p.cycle)
	c.count = count
	c.unsent = c.batch.requests[:c.batch.requestEnd[count-1]]
	c.sentAt = now
	c.answered, c.matched = 0, 0
	c.parsing = p.opts.Verify || !c.batch.exact
	c.tail = c.tail[:0]
}

// nextItem returns the function that gives a verifying batch its items: each put a new one, and the
// requests up to the next put that same one.
func (c *conn) nextItem(p *plan) func(requestKind) []byte {
	return func(kind requestKind) []byte {
		if kind == putRequest {
			c.seq++
		}
		c.item = appendValue(c.item[:0], p.opts.ItemSize, uint32(c.queue), max(c.seq, 1)-1)
		return c.item
	}
}

// receive takes bytes that arrived and counts in t what they answer. It reports whether they
// completed the batch.
func (c *conn) receive(p *plan, t *tally, chunk []byte) (done bool, err error) {
	if !c.parsing {
		due := c.batch.replies[c.matched:c.batch.replyEnd[c.count-1]]
		if len(chunk) <= len(due) && bytes.Equal(chunk, due[:len(chunk)]) {
			c.matched += len(chunk)
			if len(chunk) < len(due) {
				return false, nil
			}
			t.answered(c, p)
			return true, nil
		}
		c.parsing = true
		c.tail = append(c.tail[:0], c.batch.replies[:c.matched]...)
	}
	if len(c.tail) > 0 {
		c.tail = append(c.tail, chunk...)
		n, err := c.parse(p, t, c.tail)
		c.tail = c.tail[:copy(c.tail, c.tail[n:])]
		return c.answered == c.count, err
	}
	n, err := c.parse(p, t, chunk)
	c.tail = append(c.tail, chunk[n:]...)
	return c.answered == c.count, err
}

// parse checks the whole replies in src and returns their size in bytes.
func (c *conn) parse(p *plan, t *tally, src []byte) (n int, err error) {
	r := request{queue: p.queues[c.queue], value: p.value}
	for n < len(src) {
		if c.answered == c.count {
			return n, c.wrong("bytes after the last reply", src[n:], nil)
		}
		r.kind = c.kind(p, c.answered)
		got, size := p.protocol.parseReply(src[n:], r)
		if size == 0 {
			return n, nil
		}
		if got.outcome == refused {
			return n, c.wrong("wrong reply", src[n:], c.batch.replyDue(c.answered))
		}
		if got.outcome == hit {
			if problem, want := c.checkItem(p, got.value); problem != "" {
				return n, c.wrong(problem, got.value, want)
			}
		}
		t.count(got.outcome)
		c.answered++
		n += size
	}
	return n, nil
}

// checkItem returns what is wrong with an item that a get returned, and the one due.
func (c *conn) checkItem(p *plan, item []byte) (problem string, want []byte) {
	switch {
	case len(item) != p.opts.ItemSize:
		return "item of another size", p.value
	case c.order != nil:
		return c.order.check(item)
	case !bytes.Equal(item, p.value):
		return "damaged item", p.value
	}
	return "", nil
}

// kind returns the kind of request i of the batch in flight.
func (c *conn) kind(p *plan, i int) requestKind {
	return p.cycle[(c.first+i)%len(p.cycle)]
}

// repliesWhole returns how many replies of the batch in flight have arrived.
func (c *conn) repliesWhole() int {
	n := c.answered
	for !c.parsing && n < c.count && c.batch.replyEnd[n] <= c.matched {
		n++
	}
	return n
}

// wrong returns a ReplyError that owns its bytes.
func (c *conn) wrong(problem string, got, want []byte) error {
	return &ReplyError{
		Connection: c.index,
		Request:    c.answered,
		Problem:    problem,
		Got:        bytes.Clone(got),
		Want:       bytes.Clone(want),
	}
}
