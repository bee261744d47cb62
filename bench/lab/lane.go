package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// lane is one client and the queues that it alone uses. So what its queues hold follows from what
// it has sent. After a crash they must have what they had behind some request. That is the last one that was
// acknowledged, the last one sent, or one between them.
//
// It belongs to the goroutine that runs it; between two runs to that of the experiment.
type lane struct {
	t        *trial
	name     string
	protocol string
	policy   string // sync_journal of its queues
	targets  []string
	queues   []string // all of them, those that only routes lead to included
	routes   map[string][][]string

	next    int    // number of the next item
	known   *model // what the answers so far make of the queues
	base    *model // known as it was when the server started
	history []step // since then
	cutAt   time.Time
	small   bool          // no item is large
	heavy   bool          // each may be
	pause   time.Duration // between batches
	forget  bool          // keep no history of what has been acknowledged
	ahead   int           // requests that it sends before it waits for replies, at most
}

// step is a request that was sent.
type step struct {
	request request
	acked   time.Time // when its reply came; zero if it did not
}

const (
	maxBatch  = 16  // requests sent ahead of their replies
	maxQueued = 120 // items in a queue before the lane takes more than it puts
	maxOpens  = 10  // of a queue
)

func newLane(t *trial, name, protocol, policy string) *lane {
	l := &lane{t: t, name: name, protocol: protocol, policy: policy, next: 1, ahead: maxBatch}
	l.targets = []string{name + "-a", name + "-b"}
	l.queues = l.targets
	l.known = newModel(nil)
	l.base = l.known.clone()
	return l
}

// body returns the bytes of an item: its lane and number, and then noise that both determine.
func (l *lane) body(item int) []byte {
	rng := rand.New(rand.NewPCG(uint64(item), uint64(len(l.name))))
	size := rng.IntN(200)
	if large := rng.IntN(100) == 0 || l.heavy; large && !l.small {
		size = rng.IntN(30_000)
	}
	b := fmt.Appendf(make([]byte, 0, size+40), "%s/%d/", l.name, item)
	for range size {
		c := byte(rng.Uint32())
		if l.protocol == "text" && (c == '\n' || c == '\r') {
			c = '-'
		}
		b = append(b, c)
	}
	return append(b, '.')
}

// itemOf returns the number of the item with that body, or why it is none of the lane's.
func (l *lane) itemOf(data []byte) (int, error) {
	parts := bytes.SplitN(data, []byte("/"), 3)
	if len(parts) < 3 || string(parts[0]) != l.name {
		return 0, fmt.Errorf("a foreign item: %.60q", data)
	}
	item, err := strconv.Atoi(string(parts[1]))
	if err != nil || item < 1 || item >= l.next {
		return 0, fmt.Errorf("an item that was never put: %.60q", data)
	}
	if !bytes.Equal(data, l.body(item)) {
		return 0, fmt.Errorf("item %d with other bytes than were put: %.60q", item, data)
	}
	return item, nil
}

// run sends requests until the connection ends; acked is called for each reply. An answer that is
// not what it should be is a violation.
func (l *lane) run(s *server, rng *rand.Rand, acked func()) {
	c, err := dial(s, l.protocol)
	if err != nil {
		return
	}
	defer c.conn.Close()
	for {
		if l.forget {
			l.history, l.base = l.history[:0], l.known.clone()
		}
		time.Sleep(l.pause)
		batch := l.draw(rng)
		first := len(l.history)
		for _, r := range batch {
			l.history = append(l.history, step{request: r})
		}
		if c.send(batch, l.body) != nil {
			return
		}
		for i, r := range batch {
			a, err := c.receive(r)
			var garbled *garbledError
			if errors.As(err, &garbled) {
				l.t.violate("%s: %v", l.name, err)
			}
			if err != nil {
				return
			}
			if a.refusal != "" {
				l.refused(r, a)
				return
			}
			l.history[first+i].acked = time.Now()
			l.check(r, a)
			acked()
		}
	}
}

// refused notes a request that the server refused, after which the lane stops.
func (l *lane) refused(r request, a answer) {
	if !l.t.refusals.Load() {
		l.t.violate("%s: %v was refused: %s", l.name, r, a.refusal)
	}
	l.t.counts.refusals.Add(1)
}

// check compares the answer to r with what the lane knows.
func (l *lane) check(r request, a answer) {
	want := l.known.apply(r, func() {})
	if a.count != want.count || len(a.items) != len(want.items) {
		l.t.violate("%s: %v got count %d and %d items, want %d and %d", l.name, r, a.count, len(a.items),
			want.count, len(want.items))
		return
	}
	for i, it := range a.items {
		if item := int(want.items[i].id); !bytes.Equal(it.data, l.body(item)) {
			l.t.violate("%s: %v got %.60q, want item %d", l.name, r, it.data, item)
		}
	}
	switch r.op {
	case opPut:
		l.t.counts.puts.Add(int64(len(r.items)))
	case opOpen:
		if q := l.known.queue(r.queue); len(a.items) > 0 {
			q.open[len(q.open)-1].id = a.items[0].id
		}
	case opGet, opConfirm:
		l.t.counts.removals.Add(int64(max(a.count, len(a.items))))
	case opFlush, opDelete:
		l.t.counts.removals.Add(1)
	}
}

