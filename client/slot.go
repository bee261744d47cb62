package client

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// station is what a consumer has of one server. It is guarded by Consumer.mu.
type station struct {
	server  string
	slots   []*slot
	idle    []*slot   // of slots: those without an order
	waiting int       // gets under way
	plan    int       // gets to be made; schedule alone uses it
	hit     bool      // the last get had an item
	fails   int       // in a row
	hasty   int       // gets in a row that were to wait, and did not
	until   time.Time // when the server may be asked again after a failure, or a hasty get
	leaving bool      // the server has left the read set, or the consumer is closed
}

func (st *station) usable(now time.Time) bool { return !st.leaving && !now.Before(st.until) }

// remove takes a slot out, which is at its end.
func (st *station) remove(s *slot) {
	st.waiting -= s.asking
	s.asking = 0
	same := func(other *slot) bool { return other == s }
	st.slots = slices.DeleteFunc(st.slots, same)
	st.idle = slices.DeleteFunc(st.idle, same)
}

// leave ends the slots that hold no item; the others end with their items.
func (st *station) leave() {
	st.leaving = true
	for _, s := range st.idle {
		close(s.quit)
	}
	st.idle = nil
	for _, s := range st.slots {
		if s.asking > 0 && !s.withConfirm && s.conn != nil {
			s.conn.Close() // an item on its way goes back
		}
	}
}

// order is a round of gets that a slot is to make: several only if items are leased.
type order struct {
	wait time.Duration // for the first item
	n    int
}

// slot is a connection of a consumer with one open item at most; leased items it has handed on. Its goroutine reads also
// while an item is open: so the loss of the connection is noticed at once. To a worker's handler it lends the connection
// along with the item, see hold.
type slot struct {
	// Immutable.
	consumer *Consumer
	station  *station
	orders   chan order
	quit     chan struct{} // closed to end a slot without an order
	handed   chan handed   // how a slot goes on that lent its connection; see hold

	lent atomic.Pointer[Delivery] // the last that a handler got along with the connection

	// Guarded by Consumer.mu; the goroutine alone sets conn, and reads it without.
	asking      int  // gets under way
	found       bool // one of the round that is under way had an item
	withConfirm bool // the get under way went out with a confirm, and does not wait
	conn        *wire.Conn
}

// run serves orders until the connection fails or is not needed any more.
func (s *slot) run() {
	release := func() bool { return true }
	defer func() {
		release()
		if s.conn != nil {
			s.conn.Close()
		}
	}()
	unused := time.NewTimer(keepSlot)
	defer unused.Stop()
	for {
		select {
		case o := <-s.orders:
			if s.conn == nil || !s.conn.Quiet() {
				release()
				if !s.connect() {
					return
				}
				release = s.conn.Guard(s.consumer.client.ctx)
			}
			get := s.get
			if s.consumer.lease > 0 {
				get = s.getLeased
			}
			if !get(o) {
				return
			}
		case <-unused.C:
			if s.consumer.retire(s) {
				return
			}
		case <-s.quit:
			return
		}
		unused.Reset(keepSlot)
	}
}

// connect makes a connection. It returns false if that failed, or is not wanted any more.
func (s *slot) connect() bool {
	c := s.consumer
	if s.conn != nil {
		s.conn.Close()
	}
	conn, err := c.client.dialer.Dial(c.ctx, s.station.server)
	if err != nil {
		c.failed(s, err)
		return false
	}
	if err := s.checkVersion(conn); err != nil {
		conn.Close()
		c.failed(s, err)
		return false
	}
	c.mu.Lock()
	s.conn = conn
	wanted := !s.station.leaving
	if !wanted {
		s.station.remove(s)
	}
	c.mu.Unlock()
	return wanted
}

