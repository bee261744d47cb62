package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

const (
	chunkBytes = 128 << 10 // of PutAll: items that travel as one call of a lane
	maxChunk   = 4096      // items

	// relativeExpiry is the first number of seconds that servers take for a time of day.
	relativeExpiry = 1_000_000
)

// LatestExpiry is the latest time that the protocol can say, in seconds since 1970: on 19 January 2038.
const LatestExpiry = math.MaxInt32

// PutOptions are what goes with items into a queue. The zero PutOptions are good for most.
type PutOptions struct {
	Flags uint32        // kept with the item, and handed out with it
	TTL   time.Duration // after this an item is not delivered any more; in seconds, rounded up; up to LatestExpiry; zero: never

	// Delay hides the items for so long, rounded up to milliseconds. It needs servers of version 3; others
	// refuse the items.
	Delay time.Duration
	// Key has the item take the place of the one with that key, if the queue has one. A key has 1 to 250
	// bytes, without blanks, slashes and control bytes. It needs a server of version 3, and a Client of one
	// server: each server has keys of its own.
	Key string
	// New and Replace refuse a Key that an item has, or that none has, with [ErrNotStored].
	New, Replace bool
}

var (
	errBadDelay     = errors.New("a delay is a time above zero")
	errNeedsKey     = errors.New("only new, and only to replace, need a key, and exclude each other")
	errKeyServers   = errors.New("a key needs a client of one server: each server has keys of its own")
	errKeyOfSeveral = errors.New("a key is for one item: the second would take the place of the first")
)

// set returns what a SET needs beside the expiry; nil for nothing.
func (o PutOptions) set() (*memcache.SetOptions, error) {
	switch {
	case o.Delay == 0 && o.Key == "" && !o.New && !o.Replace:
		return nil, nil
	case o.Delay < 0:
		return nil, errBadDelay
	case o.New && o.Replace, (o.New || o.Replace) && o.Key == "":
		return nil, errNeedsKey
	case len(o.Key) > 250 || strings.ContainsFunc(o.Key, isNoKey):
		return nil, ErrBadKey
	}
	return &memcache.SetOptions{
		Delay: o.Delay > 0, DelayMillis: roundedUp(o.Delay, time.Millisecond), Key: []byte(o.Key),
		New: o.New, Replace: o.Replace,
	}, nil
}

// isNoKey reports whether no key may have the rune.
func isNoKey(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }

// expiry returns the TTL as the protocol has it.
func (o PutOptions) expiry(now time.Time) (int64, error) {
	switch {
	case o.TTL < 0:
		return 0, fmt.Errorf("a TTL of %v is over already", o.TTL)
	case o.TTL == 0:
		return 0, nil
	}
	seconds := roundedUp(o.TTL, time.Second)
	if seconds >= relativeExpiry {
		seconds += now.Unix()
	}
	if seconds > LatestExpiry {
		return 0, fmt.Errorf("a TTL of %v ends after 2038-01-19, the last day that the protocol can say", o.TTL)
	}
	return seconds, nil
}

// Put puts one item on one server of the write set, chosen by chance among those that answer. It
// returns when the server has said that it has the item; how safe the item is then, the server's
// sync_journal says. Data is copied: the caller may use it again.
//
// A server that cannot be reached, or refuses for its status, is left alone for a while, and Put
// goes on with the next. An error wraps
//
//   - [ErrNotStored] if the queue refused the item,
//   - [ErrUnknownOutcome] if no answer came, or ctx ended before: the item is there once, or not,
//   - something else if the item is certainly not stored.
//
// Put never puts an item twice: whether to try again, and to risk that, is up to the caller.
// Calls at the same time share writes, so many goroutines cost little more than one.
func (c *Client) Put(ctx context.Context, queue string, data []byte, opts PutOptions) error {
	var one [1][]byte
	one[0] = data
	err := c.putAll(ctx, queue, one[:], opts)
	if err == nil {
		return nil
	}
	var failed *BatchError
	if errors.As(err, &failed) {
		return failed.Items[0]
	}
	return err
}

// PutAll puts items, in their order, on one server, in as few writes as they fit in. It is by far
// the quickest way to put many. Servers are chosen as [Client.Put] says, and the items are copied.
//
// If not all are stored the error is a [*BatchError], which says what became of each; or another
// error if nothing was tried.
func (c *Client) PutAll(ctx context.Context, queue string, items [][]byte, opts PutOptions) error {
	return c.putAll(ctx, queue, items, opts)
}

