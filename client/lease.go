package client

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// ConsumeLeased is Consume with leases: the holder of the Delivery has the item for so long, whatever becomes of the
// connection. Then the item comes back by itself. [Delivery.Extend] has it stay longer. It needs servers of version 3;
// others are left alone, and [Consumer.Next] says so. The lease must be a millisecond at least.
func (c *Client) ConsumeLeased(queue string, lease time.Duration) (*Consumer, error) {
	if lease < time.Millisecond {
		return nil, wordy("consume", queue, "", errBadLease)
	}
	return c.consume(queue, min(lease, math.MaxInt32*time.Millisecond), false)
}

var (
	errBadLease = errors.New("a lease must be a millisecond long at least")
	errNoLease  = errors.New("the item is not leased: see ConsumeLeased")
)

// checkVersion returns why a server cannot lease items, if the consumer wants it to: one that does not know
// leases takes items for good.
func (s *slot) checkVersion(conn *wire.Conn) error {
	c := s.consumer
	if c.lease == 0 {
		return nil
	}
	deadline := time.Now().Add(c.client.opts.ReplyTimeout)
	release := conn.Guard(c.ctx)
	defer release()
	conn.ReadUntil(deadline)
	if err := conn.Write(memcache.AppendCommand(nil, memcache.OpVersion, nil), deadline); err != nil {
		return err
	}
	var r memcache.Reply
	if err := conn.Read(&r); err != nil {
		return err
	}
	if r.Kind != memcache.KindVersion {
		return refusal(&r)
	}
	return checkMajor(wire.Text(r.Text))
}

// checkMajor returns ErrTooOld for a version before 3.
func checkMajor(version string) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 3 {
		return ErrTooOld
	}
	return nil
}

// deliveriesOf is how often the item of a reply has been delivered; 0 if the reply does not tell.
func deliveriesOf(r *memcache.Reply) int {
	_, rest, _ := bytes.Cut(r.Meta, []byte(`"deliveries":`)) // a string in JSON cannot have this
	n := 0
	for _, digit := range rest {
		if digit < '0' || digit > '9' || n > 1<<30 {
			break
		}
		n = n*10 + int(digit-'0')
	}
	return n
}

// begins starts the lease of an item that has just come.
func (d *Delivery) begins() { d.due = time.Now().Add(d.slot.consumer.lease) }

// lapses ends a delivery whose lease is over. Otherwise, if somebody is to hear of the end, it sees to it that this
// happens in time; mu is held.
func (d *Delivery) lapses() {
	switch left := time.Until(d.due); {
	case d.receipt == 0 || d.state != stateOpen:
	case left <= 0:
		d.state, d.lostBy = stateGone, ErrLost
		d.lose()
	case d.lost == nil:
	case d.lapse == nil:
		d.lapse = time.AfterFunc(left, d.look)
	default:
		d.lapse.Reset(left)
	}
}

// look notices that the lease is over.
func (d *Delivery) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lapses()
}

// endLease ends a leased delivery, on any connection.
func (d *Delivery) endLease(ctx context.Context, options memcache.GetOptions) error {
	lapsed, err := d.beginEnd(options)
	if err != nil {
		return err
	}
	held := true
	err = d.slot.consumer.client.askShared(ctx, d.Server, d.encodeEnd(options), readEnd(&held))
	return d.ends(err, err == nil && held, lapsed)
}

// confirmThen confirms a leased delivery and calls then with the outcome, which must not wait.
func (d *Delivery) confirmThen(then func(err error)) {
	outcome := func(err error) { then(wordy(confirmIt.verb, d.Queue, d.Server, err)) }
	lapsed, err := d.beginEnd(confirmIt.options)
	if err != nil {
		outcome(err)
		return
	}
	held := true
	a := &shared{read: readEnd(&held), then: func(err error) { outcome(d.ends(err, held, lapsed)) }}
	if !d.slot.consumer.client.addShared(d.Server, d.encodeEnd(confirmIt.options), a) {
		a.then(ErrClosed)
	}
}

// beginEnd notes that the end of a lease begins, or returns why it cannot. It also returns whether the time of the
// lease is over. A close may still be in time then.
func (d *Delivery) beginEnd(options memcache.GetOptions) (lapsed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lapses()
	switch {
	case d.state == stateGone && d.lostBy != nil && !options.Close: // a close may still be in time
		return false, ErrLost
	case d.state == stateEnding, d.state == stateGone && d.lostBy == nil:
		return false, ErrEnded
	}
	lapsed = d.state == stateGone
	d.state = stateEnding
	if d.lapse != nil {
		d.lapse.Stop()
	}
	return lapsed, nil
}