// get asks for an item, hands it out, and waits for its end; and so on while that brings another. It returns false if
// the slot is at its own end.
func (s *slot) get(o order) bool {
	c := s.consumer
	if !s.send(o) {
		return false
	}
	asked := time.Now()
	s.conn.ReadUntil(asked.Add(o.wait + c.client.opts.ReplyTimeout))
	var reply memcache.Reply
	found, ok := s.receive(&reply)
	if ok && !found {
		c.waited(s, asked, o.wait)
		c.answered(s, nil)
	}
	for found {
		d := newDelivery(s, &reply)
		c.answered(s, d)
		found, ok = s.hold(d, &reply)
	}
	return ok && c.free(s)
}

// getLeased makes a round of gets and hands out what comes. It returns false if the slot is at its end.
func (s *slot) getLeased(o order) bool {
	c := s.consumer
	runtime.Gosched() // callers that were woken together share the round
	o.n = c.widen(s, o.n)
	if !s.send(o) {
		return false
	}
	asked := time.Now()
	s.conn.ReadUntil(asked.Add(o.wait + c.client.opts.ReplyTimeout))
	var reply memcache.Reply
	for i := range o.n {
		found, ok := s.receive(&reply)
		if !ok {
			return false
		}
		if i == 0 && !found {
			c.waited(s, asked, o.wait)
		}
		var d *Delivery
		if found {
			d = newDelivery(s, &reply)
			d.begins()
		}
		c.answered(s, d)
	}
	return c.free(s)
}

// send makes a request. It returns false if the slot is at its end.
func (s *slot) send(o order) bool {
	c := s.consumer
	s.conn.Renew(time.Now(), c.client.opts.ReplyTimeout)
	err := s.conn.Send(c.request(o))
	if err != nil {
		c.failed(s, err)
	}
	return err == nil
}

// receive reads the reply to a get, and reports whether it is an item. It returns false if the slot is at its end.
func (s *slot) receive(reply *memcache.Reply) (found, ok bool) {
	err := s.conn.Read(reply)
	switch {
	case err != nil:
	case reply.Kind == memcache.KindEnd:
		return false, true
	case reply.Kind == memcache.KindValue:
		return true, true
	default:
		err = refusal(reply)
	}
	s.consumer.failed(s, err)
	return false, false
}

// handed is how a slot goes on. It reads for the open delivery d. If that is nil, it takes the next item, or is at its
// end.
type handed struct {
	d  *Delivery
	ok bool
}

// hold waits until a delivery is confirmed or aborted. It reports whether the next item came with that, and whether the
// slot goes on. A slot is at its end if the delivery is lost, or for another reason.
//
// A delivery that was lent the connection is confirmed without this goroutine. So are those that come along with the
// confirms, until one of them has to be watched.
func (s *slot) hold(d *Delivery, reply *memcache.Reply) (found, ok bool) {
	if d.lent {
		next := s.takeBack()
		if d = next.d; d == nil {
			return false, next.ok
		}
	}
	return s.await(d, reply)
}

// takeBack waits for the connection that was lent.
func (s *slot) takeBack() handed {
	select {
	case next := <-s.handed:
		return next
	case <-s.consumer.client.ctx.Done():
		if d := s.lent.Load(); d.how.CompareAndSwap(asLoan, watched) {
			return handed{d: d} // its handler may never return
		}
		return <-s.handed
	}
}

// await reads the end of a delivery; see hold.
func (s *slot) await(d *Delivery, reply *memcache.Reply) (found, ok bool) {
	err := s.conn.Read(reply)
	for wire.TimedOut(err) && d.readsOn() {
		err = s.conn.Read(reply)
	}
	asked := d.hasAsked()
	var refused error // the get, and not the confirm
	switch {
	case err != nil || reply.Kind == memcache.KindEnd:
	case reply.Kind == memcache.KindValue && asked:
		found = true
	default:
		err = refusal(reply)
		// For its status a server refuses the get, after the confirm. What it refuses before it looks, as for a
		// quota, is neither done.
		if asked && closing(err) {
			refused, err = err, nil
		}
	}
	switch {
	case !d.finish(err):
		s.consumer.failed(s, d.lostBy)
		return false, false
	case refused != nil:
		s.consumer.failed(s, refused)
		return false, false
	case asked && !found:
		s.consumer.answered(s, nil)
	}
	return found, true
}