// draw makes up the next requests.
func (l *lane) draw(rng *rand.Rand) []request {
	ahead := l.known.clone()
	var batch []request
	for range 1 + rng.IntN(l.ahead) {
		r, ok := l.drawOne(rng, ahead)
		if !ok {
			continue
		}
		ahead.apply(r, func() {})
		batch = append(batch, r)
	}
	if len(batch) == 0 {
		return l.draw(rng)
	}
	return batch
}

// drawOne makes up one request, unless what was drawn makes no sense now.
func (l *lane) drawOne(rng *rand.Rand, ahead *model) (request, bool) {
	s := speakers()[l.protocol]
	puts := 45
	if l.size(ahead) > maxQueued {
		puts = 5
	}
	if rng.IntN(100) < puts {
		return l.drawPut(rng), true
	}
	queue := l.queues[rng.IntN(len(l.queues))]
	q := ahead.queue(queue)
	r := request{queue: queue}
	switch n := rng.IntN(100); {
	case n < 30:
		r.op, r.count = opGet, 1
		if l.protocol == "thrift" {
			r.count += rng.IntN(4)
		}
		return r, s.can(r.op) && len(q.open) == 0
	case n < 55:
		r.op = opOpen
		if l.protocol == "text" {
			r.confirm = len(q.open)
		} else if l.protocol == "memcache" && len(q.open) > 0 {
			r.confirm = rng.IntN(2)
		}
		return r, s.can(r.op) && len(q.open) < maxOpens
	case n < 80:
		r.op, r.count = opConfirm, 1+rng.IntN(3)
		return r, l.nameReads(&r, q)
	case n < 88:
		r.op, r.count = opAbort, 1
		return r, s.can(r.op) && l.nameReads(&r, q)
	case n < 96:
		r.op = opPeek
		if l.protocol == "text" {
			r.confirm = len(q.open)
		}
		return r, s.can(r.op)
	case n < 98:
		r.op = opFlush
		return r, true
	}
	r.op = opDelete
	return r, len(q.open) == 0 && l.routes == nil
}

// nameReads makes r one about the oldest open reads of q, if there are so many.
func (l *lane) nameReads(r *request, q *modelQueue) bool {
	if len(q.open) < r.count {
		return false
	}
	for _, o := range q.open[:r.count] {
		if l.protocol == "thrift" && o.id == 0 {
			return false // its reply is still to come
		}
		r.ids = append(r.ids, o.id)
	}
	return true
}

func (l *lane) drawPut(rng *rand.Rand) request {
	r := request{op: opPut, queue: l.targets[rng.IntN(len(l.targets))], items: []int{l.next}}
	l.next++
	for l.protocol != "memcache" && rng.IntN(3) == 0 {
		r.items = append(r.items, l.next)
		l.next++
	}
	return r
}

func (l *lane) size(m *model) int {
	most := 0
	for _, q := range m.queues {
		most = max(most, len(q.ready)+len(q.open))
	}
	return most
}

// found checks what the queues hold after a crash. It must be what they held at the end of step from, or of a later
// one, or in the middle of one of those.
func (l *lane) found(state durable, from int) {
	l.t.counts.checks.Add(1)
	m := l.base
	explained, last := from == 0 && m.durable().equal(state), m.durable()
	for i, st := range l.history {
		look := func() {
			last = m.durable()
			explained = explained || last.equal(state)
		}
		switch {
		case explained:
		case i < from-1:
			m.apply(st.request, func() {})
		case i == from-1:
			m.apply(st.request, func() {})
			look()
		default:
			m.apply(st.request, look)
		}
	}
	if !explained {
		l.t.violate("%s (%s, sync_journal %s): after the crash its queues hold\n  %v\nwhich they did"+
			" not at any time from request %d to %d; behind the last one they held\n  %v\n%s",
			l.name, l.protocol, l.policy, state, from, len(l.history), last, l.tail())
	}
	l.known.adopt(state)
	l.base = l.known.clone()
	l.history = l.history[:0]
}

// tail is the end of the history, in words.
func (l *lane) tail() string {
	var b bytes.Buffer
	for i := max(len(l.history)-2*maxBatch, 0); i < len(l.history); i++ {
		st := l.history[i]
		fmt.Fprintf(&b, "  %d %v acknowledged %t\n", i+1, st.request, !st.acked.IsZero())
	}
	return b.String()
}

// ackedBefore returns how many requests, from the first on, had been acknowledged at a time.
func (l *lane) ackedBefore(at time.Time) int {
	n := 0
	for n < len(l.history) && !l.history[n].acked.IsZero() && l.history[n].acked.Before(at) {
		n++
	}
	return n
}