// A BatchError says that some items of a [Client.PutAll] are not stored, or not known to be.
type BatchError struct {
	Queue string
	Items []error // for each item; nil if it is stored
}

// Error says how many there are, and why the first is not stored.
func (e *BatchError) Error() string {
	n, first := 0, error(nil)
	for _, err := range e.Items {
		if err != nil {
			n++
			if first == nil {
				first = err
			}
		}
	}
	return fmt.Sprintf("%d of %d items are not stored, or not known to be; the first: %v", n, len(e.Items), first)
}

// Unwrap returns why the first item that is not stored is not.
func (e *BatchError) Unwrap() error {
	for _, err := range e.Items {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) putAll(ctx context.Context, queue string, items [][]byte, opts PutOptions) error {
	name, err := wire.Name(queue)
	switch {
	case err != nil:
	case c.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil:
		err = cause(ctx)
	}
	var expiry int64
	if err == nil {
		expiry, err = opts.expiry(time.Now())
	}
	var with *memcache.SetOptions
	if err == nil {
		with, err = opts.set()
	}
	switch {
	case err != nil || opts.Key == "":
	case c.others():
		err = errKeyServers
	case len(items) > 1:
		err = errKeyOfSeveral
	}
	if err != nil {
		return &Error{Op: "put to", Queue: queue, Err: err}
	}
	b := &batch{name: name, flags: opts.Flags, expiry: expiry, with: with, items: items}
	for len(items) > 0 {
		l := c.chooseLane(b.tried)
		if l == nil && !b.stays {
			l, b.stays = b.slow, true // nobody else has taken what was withdrawn from there
		}
		if l == nil {
			break
		}
		b.tried = append(b.tried, l)
		b.putOn(ctx, l)
		if b.failed == 0 {
			return nil
		}
		for i, err := range b.errs {
			var worded *Error
			if err != nil && !errors.As(err, &worded) {
				b.errs[i] = &Error{Op: "put to", Queue: queue, Server: l.server, Err: err}
			}
		}
		if !b.retry() {
			break
		}
	}
	switch {
	case len(items) == 0:
		return nil
	case len(b.tried) == 0:
		return &Error{Op: "put to", Queue: queue, Err: ErrNoServers}
	}
	return &BatchError{Queue: queue, Items: b.errs}
}

// chooseLane returns a lane for a put that has been tried on some. It draws two lanes that are prompt, and takes the
// one with less to do. If none is prompt, it prefers one that is slow to one that has fallen.
func (c *Client) chooseLane(tried []*lane) *lane {
	c.mu.Lock()
	lanes := c.choice
	c.mu.Unlock()
	now := time.Now()
	var best *lane
	bestCondition, bestWaiting, seen := absent, 0, 0
	at := 0
	if len(lanes) > 1 {
		at = rand.IntN(len(lanes))
	}
	for i := range lanes {
		l := lanes[(at+i)%len(lanes)]
		if len(tried) > 0 && slices.Contains(tried, l) {
			continue
		}
		found, waiting := l.condition(now)
		if found < bestCondition || best != nil && found == bestCondition && waiting < bestWaiting {
			best, bestCondition, bestWaiting = l, found, waiting
		}
		if found == prompt {
			if seen++; seen == 2 {
				break
			}
		}
	}
	return best
}

// others reports whether there is more than one lane.
func (c *Client) others() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.choice) > 1
}

// better reports whether there is a prompt lane that a put has not been tried on.
func (c *Client) better(tried []*lane) bool {
	l := c.chooseLane(tried)
	if l == nil {
		return false
	}
	found, _ := l.condition(time.Now())
	return found == prompt
}

// batch is the items of one PutAll on their way.
type batch struct {
	name   []byte
	flags  uint32
	expiry int64
	with   *memcache.SetOptions // nil: nothing else was asked for
	items  [][]byte

	tried  []*lane
	slow   *lane   // that items were withdrawn from
	stays  bool    // what gathers is not withdrawn any more
	todo   []int   // indexes of the items to put next; nil: all of them
	errs   []error // by item, once one has failed
	failed int
}