// encodeEnd returns what appends the request.
func (d *Delivery) encodeEnd(options memcache.GetOptions) func(dst []byte) []byte {
	return func(dst []byte) []byte {
		options.Receipt = d.receipt
		return memcache.AppendGet(dst, d.slot.consumer.name, options)
	}
}

// readEnd returns what reads the reply to the end of a lease, and notes if the receipt was not worth anything.
func readEnd(held *bool) func(r *memcache.Reply) error {
	return func(r *memcache.Reply) error {
		switch {
		case r.Kind == memcache.KindEnd:
			return nil
		case isNotHeld(r):
			*held = false
			return nil
		}
		return refusal(r)
	}
}

// ends notes how the end of a lease went, and returns the error for the caller.
func (d *Delivery) ends(err error, held, lapsed bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && held:
		d.state, d.lostBy = stateGone, nil
	case err == nil:
		d.state, d.lostBy = stateGone, ErrLost
		err = ErrLost
	case errors.Is(err, ErrRefused) || elsewhere(err): // nothing has happened: it may be tried again
		if d.state = stateGone; !lapsed {
			d.state = stateOpen
			d.lapses()
		}
		return plain(err)
	default:
		d.state, d.lostBy = stateGone, err
		err = unknown(err)
	}
	if d.lostBy != nil {
		d.lose()
	}
	return err
}

func isNotHeld(r *memcache.Reply) bool {
	return r.Kind == memcache.KindClientError && string(r.Text) == "not held"
}

// AbortAfter is Abort for an item that is not to be delivered again before so long. It needs a lease.
func (d *Delivery) AbortAfter(ctx context.Context, delay time.Duration) error {
	return d.giveBack(ctx, "abort", memcache.GetOptions{Abort: true, Delay: true, DelayMillis: int64(millis(delay))})
}

// Release gives the item back as if it had not been delivered. It needs a lease. That the item is lost is no
// error: the server has it.
func (d *Delivery) Release(ctx context.Context) error {
	return d.giveBack(ctx, "release", memcache.GetOptions{Release: true})
}

// Reject sends the item to the dead-letter queue. It needs a lease.
func (d *Delivery) Reject(ctx context.Context) error {
	return d.giveBack(ctx, "reject", memcache.GetOptions{Reject: true})
}

func (d *Delivery) giveBack(ctx context.Context, verb string, options memcache.GetOptions) error {
	if d.receipt == 0 {
		return wordy(verb, d.Queue, d.Server, errNoLease)
	}
	err := d.endLease(ctx, options)
	if errors.Is(err, ErrLost) && !options.Reject {
		return nil
	}
	return wordy(verb, d.Queue, d.Server, err)
}

// letGo gives an item back that nobody has taken, without waiting for the server.
func (d *Delivery) letGo() {
	if d.receipt == 0 {
		d.slot.conn.Close()
		d.watch() // the slot finds that out
		return
	}
	client := d.slot.consumer.client
	client.spawn(func() { d.Release(client.ctx) }) // else it comes back when its lease is over
}

// Extend has the lease last for so long from now on, rounded up to seconds. An error wraps [ErrLost] if
// somebody else may have the item.
func (d *Delivery) Extend(ctx context.Context, lease time.Duration) error {
	if d.receipt == 0 {
		return wordy("extend", d.Queue, d.Server, errNoLease)
	}
	return wordy("extend", d.Queue, d.Server, d.extend(ctx, lease))
}

func (d *Delivery) extend(ctx context.Context, lease time.Duration) error {
	d.mu.Lock()
	d.lapses()
	state, lostBy := d.state, d.lostBy
	d.mu.Unlock()
	switch {
	case state == stateGone && lostBy != nil:
		return ErrLost
	case state != stateOpen:
		return ErrEnded
	}
	c := d.slot.consumer
	seconds := min(max(roundedUp(lease, time.Second), 1), math.MaxInt32)
	request := func(dst []byte) []byte { return memcache.AppendTouch(dst, c.name, d.receipt, int32(seconds)) }
	asked := time.Now()
	held := true
	err := c.client.askShared(ctx, d.Server, request, func(r *memcache.Reply) error {
		switch r.Kind {
		case memcache.KindTouched:
			return nil
		case memcache.KindNotFound:
			held = false
			return nil
		}
		return refusal(r)
	})
	if err != nil {
		return plain(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !held {
		d.due = time.Time{}
		d.lapses()
		return ErrLost
	}
	d.due = asked.Add(time.Duration(seconds) * time.Second)
	d.lapses()
	return nil
}
