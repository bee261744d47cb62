package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

const (
	// maxCover is how many servers are asked at the same time for nobody in particular: of more, each
	// has its turn.
	maxCover = 16
	// holdSurplus is how long an item that nobody wants yet is held before it is given back.
	holdSurplus = 250 * time.Millisecond
	// maxRound is how many leased items one request asks for at most.
	maxRound = 256
	// keepSlot is how long a connection that is not used is kept.
	keepSlot = 30 * time.Second
)

// A Consumer takes items of one queue tentatively from all servers of the read set. Each is delivered again, here or
// elsewhere, unless it is confirmed.
//
// While a caller waits in Next, the consumer has a blocking get at every server. It hands items out in the order in
// which they come. So items of all servers get their share, and one that arrives anywhere is there at once. A server
// that has just had an item has as many more gets as there are callers of Next. Each get has a connection of its own
// until its item is confirmed: that is all that servers with max_open_transactions 1, the default, allow. With leases,
// one connection to a server asks for as many items as callers wait for, and another ends them.
//
// So beyond what Next has handed out, a consumer holds few items. That is one for each server, and one for each ended
// call of Next. It gives back what nobody asks for within a quarter of a second. With more than 16 servers, and more
// than callers of Next, servers take turns.
//
// A server that leaves the read set has nothing new opened; what is open is ended there as usual.
// All methods may be called from any goroutine.
type Consumer struct {
	// Immutable.
	client   *Client
	queue    string
	name     []byte        // as the protocol has it
	lease    time.Duration // of items; zero: they are open as long as their connection lives
	lends    bool          // its callers confirm what they get by confirmAndNext
	requests requests
	ctx      context.Context // ends with Close, and with the client
	cancel   context.CancelCauseFunc

	mu sync.Mutex
	// Guarded by mu. Client.mu may be taken inside it, and it inside Delivery.mu; never the other way
	// round.
	closed   bool
	stations []*station // of the read set
	turn     int        // where in stations the next round begins
	waiters  []*waiter  // calls of Next, the oldest first
	coming   int        // callers whose get went out with a confirm, and that will call Next at once
	ready    []*Delivery
	lastErr  error      // why a server failed last; nil since one answered
	had      []*station // room for schedule
}

// waiter is a call of Next. What it gets is sent under Consumer.mu, once it is out of line.
type waiter struct{ got chan *Delivery }

// spareWaiters has waiters that are out of line, and have what was sent to them.
var spareWaiters = sync.Pool{New: func() any { return &waiter{got: make(chan *Delivery, 1)} }}

// requests are what a consumer writes, again and again the same.
type requests struct {
	get, getInTurn, more          []byte // waits, waits for a turn, does not wait
	confirm, abort, confirmAndGet []byte // of an open item
}

// Consume returns a consumer of a queue. Close it.
func (c *Client) Consume(queue string) (*Consumer, error) { return c.consume(queue, 0, false) }

// consume is Consume for items that are leased for so long, or open if that is zero; lends is as in Consumer.
func (c *Client) consume(queue string, lease time.Duration, lends bool) (*Consumer, error) {
	name, err := wire.Name(queue)
	if err != nil {
		return nil, wordy("consume", queue, "", err)
	}
	k := &Consumer{client: c, queue: queue, name: name, lease: lease, lends: lends}
	k.requests = requests{
		get: k.appendGet(nil, longWait), getInTurn: k.appendGet(nil, turnWait), more: k.appendGet(nil, 0),
		confirm:       memcache.AppendGet(nil, name, memcache.GetOptions{Close: true}),
		abort:         memcache.AppendGet(nil, name, memcache.GetOptions{Abort: true}),
		confirmAndGet: memcache.AppendGet(nil, name, memcache.GetOptions{Close: true, Open: true}),
	}
	k.ctx, k.cancel = context.WithCancelCause(c.ctx)
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	closed := c.closed
	c.consumers[k] = true
	servers := c.members.Read
	c.mu.Unlock()
	if closed {
		k.Close()
		return nil, wordy("consume", queue, "", ErrClosed)
	}
	k.setServers(rotated(servers))
	return k, nil
}

