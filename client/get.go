package client

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

const (
	// longWait is how long one request waits for an item at most. A server that has died without a word
	// is noticed after it.
	longWait = 20 * time.Second
	// turnWait is how long one of several servers is asked to wait before it is the next one's turn.
	turnWait = 250 * time.Millisecond
)

// Item is what a queue holds. [Client.Browse], [Client.Look] and the first item of [Client.OpenBatch] have a Key and
// Expires, if the server is of version 3 and the item has any.
type Item struct {
	Data    []byte // the caller's own
	Flags   uint32 // as they were put
	Key     string
	Expires time.Time // zero: never
}

// Get takes the next item of a queue for good, from the first server that has one, and waits up to
// wait for it. It returns an error that wraps [ErrEmpty] if none comes.
//
// An item that is on its way when ctx ends, or the connection breaks, is gone. Use a [Consumer] for items that must not
// be lost. With several servers Get asks one after the other, so an item may lie for a moment before it is found.
func (c *Client) Get(ctx context.Context, queue string, wait time.Duration) (Item, error) {
	name, err := wire.Name(queue)
	if err != nil {
		return Item{}, &Error{Op: "get from", Queue: queue, Err: err}
	}
	var item Item
	err = c.seek(ctx, wait, func(server string, turn time.Duration) (err error) {
		item, err = c.fetch(ctx, server, name, memcache.GetOptions{}, turn)
		return err
	})
	return item, wordSought("get from", queue, err)
}

// seek asks servers, one after the other from a random one on, until one has an item, or wait is
// over. Each is asked to wait for its turn: one alone for all the time, several for ever longer.
// It returns an *Error without Op and Queue, ErrEmpty in it if no server failed.
func (c *Client) seek(ctx context.Context, wait time.Duration, try func(server string, turn time.Duration) error) error {
	end := time.Now().Add(wait)
	pause := time.Duration(0)
	for {
		begun, asked := time.Now(), time.Duration(0) // to wait
		servers := c.readers()
		failures := 0
		last := &Error{Err: ErrNoServers}
		for _, server := range servers {
			turn := min(pause, time.Until(end))
			if len(servers) == 1 {
				turn = min(time.Until(end), longWait)
			}
			asked = max(turn, asked)
			err := try(server, max(turn, 0))
			switch {
			case err == nil:
				return nil
			case ctx.Err() != nil:
				return &Error{Server: server, Err: cause(ctx)}
			case !errors.Is(err, ErrEmpty):
				last = &Error{Server: server, Err: err}
				failures++
			case failures == 0:
				last = &Error{Err: ErrEmpty}
			}
		}
		if failures == len(servers) || time.Until(end) <= 0 {
			return last
		}
		pause = min(2*pause+10*time.Millisecond, turnWait)
		if time.Since(begun) < asked/2 { // a server may not wait at all, as for an alias
			select {
			case <-time.After(min(pause, time.Until(end))):
			case <-ctx.Done():
				return &Error{Err: cause(ctx)}
			case <-c.ctx.Done():
				return &Error{Err: ErrClosed}
			}
		}
	}
}

// wordSought completes an error of seek.
func wordSought(op, queue string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Op, e.Queue = op, queue
	}
	return err
}

// Peek returns the item at the head of a queue on the first server that has one, and leaves it
// there. It returns an error that wraps [ErrEmpty] if there is none.
func (c *Client) Peek(ctx context.Context, queue string) (Item, error) {
	name, err := wire.Name(queue)
	if err != nil {
		return Item{}, &Error{Op: "peek at", Queue: queue, Err: err}
	}
	failed := ErrNoServers
	where := ""
	for _, server := range c.readers() {
		item, err := c.fetch(ctx, server, name, memcache.GetOptions{Peek: true}, 0)
		if err == nil {
			return item, nil
		}
		if where == "" || !errors.Is(err, ErrEmpty) {
			failed, where = err, server
		}
	}
	return Item{}, wordy("peek at", queue, where, failed)
}

// fetch makes one GET of a server. It returns ErrEmpty if there is no item.
func (c *Client) fetch(
	ctx context.Context, server string, name []byte, options memcache.GetOptions, wait time.Duration,
) (item Item, err error) {
	options.WaitMillis = millis(wait)
	request := memcache.AppendGet(nil, name, options)
	err = c.ask(ctx, server, wait, request, func(r *memcache.Reply) (bool, error) {
		switch r.Kind {
		case memcache.KindValue:
			item = itemOf(r)
			return false, nil
		case memcache.KindEnd:
			return false, nil
		}
		return false, refusal(r)
	})
	if err == nil && item.Data == nil {
		err = ErrEmpty
	}
	return item, err
}

// itemOf returns the item of a reply, with data of its own that is not nil.
func itemOf(r *memcache.Reply) Item {
	return Item{Data: append(make([]byte, 0, len(r.Data)), r.Data...), Flags: r.Flags}
}

// millis returns a wait as the protocol has it, rounded up.
func millis(wait time.Duration) int32 {
	return int32(min(max(0, roundedUp(wait, time.Millisecond)), math.MaxInt32))
}
