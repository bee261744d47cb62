package client

import (
	"context"
	"errors"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// A worker's handler gets the connection of an open item along with the item, as a loan. It confirms the item and asks
// for the next in one request, and reads the reply itself. So an item costs one write and one read, and no other
// goroutine wakes up for it.
//
// Nobody reads from the connection while the handler runs. If somebody wants to know whether the item is lost, or ends
// it in another way, the loan is over: the slot reads again.

// confirmAndNext is Confirm, within ReplyTimeout, for a caller that wants the next item until ctx ends. It returns an
// item that came along, or nil. Then asked is what the caller must tell next.
func (d *Delivery) confirmAndNext(ctx context.Context) (next *Delivery, asked bool, err error) {
	how := confirmAndAsk
	how.ask = ctx.Err() == nil
	d.mu.Lock()
	reads := d.how.CompareAndSwap(asLoan, reading)
	if reads {
		d.send(how)
	}
	d.mu.Unlock()
	if !reads {
		err = d.end(context.Background(), how)
		return nil, !errors.Is(err, ErrEnded) && d.asked, err // else another call asked
	}
	s, c := d.slot, d.slot.consumer
	var reply memcache.Reply
	found, ok := s.await(d, &reply)
	if found {
		next = newDelivery(s, &reply)
	}
	if d.asked {
		found = c.took(s, next)
	}
	switch {
	case found:
		return next, false, nil
	case next != nil: // nobody wants it any more
		s.handed <- handed{d: next}
	default:
		s.handed <- handed{ok: ok}
	}
	return nil, false, wordy(how.verb, d.Queue, d.Server, d.result)
}

// took notes how a get has ended that went out with a confirm of a caller of confirmAndNext. It reports whether d, which
// may be nil, is for that caller.
func (c *Consumer) took(s *slot, d *Delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coming--
	if d == nil {
		return false
	}
	c.noteAnswer(s, d)
	if c.closed || s.station.leaving {
		s.conn.Close() // the item goes back
		return false
	}
	d.lend()
	if c.client.ctx.Err() != nil {
		d.watch()
	}
	return true
}
