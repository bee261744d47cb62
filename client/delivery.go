package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// A Delivery is an item that a [Consumer] has opened, or leased. It is out of the queue until it is confirmed, given
// back or lost. Its methods may be called from any goroutine.
type Delivery struct {
	Item
	Queue  string
	Server string // host:port, that has the item

	// Deliveries is how often the item has been delivered, this time included, as far as that counts; 0 if the
	// consumer has no leases.
	Deliveries int

	receipt uint64 // of its lease; 0 without one

	slot    *slot
	lent    bool         // its connection was lent, when it was handed out; see slot.hold
	how     atomic.Int32 // watched, asLoan, or reading
	surplus *time.Timer  // gives it back while nobody has taken it; nil without; guarded by Consumer.mu
	asked   bool         // a get went out with its end; set by begin, under mu

	mu sync.Mutex
	// Guarded by mu.
	state  deliveryState
	lostBy error         // why the item is lost; nil if it is not
	result error         // of the confirm or abort; valid once ended is closed
	ended  chan struct{} // closed when result is final; nil before begin
	isLost bool          // lose was called
	lost   chan struct{} // closed when isLost; nil until somebody asks for it
	onLoss func()        // called when the item is lost; nil for nothing
	due    time.Time     // when the lease is over
	lapse  *time.Timer   // calls look then; nil until somebody waits for it
}

// deliveryState is where a delivery is in its life.
//
//	open   -> ending   Confirm, Abort
//	open   -> gone     the connection ended
//	ending -> gone     the server has answered, or the connection ended before
type deliveryState uint8

const (
	stateOpen deliveryState = iota
	stateEnding
	stateGone
)

// ending is a way to end a delivery.
type ending struct {
	verb    string
	options memcache.GetOptions
	ask     bool // the next get goes to the server in the same request, where that serves
}

var (
	confirmIt     = ending{"confirm", memcache.GetOptions{Close: true}, false}
	confirmAndAsk = ending{"confirm", memcache.GetOptions{Close: true}, true}
	abortIt       = ending{"abort", memcache.GetOptions{Abort: true}, false}
)

// How a delivery of a slot is waited for; changed by compare and swap.
//
//	asLoan  -> watched   somebody wants to know about the item
//	asLoan  -> reading   the handler confirms it; mu is held until the delivery is ending
const (
	watched int32 = iota // the slot reads
	asLoan               // nobody reads: the connection is the handler's
	reading              // the handler reads
)

func newDelivery(s *slot, r *memcache.Reply) *Delivery {
	return &Delivery{
		Item: itemOf(r), Queue: s.consumer.queue, Server: s.station.server, slot: s,
		receipt: r.CAS, Deliveries: deliveriesOf(r),
	}
}

// Confirm says that the item is done with: it is gone for good. An error wraps
//
//   - [ErrLost] if the connection had ended before: the item is delivered again,
//   - [ErrUnknownOutcome] if no answer came, or ctx ended before it: the item may be delivered again,
//   - [ErrEnded] if the delivery was confirmed or aborted before.
//
// A server that has an open_transaction_timeout may have taken the item back without a word.
func (d *Delivery) Confirm(ctx context.Context) error { return d.end(ctx, confirmIt) }

// Abort gives the item back to the head of its queue, for the next fetch. That the connection is lost is no error: the
// server has given it back already.
func (d *Delivery) Abort(ctx context.Context) error {
	err := d.end(ctx, abortIt)
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// Lost returns a channel that is closed when the connection of the item, or its lease, ends before the item does. The
// server then delivers it again, and Confirm will fail.
func (d *Delivery) Lost() <-chan struct{} {
	d.watch()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost == nil {
		d.lost = make(chan struct{})
		if d.isLost {
			close(d.lost)
		}
		d.lapses()
	}
	return d.lost
}

func (d *Delivery) end(ctx context.Context, how ending) error {
	if d.receipt != 0 {
		return wordy(how.verb, d.Queue, d.Server, d.endLease(ctx, how.options))
	}
	if err := d.begin(how); err != nil {
		return wordy(how.verb, d.Queue, d.Server, err)
	}
	select {
	case <-d.ended:
		return wordy(how.verb, d.Queue, d.Server, d.result)
	case <-ctx.Done():
		return wordy(how.verb, d.Queue, d.Server, unknown(cause(ctx)))
	}
}

// begin sends the request that ends the delivery; the slot's goroutine reads the answer.
func (d *Delivery) begin(how ending) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == stateEnding || d.state == stateGone && d.lostBy == nil:
		return ErrEnded
	case d.state == stateGone:
		return fmt.Errorf("%w (%w)", ErrLost, plain(d.lostBy))
	}
	d.watch()
	d.ended = make(chan struct{})
	d.send(how)
	return nil
}

// send sends the request that ends the delivery, which is open; mu is held.
func (d *Delivery) send(how ending) {
	d.state = stateEnding
	c := d.slot.consumer
	d.slot.conn.Renew(time.Now(), c.client.opts.ReplyTimeout)
	request := c.requests.confirm
	switch {
	case how.options.Abort:
		request = c.requests.abort
	case how.ask && c.askWithConfirm(d.slot):
		d.asked = true
		request = c.requests.confirmAndGet
	}
	if err := d.slot.conn.Send(request); err != nil {
		d.slot.conn.Close() // so there is no answer
	}
}

// readsOn reports whether a read that has timed out is to go on. An item may be open for any time, and the request that
// ends it has its own deadline.
func (d *Delivery) readsOn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == stateOpen {
		d.slot.conn.ReadUntil(time.Time{})
		return true
	}
	return d.slot.conn.InTime(time.Now())
}

// hasAsked reports whether a get went out with the end of the delivery.
func (d *Delivery) hasAsked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// finish ends the delivery: err is nil if the server has answered, or why it is lost. It reports
// whether the connection is still of use.
func (d *Delivery) finish(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.state == stateEnding
	d.state = stateGone
	switch {
	case err == nil && asked:
	case err == nil: // an answer to nothing
		d.lostBy = fmt.Errorf("%w: END was not asked for", ErrProtocol)
		d.result = ErrLost
	case asked:
		d.lostBy = err
		d.result = unknown(err)
	default:
		d.lostBy = err
	}
	if d.ended != nil {
		close(d.ended)
	}
	if d.lostBy != nil {
		d.lose()
	}
	return d.lostBy == nil
}

// lose says that the item is lost, once; mu is held.
func (d *Delivery) lose() {
	if d.isLost {
		return
	}
	d.isLost = true
	if d.lost != nil {
		close(d.lost)
	}
	if d.onLoss != nil {
		d.onLoss()
	}
}

// whenLost has f called when the item is lost, at once if it is. F must not wait, nor use the delivery. That a lease
// is over is noticed in time only once somebody has asked for Lost.
func (d *Delivery) whenLost(f func()) {
	d.watch()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isLost {
		f()
		return
	}
	d.onLoss = f
}

// claim takes an item that lies ready; Consumer.mu is held.
func (d *Delivery) claim() {
	if d.surplus != nil {
		d.surplus.Stop()
	}
}

// lend hands the connection out along with d, which comes from the slot; Consumer.mu is held.
func (d *Delivery) lend() {
	d.lent = true
	d.how.Store(asLoan)
	d.slot.lent.Store(d)
}

// watch ends the loan, if there is one and the handler does not read: the slot reads.
func (d *Delivery) watch() {
	if d.how.CompareAndSwap(asLoan, watched) {
		d.slot.handed <- handed{d: d}
	}
}