// at returns the index of the k-th item to do.
func (b *batch) at(k int) int {
	if b.todo == nil {
		return k
	}
	return b.todo[k]
}

func (b *batch) left() int {
	if b.todo == nil {
		return len(b.items)
	}
	return len(b.todo)
}

// retry leaves to be done what may be tried on another server, and reports whether that is any.
func (b *batch) retry() bool {
	b.todo = make([]int, 0, b.failed)
	for i, err := range b.errs {
		if elsewhere(err) {
			b.todo = append(b.todo, i)
		}
	}
	return len(b.todo) > 0
}

// putOn puts what is to be done on a lane, and notes what failed.
func (b *batch) putOn(ctx context.Context, l *lane) {
	type chunk struct {
		call  *call
		first int // index into what is to be done
	}
	var few [8]chunk
	chunks := few[:0]
	var stopped error // why the rest was not given to the lane
	at := 0
	for at < b.left() && stopped == nil {
		n, size := 0, 0
		for at+n < b.left() && n < maxChunk && size < chunkBytes {
			size += len(b.items[b.at(at+n)]) + 64
			n++
		}
		k := &call{n: n, done: make(chan struct{})}
		if stopped = b.give(ctx, l, k, at); stopped == nil {
			chunks = append(chunks, chunk{k, at})
			at += n
		}
	}
	for _, ch := range chunks {
		err := b.await(ctx, l, ch.call)
		if err != nil && !elsewhere(err) {
			err = unknown(err)
		}
		if err == nil && ch.call.errs == nil && b.errs == nil {
			continue // all are stored
		}
		for i := range ch.call.n {
			if err == nil && ch.call.errs != nil {
				b.note(ch.first+i, ch.call.errs[i])
			} else {
				b.note(ch.first+i, err)
			}
		}
	}
	for ; at < b.left(); at++ {
		b.note(at, stopped)
	}
	b.failed = 0
	for _, err := range b.errs {
		if err != nil {
			b.failed++
		}
	}
}

// give hands a lane the items of a call, of which at is the first. It waits while the lane has no
// room. On error they certainly are not sent.
func (b *batch) give(ctx context.Context, l *lane, k *call, at int) error {
	encode := func(dst []byte) []byte {
		for i := range k.n {
			item := b.items[b.at(at+i)]
			if b.with != nil {
				dst = memcache.AppendSetWith(dst, b.name, *b.with, b.flags, b.expiry, item)
				continue
			}
			dst = memcache.AppendSet(dst, b.name, b.flags, b.expiry, item)
		}
		return dst
	}
	for {
		full, ok := l.add(k, encode)
		switch {
		case !ok && l.client.ctx.Err() != nil:
			return ErrClosed
		case !ok:
			return &notSent{err: fmt.Errorf("the server has left")}
		case full == nil:
			return nil
		}
		if err := await(ctx, l.client.ctx, full); err != nil {
			return err
		}
	}
}

// errSlow withdraws puts from a server that is slow.
var errSlow = errors.New("the server is slow, and others are not")

// await waits for the end of a call. If its server stalls and others do not, a call that has
// only gathered ends with a notSent, and goes to one of them.
func (b *batch) await(ctx context.Context, l *lane, k *call) error {
	if !l.client.others() {
		return await(ctx, l.client.ctx, k.done)
	}
	tick := time.NewTicker(stallAfter)
	defer tick.Stop()
	for {
		select {
		case <-k.done:
			return nil
		case <-tick.C:
			if !b.stays && l.client.better(b.tried) && l.withdraw(k) {
				b.slow = l
				return &notSent{err: errSlow}
			}
		case <-ctx.Done():
			return cause(ctx)
		case <-l.client.ctx.Done():
			return await(ctx, l.client.ctx, k.done)
		}
	}
}

// await waits for done, and returns why it did not come.
func await(ctx, client context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return cause(ctx)
	case <-client.Done():
		select {
		case <-done:
			return nil
		default:
			return cause(client)
		}
	}
}

// note sets what became of the k-th item to do.
func (b *batch) note(k int, err error) {
	if err == nil && b.errs == nil {
		return
	}
	if b.errs == nil {
		b.errs = make([]error, len(b.items))
	}
	b.errs[b.at(k)] = err
}
