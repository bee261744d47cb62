package loadtest

import "fmt"

// order is what a consumer can expect of the sequence numbers of one producer.
type order uint8

const (
	anyOrder    order = iota // clients that vanish put items back
	risingOrder              // several consumers share the queue
	exactOrder               // the consumer is the only one: not one may be left out
)

// consumer checks the items that one connection gets from one queue. Its methods belong to the
// connection's thread.
type consumer struct {
	ledger *Ledger
	queue  *ledgerQueue
	order  order

	next    []uint64 // by feed: the least sequence number that may follow; guarded by queue.mu
	letters letters
	scratch []byte // the value due
}

// consumer returns the index-th consumer of a queue, for items up to size bytes.
func (l *Ledger) consumer(queue string, index, size int, o order) *consumer {
	at := place{queue, index}
	c := l.consumers[at]
	if c == nil {
		c = &consumer{ledger: l, queue: l.queue(queue)}
		l.consumers[at] = c
	}
	c.order = o
	c.letters = newLetters(size)
	return c
}

// check returns what is wrong with an item, or the empty string, and the value that was due, which
// is valid until the next call. Foreign says that the item is of another run, and passed over.
func (c *consumer) check(value []byte) (s stamp, foreign bool, problem string, want []byte) {
	s, ok := parseStamp(value)
	if ok && s.run != c.ledger.run || !ok && c.ledger.foreign {
		if c.ledger.foreign {
			c.ledger.strange.Add(1)
			return s, true, "", nil
		}
		return s, false, "item that this run did not put", nil
	}
	if !ok {
		return s, false, "value without a stamp", nil
	}
	f, p := c.feed(s)
	if f == nil {
		return s, false, "item that was not put to this queue", nil
	}
	if len(value) != p.size {
		return s, false, fmt.Sprintf("item of %d bytes, want %d", len(value), p.size), c.due(p, s)
	}
	if len(c.letters) < len(value)+len(alphabet) {
		c.letters = newLetters(len(value))
	}
	if string(value[stampSize:]) != string(c.letters.of(s, len(value)-stampSize)) {
		return s, false, "damaged value", c.due(p, s)
	}
	if s.seq >= p.sent.Load() {
		return s, false, fmt.Sprintf("item %d, of which only %d were put", s.seq, p.sent.Load()), nil
	}
	if problem, due := c.take(f, s.seq); problem != "" {
		s.seq = due
		return s, false, problem, c.due(p, s)
	}
	c.ledger.got.Add(1)
	return s, false, "", nil
}

// due returns the value that a stamp should have.
func (c *consumer) due(p *producer, s stamp) []byte {
	if len(c.letters) < p.size+len(alphabet) {
		c.letters = newLetters(p.size)
	}
	c.scratch = appendValue(c.scratch[:0], p.size, s, c.letters)
	return c.scratch
}

// feed returns the feed of the consumer's queue that a stamp is from, or nil.
func (c *consumer) feed(s stamp) (*feed, *producer) {
	if int(s.producer) >= len(c.ledger.producers) {
		return nil, nil
	}
	p := c.ledger.producers[s.producer]
	for _, f := range p.feeds {
		if f.queue == c.queue {
			return f, p
		}
	}
	return nil, nil
}

// take marks an item as got. It returns what is wrong with it, or the empty string, and the
// sequence number that was due.
func (c *consumer) take(f *feed, seq uint64) (problem string, due uint64) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if f.index >= len(c.next) {
		c.next = append(c.next, make([]uint64, c.queue.feeds-len(c.next))...)
	}
	if must, returned := f.returned[seq]; returned {
		delete(f.returned, seq)
		if must {
			c.ledger.owed.Add(-1)
		}
		if must || !f.seen.add(seq) {
			c.ledger.again.Add(1)
			return "", seq
		}
		c.ledger.owed.Add(-1)
		return "", seq
	}
	due = c.next[f.index]
	if c.order == exactOrder {
		due = f.seen.first()
	}
	if !f.seen.add(seq) {
		return fmt.Sprintf("item %d for the second time", seq), due
	}
	c.ledger.owed.Add(-1)
	if c.order == exactOrder && seq != due || c.order == risingOrder && seq < due {
		return fmt.Sprintf("item %d out of order, due is %d", seq, due), due
	}
	c.next[f.index] = max(due, seq+1)
	return "", seq
}

// expect takes note that an item just got will be delivered again, or with must false that it may.
func (c *consumer) expect(s stamp, must bool) {
	f, _ := c.feed(s)
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if f.returned == nil {
		f.returned = make(map[uint64]bool)
	}
	if was := f.returned[s.seq]; must && !was {
		c.ledger.owed.Add(1)
	}
	f.returned[s.seq] = must || f.returned[s.seq]
}

// held names the open reads of a connection, oldest first. Its memory is reused.
type held struct {
	ids  []byte
	ends []int // ends[i] is the offset behind id i
}

func (h *held) add(id []byte) {
	h.ids = append(h.ids, id...)
	h.ends = append(h.ends, len(h.ids))
}

func (h *held) len() int { return len(h.ends) }

func (h *held) at(i int) []byte {
	start := 0
	if i > 0 {
		start = h.ends[i-1]
	}
	return h.ids[start:h.ends[i]]
}

func (h *held) reset() { h.ids, h.ends = h.ids[:0], h.ends[:0] }
