package loadtest

import (
	"bytes"
	"fmt"
	"time"
)

// parse checks the whole replies in src and returns their size in bytes.
func (c *conn) parse(t *tally, src []byte, now time.Duration) (n int, err error) {
	for n < len(src) {
		got, size := c.group.protocol.parseReply(src[n:], &c.now)
		if c.answered == c.count && (size == 0 || got.outcome != noise) {
			return n, c.wrong("bytes after the last reply", src[n:], nil)
		}
		if size == 0 {
			return n, nil
		}
		switch got.outcome {
		case refused:
			return n, c.wrong("wrong reply", src[n:], c.batch.replyDue(c.answered))
		case hit:
			if err := c.takeAll(t, &got, now); err != nil {
				return n, err
			}
		case miss:
			t.kinds[c.now.kind].misses++
			c.lastOpen = false
		case accepted:
			c.accept(t)
		}
		n += size
		if got.outcome != noise && !got.more {
			c.answered++
			if c.answered < c.count {
				c.begin()
			}
		}
	}
	return n, nil
}

// accept counts a reply without items.
func (c *conn) accept(t *tally) {
	if c.now.kind != putRequest {
		return
	}
	t.kinds[putRequest].items += int64(c.group.Burst)
	if c.producer != nil {
		c.producer.acknowledge(c.group.Burst)
	}
}

// takeAll takes the items of a reply.
func (c *conn) takeAll(t *tally, got *reply, now time.Duration) error {
	if got.value != nil {
		return c.take(t, got.value, got.id, now)
	}
	for it, ok := got.list.Next(); ok; it, ok = got.list.Next() {
		var id [8]byte
		if err := c.take(t, it.Data, appendID(id[:0], it.ID), now); err != nil {
			return err
		}
	}
	return nil
}

// take checks and counts one item.
func (c *conn) take(t *tally, value, id []byte, now time.Duration) error {
	kind := c.now.kind
	c.now.got++
	if c.now.got > c.now.count {
		return c.wrong(fmt.Sprintf("more than %d items", c.now.count), value, nil)
	}
	forget := false
	if c.consumer != nil {
		s, foreign, problem, want := c.consumer.check(value)
		if problem != "" {
			return c.wrong(problem, value, want)
		}
		if !foreign {
			recordValues(&t.delivery, max(now+t.offset-s.at, 1), 1)
			c.last, c.lastOpen = s, kind.opens()
			forget = c.group.Leak > 0 && t.random.Float64() < c.group.Leak
		}
		if forget {
			c.consumer.expect(s, true)
		}
		if t.onItem != nil && !foreign {
			t.onItem(Item{string(c.name), int(s.producer), s.seq}, forget)
		}
	} else if problem := c.checkTemplate(value); problem != "" {
		return c.wrong(problem, value, c.group.items[0])
	}
	t.kinds[kind].items++
	c.taken++
	if kind.opens() && c.group.stepwise && !forget {
		c.open.add(id)
	}
	return nil
}

// checkTemplate returns what is wrong with an item in a run whose values are all alike.
func (c *conn) checkTemplate(value []byte) string {
	switch {
	case len(value) != c.group.ItemSize:
		return "item of another size"
	case !bytes.Equal(value, c.group.items[0]):
		return "damaged item"
	}
	return ""
}

// wrong returns a ReplyError that owns its bytes.
func (c *conn) wrong(problem string, got, want []byte) error {
	return &ReplyError{
		Queue:      string(c.name),
		Operation:  c.group.Operation,
		Connection: c.index,
		Request:    c.answered,
		Problem:    problem,
		Got:        bytes.Clone(got[:min(len(got), maxErrorBytes+1)]),
		Want:       bytes.Clone(want[:min(len(want), maxErrorBytes+1)]),
		GotSize:    len(got),
		WantSize:   len(want),
	}
}