// Next waits for an item. When ctx ends it returns the cause, with why a server failed if one did.
func (c *Consumer) Next(ctx context.Context) (*Delivery, error) { return c.next(ctx, false) }

// next is Next for a caller whose get went out with a confirm, or not.
func (c *Consumer) next(ctx context.Context, asked bool) (*Delivery, error) {
	c.mu.Lock()
	if asked {
		c.coming--
	}
	var err error
	switch {
	case c.closed:
		err = ErrClosed
	case ctx.Err() != nil:
		err = cause(ctx)
	}
	if err != nil {
		c.holdReady()
		c.mu.Unlock()
		return nil, wordy("get from", c.queue, "", err)
	}
	if len(c.ready) > 0 {
		d := c.ready[0]
		c.ready = slices.Delete(c.ready, 0, 1)
		d.claim()
		c.mu.Unlock()
		return d, nil
	}
	w := spareWaiters.Get().(*waiter)
	defer spareWaiters.Put(w)
	c.waiters = append(c.waiters, w)
	c.schedule()
	c.mu.Unlock()
	select {
	case d := <-w.got:
		return d, nil
	case <-ctx.Done():
		return nil, c.leaveLine(w, cause(ctx))
	case <-c.ctx.Done():
		return nil, c.leaveLine(w, ErrClosed)
	}
}

// leaveLine ends a call of Next without an item. One that has just come is for others.
func (c *Consumer) leaveLine(w *waiter, why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiters, w); i >= 0 {
		c.waiters = slices.Delete(c.waiters, i, i+1)
	} else if d := <-w.got; d != nil {
		c.handOut(d)
	}
	if c.lastErr != nil && !errors.Is(why, ErrClosed) {
		why = fmt.Errorf("%w; the last that was heard: %w", why, c.lastErr)
	}
	return wordy("get from", c.queue, "", why)
}

// Close ends the consumer: calls of Next end with [ErrClosed], and items that nobody has taken are
// given back. What Next has handed out can still be confirmed and aborted.
func (c *Consumer) Close() {
	c.client.mu.Lock()
	delete(c.client.consumers, c)
	c.client.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, d := range c.ready {
		d.claim()
		d.letGo()
	}
	c.ready = nil
	for _, st := range c.stations {
		st.leave()
	}
	c.stations = nil
	c.cancel(ErrClosed)
}

// setServers makes servers the read set.
func (c *Consumer) setServers(servers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.stations = slices.DeleteFunc(c.stations, func(st *station) bool {
		gone := !slices.Contains(servers, st.server)
		if gone {
			st.leave()
		}
		return gone
	})
	for _, server := range servers {
		if !slices.ContainsFunc(c.stations, func(st *station) bool { return st.server == server }) {
			c.stations = append(c.stations, &station{server: server})
		}
	}
	c.schedule()
}

// schedule has servers asked for what is wanted; mu is held. Every server is asked by one get, or as many in turn as
// may be. The servers that had an item last share as many gets as there are callers.
func (c *Consumer) schedule() {
	if len(c.waiters) == 0 || c.closed || len(c.stations) == 0 {
		return
	}
	wanted := len(c.waiters) + c.coming
	now := time.Now()
	limit := max(wanted, maxCover)
	asked := 0
	had := c.had[:0] // that had an item last
	busy := 0        // gets under way there
	for _, st := range c.stations {
		asked += st.waiting
		if st.hit && st.usable(now) {
			had = append(had, st)
			busy += st.waiting
		}
	}
	for range len(c.stations) {
		st := c.stations[c.turn%len(c.stations)]
		if asked >= limit && !st.hit {
			break // the next round goes on with this one
		}
		c.turn++
		if st.waiting == 0 && st.usable(now) {
			st.plan = 1
			asked++
			if st.hit {
				busy++
			}
		}
	}
	for ; busy < wanted; busy++ {
		st := c.least(had)
		if st == nil {
			break
		}
		st.plan++
	}
	c.had = had[:0]
	c.issuePlans(c.turnOf(limit))
}

