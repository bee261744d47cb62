package netloop

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kestrelmq/kestrel/engine"
)

// tally counts what a session has done.
type tally struct {
	number   uint64 // names the connection for as long as the server runs
	since    engine.Time
	last     engine.Time // bytes were received
	requests int64
	received int64 // bytes
	sent     int64 // bytes, those that the client has not read yet included
}

// Connection is what an operator sees of a client's connection.
type Connection struct {
	Number   uint64 // names it for as long as the server runs
	Peer     string // host:port
	Protocol string
	ClientID string // who the client says it is; "" if it does not
	User     string // who it is; "" if the listener does not ask
	Since    engine.Time
	Last     engine.Time // when bytes were received last; zero: never
	Requests int64
	Received int64  // bytes
	Sent     int64  // bytes
	Unread   int64  // bytes of replies that the client has not taken
	Waiting  string // queue that it waits for; "" if it does not
	// Open is how many reads are open on all queues. OpenReads are those of the queue that was asked for, and of up to
	// maxShown others, the queue with most first. Leases that a receipt ends, and so what Thrift's get leaves open, belong
	// to no connection, and are not among them: see engine.Holders.
	Open      int
	OpenReads []OpenReads
	oldest    engine.Time // of the queue that was asked for, or of all; see Oldest
}

// OpenReads are the open reads of a connection on a queue.
type OpenReads struct {
	Queue  string
	Count  int
	Oldest engine.Time // when the oldest was opened; zero: all that were looked at have ended by themselves
}

// Oldest returns when the oldest open read of the connection on a queue, or with "" on any in OpenReads, was opened; zero
// without one.
func (c *Connection) Oldest(queue string) (oldest engine.Time) {
	for _, r := range c.OpenReads {
		if (queue == "" || queue == r.Queue) && r.Oldest > 0 && (oldest == 0 || r.Oldest < oldest) {
			oldest = r.Oldest
		}
	}
	return oldest
}

// connectionsBatch is how many connections a loop describes before it goes on with its clients.
const connectionsBatch = 128

// errLoopEnded is returned while the server stops.
var errLoopEnded = errors.New("netloop: the server is stopping")

// onLoop has a loop's goroutine call f and waits until it has.
func (s *Server) onLoop(ctx context.Context, d *driver, f func()) error {
	done := make(chan struct{})
	d.do(func() {
		f()
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-s.stopped:
		return errLoopEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eachConnection calls visit with the connections, some at a time, as they are described to somebody who asks for a queue.
// It looks at a hundred or so of one loop and then lets clients go on. Connections that come and go meanwhile may or may
// not be among them. It returns why the loops could not be asked.
func (s *Server) eachConnection(ctx context.Context, queue string, visit func([]Connection)) error {
	for _, d := range s.loops {
		for at, more := 0, true; more; {
			var found []Connection
			if err := s.onLoop(ctx, d, func() { found, at, more = d.describe(at, queue) }); err != nil {
				return err
			}
			visit(found)
		}
	}
	return nil
}

// EndConnection closes the connection with a number, as if its client had gone: what it has open goes
// back to its queues. It reports false if there is none.
func (s *Server) EndConnection(ctx context.Context, number uint64) (ended bool, err error) {
	return s.onConnection(ctx, number, func(d *driver, c *conn) { d.end(c, true) })
}

// ReturnReads gives back the open reads of the connection with a number, as an abort of each would. If there are many,
// most come back a little later. It reports false if there is no such connection.
func (s *Server) ReturnReads(ctx context.Context, number uint64) (found bool, err error) {
	return s.onConnection(ctx, number, func(d *driver, c *conn) { d.bringBack(&c.session, func(int) {}) })
}

// onConnection has the loop of the connection with a number call f.
func (s *Server) onConnection(ctx context.Context, number uint64, f func(*driver, *conn)) (found bool, err error) {
	for _, d := range s.loops {
		err := s.onLoop(ctx, d, func() {
			for _, c := range d.conns {
				if c != nil && c.session.tally.number == number {
					d.begin()
					f(d, c)
					found = true
					return
				}
			}
		})
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// Reidentify has all connections be who they are among the users of now, after Options.Access got others. Those of
// users that are gone end.
func (s *Server) Reidentify() {
	for _, d := range s.loops {
		d.do(func() { d.reidentify(0) })
	}
}

// reidentify does so from the descriptor at on, some connections at a time.
func (d *driver) reidentify(at int) {
	d.begin()
	users := d.server.opts.Access.Users()
	for end := min(at+connectionsBatch, len(d.conns)); at < end; at++ {
		if c := d.conns[at]; c != nil {
			d.guard(&c.session, func(s *session) { s.reidentify(users) })
		}
	}
	if at < len(d.conns) {
		d.do(func() { d.reidentify(at) })
	}
}

// describe describes connections from the descriptor at on, as far as the turn has time for them. It returns where to go
// on, and whether there are more.
func (d *driver) describe(at int, queue string) (found []Connection, next int, more bool) {
	d.begin()
	turn := d.newShare()
	for ; at < len(d.conns) && len(found) < connectionsBatch && !turn.spent(); at++ {
		if c := d.conns[at]; c != nil {
			found = append(found, c.session.describe(queue))
			d.watchdog.end("describing a connection", nil)
		}
	}
	return found, at, at < len(d.conns)
}

// describe returns what an operator sees of the session who asks for a queue, or for none.
func (s *session) describe(queue string) Connection {
	c := Connection{
		Number: s.tally.number, Peer: s.sink.peer(), Protocol: s.proto.name(), ClientID: s.clientID,
		Since: s.tally.since, Last: s.tally.last, Requests: s.tally.requests, Received: s.tally.received,
		Sent: s.tally.sent, Unread: int64(s.sink.unsentBytes()), Open: s.reads.open,
		OpenReads: s.reads.list(s.loop.engine, queue),
	}
	if u := s.id.user; u != nil {
		c.User = u.Name
	}
	if s.state == waiting && s.wait.kind != waitJob {
		c.Waiting = string(s.wait.name)
	}
	return c
}

// What the loop looks at to describe one connection, as its clients wait meanwhile. Of a queue it looks at oldestLook open
// reads to find the oldest: earlier ones may have ended by themselves. It looks at queuesLook queues, and shows the
// maxShown that have most open reads.
const (
	oldestLook = 16 << 10
	queuesLook = 512
	maxShown   = 32
)

// list returns the reads that are open, by queue, the queue with most first. Of many queues it shows few, and the one
// called queue among them.
func (o *openReads) list(e *engine.Engine, queue string) (list []OpenReads) {
	asked := o.queues[queue]
	looked := 0
	for name, q := range o.queues {
		if looked++; looked > queuesLook {
			break
		}
		if n := q.len(); n > 0 && q != asked {
			list = append(list, OpenReads{name, n, 0})
		}
	}
	order := func(a, b OpenReads) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Queue, b.Queue)) }
	slices.SortFunc(list, order)
	list = slices.Clip(list[:min(len(list), maxShown)])
	if n := asked.len(); n > 0 {
		list = append(list, OpenReads{queue, n, 0})
		slices.SortFunc(list, order)
	}
	for i := range list {
		q, n := o.queues[list[i].Queue], list[i].Count
		list[i].Oldest = e.OldestOpen(q.refs[q.head:][:min(n, oldestLook)])
	}
	return list
}

// orders are how a list of connections may be sorted: each puts first what is most.
var orders = map[string]func(a, b *Connection) int{
	"open":     func(a, b *Connection) int { return b.Open - a.Open },
	"age":      func(a, b *Connection) int { return cmp.Compare(a.Since, b.Since) },
	"idle":     func(a, b *Connection) int { return cmp.Compare(a.Last, b.Last) },
	"requests": func(a, b *Connection) int { return cmp.Compare(b.Requests, a.Requests) },
	"received": func(a, b *Connection) int { return cmp.Compare(b.Received, a.Received) },
	"sent":     func(a, b *Connection) int { return cmp.Compare(b.Sent, a.Sent) },
	"unread":   func(a, b *Connection) int { return cmp.Compare(b.Unread, a.Unread) },
	"oldest": func(a, b *Connection) int { // one without an open read comes last
		return cmp.Compare(uint64(a.oldest)-1, uint64(b.oldest)-1)
	},
}

// ConnectionQuery says which connections ListConnections returns.
type ConnectionQuery struct {
	Queue string // that they wait for or have open reads on; "" for any
	Order string // open, oldest, age, idle, requests, received, sent or unread; "" is open
	Limit int    // at most so many; 0 is DefaultConnections
}

// Bounds of ListConnections.
const (
	DefaultConnections = 100
	MaxListed          = 10_000
)

// ErrOrder is returned for an order that there is not.
var ErrOrder = errors.New("netloop: order must be open, oldest, age, idle, requests, received, sent or unread")

// ListConnections returns the connections that come first in an order, and how many match in all. It
// keeps no more than twice the limit in memory, however many there are. It returns ErrOrder.
func (s *Server) ListConnections(ctx context.Context, q ConnectionQuery) (list []Connection, matched int, err error) {
	by, ok := orders[cmp.Or(q.Order, "open")]
	if !ok {
		return nil, 0, ErrOrder
	}
	limit := min(cmp.Or(q.Limit, DefaultConnections), MaxListed)
	sortAll := func() {
		slices.SortFunc(list, func(a, b Connection) int { return cmp.Or(by(&a, &b), cmp.Compare(a.Number, b.Number)) })
	}
	err = s.eachConnection(ctx, q.Queue, func(some []Connection) {
		for _, c := range some {
			if q.Queue == "" || c.concerns(q.Queue) {
				matched++
				c.oldest = c.Oldest(q.Queue)
				list = append(list, c)
			}
		}
		if len(list) > 2*limit {
			sortAll()
			clear(list[limit:])
			list = list[:limit]
		}
	})
	sortAll()
	return list[:min(len(list), limit)], matched, err
}

// concerns reports whether the connection waits for a queue, or has open reads on it.
func (c *Connection) concerns(queue string) bool {
	return c.Waiting == queue || slices.ContainsFunc(c.OpenReads, func(r OpenReads) bool { return r.Queue == queue })
}