// least returns that of some stations with the fewest gets that can have another; nil if none can. With leases one
// connection asks for many items in a round. Those that come to want more wait for its end, and so share the next one.
func (c *Consumer) least(among []*station) (least *station) {
	for _, st := range among {
		if c.lease > 0 && (st.waiting > 0 || st.plan >= maxRound) {
			continue
		}
		if least == nil || st.waiting+st.plan < least.waiting+least.plan {
			least = st
		}
	}
	return least
}

// issuePlans has slots ask for what is planned.
func (c *Consumer) issuePlans(wait time.Duration) {
	for _, st := range c.stations {
		for st.plan > 0 {
			n := 1
			if c.lease > 0 {
				n = st.plan
			}
			st.plan -= n
			if !c.issue(st, order{wait: wait, n: n}) {
				return
			}
		}
	}
}

// turnOf returns how long a get waits if limit servers are asked at the same time; mu is held.
func (c *Consumer) turnOf(limit int) time.Duration {
	if len(c.stations) > limit {
		return turnWait
	}
	return longWait
}

// request returns an order as a request: the first get of it waits, and the others take what is there then.
func (c *Consumer) request(o order) []byte {
	request := c.requests.get
	if o.wait == turnWait {
		request = c.requests.getInTurn
	}
	if o.n > 1 {
		request = slices.Grow(slices.Clip(request), (o.n-1)*len(c.requests.more))
		for range o.n - 1 {
			request = append(request, c.requests.more...)
		}
	}
	return request
}

func (c *Consumer) appendGet(dst []byte, wait time.Duration) []byte {
	options := memcache.GetOptions{Open: true}
	if wait > 0 {
		options.WaitMillis = millis(wait)
	}
	if c.lease > 0 {
		options.Open, options.Lease, options.LeaseMillis = false, true, int64(millis(c.lease))
		options.CAS, options.Meta = true, true
	}
	return memcache.AppendGet(dst, c.name, options)
}

// askWithConfirm reports whether a get that does not wait may be sent with the confirm of a slot's item. It is for a
// caller that will be in Next soon. It may if nothing lies ready, and schedule would ask this server once more for that
// caller. The slot then asks. The delivery is open, and its lock held.
func (c *Consumer) askWithConfirm(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := s.station
	if c.closed || st.leaving || s.asking > 0 || !st.hit || len(c.ready) > 0 || !slices.Contains(st.slots, s) {
		return false
	}
	busy := 0
	for _, other := range c.stations {
		if other.hit {
			busy += other.waiting
		}
	}
	if busy > len(c.waiters)+c.coming {
		return false
	}
	c.coming++
	s.asking = 1
	s.withConfirm = true
	st.waiting++
	return true
}

// widen returns how many items a round of a slot asks for that was meant for n. If the server had any the last time, it
// asks for callers as well that have come meanwhile.
func (c *Consumer) widen(s *slot, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := s.station
	if !st.hit || st.leaving {
		return n
	}
	busy, had := 0, 0
	for _, other := range c.stations {
		if other.hit {
			busy += other.waiting
			had++
		}
	}
	if missing := len(c.waiters) + c.coming - busy; missing > 0 {
		more := min((missing+had-1)/had, maxRound-n)
		st.waiting += more
		s.asking += more
		n += more
	}
	return n
}

// issue has a slot of a station ask for an item; mu is held. It returns false if the client has been
// closed.
func (c *Consumer) issue(st *station, o order) bool {
	var s *slot
	if n := len(st.idle); n > 0 {
		s = st.idle[n-1]
		st.idle = st.idle[:n-1]
	} else {
		s = &slot{
			consumer: c, station: st, orders: make(chan order, 1), quit: make(chan struct{}), handed: make(chan handed, 1),
		}
		if !c.client.spawn(s.run) {
			return false
		}
		st.slots = append(st.slots, s)
	}
	st.waiting += o.n
	s.asking = o.n
	s.orders <- o
	return true
}

// handOut gives a delivery to the first caller that waits, or holds it for a while; mu is held.
func (c *Consumer) handOut(d *Delivery) {
	switch {
	case c.closed:
		d.letGo()
	case len(c.waiters) > 0:
		w := c.waiters[0]
		c.waiters = slices.Delete(c.waiters, 0, 1)
		w.got <- d
		if c.lease == 0 { // else the end of the round does
			c.schedule()
		}
	default:
		c.ready = append(c.ready, d)
		c.holdReady()
	}
}

// holdReady sees to it that what lies ready goes back in time if nobody comes for it; mu is held. The first are for
// callers that will be there at once.
func (c *Consumer) holdReady() {
	for i := c.coming; i < len(c.ready); i++ {
		if d := c.ready[i]; d.surplus == nil {
			d.surplus = time.AfterFunc(holdSurplus, func() { c.giveBack(d) })
		}
	}
}

// giveBack returns an item that nobody has asked for.
func (c *Consumer) giveBack(d *Delivery) {
	c.mu.Lock()
	i := slices.Index(c.ready, d)
	if i >= 0 {
		c.ready = slices.Delete(c.ready, i, i+1)
	}
	c.mu.Unlock()
	switch {
	case i < 0:
	case d.receipt != 0:
		d.letGo()
	default:
		d.begin(abortIt)
	}
}

// failed notes that a server failed a slot, which is at its end.
func (c *Consumer) failed(s *slot, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := s.station
	st.remove(s)
	if c.closed || st.leaving || c.ctx.Err() != nil {
		return
	}
	c.lastErr = &Error{Op: "get from", Queue: c.queue, Server: st.server, Err: plain(err)}
	st.hit = false
	now := time.Now()
	if !st.usable(now) {
		return // another slot has said so
	}
	st.fails++
	if st.fails == 1 {
		c.client.opts.Logger.Warn("a server gives no items", "server", st.server, "queue", c.queue, "error", err)
	}
	pause := c.client.opts.Backoff.After(st.fails)
	c.rest(st, pause)
}

// rest leaves a server alone for a while; mu is held.
func (c *Consumer) rest(st *station, pause time.Duration) {
	st.until = time.Now().Add(pause)
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.schedule()
	})
}

// waited notes that a get ended without an item, which was to wait for so long. A server may not wait at all, as for an
// alias: then it has a pause.
func (c *Consumer) waited(s *slot, since time.Time, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := s.station
	if time.Since(since) >= wait/2 {
		st.hasty = 0
		return
	}
	st.hasty++
	c.rest(st, c.client.opts.Backoff.After(st.hasty))
}

// answered notes that a server has answered a get of a slot, by a delivery or by none. A round of several has
// hit if any of them has.
func (c *Consumer) answered(s *slot, d *Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	withConfirm := c.noteAnswer(s, d)
	switch {
	case d == nil:
	case withConfirm && s.station.leaving:
		s.conn.Close() // the item goes back
	default:
		if c.lends {
			d.lend()
		}
		c.handOut(d)
	}
}

// noteAnswer is answered, but for what becomes of d; mu is held. It reports whether the get went out with a confirm.
func (c *Consumer) noteAnswer(s *slot, d *Delivery) (withConfirm bool) {
	st := s.station
	st.waiting--
	s.asking--
	st.hit = d != nil || s.found
	s.found = st.hit && s.asking > 0
	if st.fails > 0 {
		c.client.opts.Logger.Info("a server gives items again", "server", st.server, "queue", c.queue)
	}
	st.fails = 0
	if d != nil {
		st.hasty = 0
	}
	c.lastErr = nil
	withConfirm = s.withConfirm
	s.withConfirm = false
	return withConfirm
}

// free has a slot wait for its next order. It returns false if there will be none.
func (c *Consumer) free(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || s.station.leaving {
		s.station.remove(s)
		return false
	}
	s.station.idle = append(s.station.idle, s)
	c.schedule()
	return true
}

// retire ends a slot that has waited for an order for long. It returns false if one has come.
func (c *Consumer) retire(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(s.station.idle, s) {
		return false
	}
	s.station.remove(s)
	return true
}
