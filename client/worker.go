package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultDrainTimeout is how long handlers may go on when a worker stops.
const DefaultDrainTimeout = 30 * time.Second

// Handler does what is to be done with one item. If it returns nil the item is confirmed and gone
// for good. If it returns an error, panics or ends its goroutine, the item goes back and is delivered again, here or
// elsewhere. A handler may also confirm or abort the item itself.
//
// Ctx ends when the item is lost, with [ErrLost] as its cause: then somebody else gets it, and to go
// on is of no use. It ends as well when the worker stops and the handler takes too long about it.
type Handler func(ctx context.Context, d *Delivery) error

// Worker runs handlers for the items of a queue. Set the first three fields, and call Run.
type Worker struct {
	Client *Client
	Queue  string
	Handle Handler

	// Lease is how long items are leased for; the worker extends a lease as long as its handler runs. With leases a lost
	// connection loses no item, and a handler that fails does not wait (see Backoff). An item costs a fraction of an
	// open read. Zero means open reads, which every server has.
	Lease time.Duration
	// Handlers is how many run at the same time; zero means one.
	Handlers int
	// Backoff is how long a handler that failed waits before its item goes back, and takes no other:
	// longer with each failure in a row. So an item that nobody can handle does not go round and
	// round. Zero means from 100 ms to 30 s. With a Lease the item waits in its queue instead, the longer
	// the more often it was delivered, and the handler takes another.
	Backoff Backoff
	// DrainTimeout is how long handlers may go on after Run's context has ended. Zero means 30 s.
	DrainTimeout time.Duration
	// Failed is called with each item that goes back, and why: a handler's error, its panic, or a
	// confirm that failed. Nil logs it.
	Failed func(d *Delivery, err error)
}

// A PanicError is what a handler's panic becomes.
type PanicError struct {
	Value any    // that the handler panicked with
	Stack []byte // where
}

// Error returns one line, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.Value) }

// errHandlerExit is why an item goes back whose handler called runtime.Goexit, as FailNow of a test does.
var errHandlerExit = errors.New("the handler ended its goroutine")

// Run handles items until ctx ends. Then it takes no more, waits for the handlers that run, gives back what they have
// not done, and returns nil. Combined with signal.NotifyContext it makes a program that stops in order.
//
// Servers that fail are no reason to end: they are tried again. Run returns an error if the queue's
// name is bad, or the client has been closed.
func (w *Worker) Run(ctx context.Context) error {
	consumer, err := w.consume()
	if err != nil {
		return err
	}
	defer consumer.Close()
	handling, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(context.Canceled)
	drain := w.DrainTimeout
	if drain == 0 {
		drain = DefaultDrainTimeout
	}
	release := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(drain):
			stop(fmt.Errorf("the worker has stopped, and its handlers had %v", drain))
		case <-handling.Done():
		}
	})
	defer release()
	held := &holding{items: make(map[*Delivery]bool), most: 4 * int64(max(w.Handlers, 1))}
	defer held.confirms.Wait()
	if w.Lease != 0 {
		keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
		var keeper sync.WaitGroup
		keeper.Go(func() { held.keep(keeping, w.Lease) })
		defer keeper.Wait()
		defer stop()
	}
	var running sync.WaitGroup
	ended := make(chan error, max(w.Handlers, 1))
	var serve func(fails int)
	serve = func(fails int) {
		running.Go(func() {
			ended <- w.serve(ctx, handling, held, consumer, fails, serve)
		})
	}
	for range max(w.Handlers, 1) {
		serve(0)
	}
	running.Wait()
	for range max(w.Handlers, 1) {
		if e := <-ended; e != nil && ctx.Err() == nil {
			err = e
		}
	}
	return err
}

func (w *Worker) consume() (*Consumer, error) {
	if w.Lease != 0 {
		return w.Client.ConsumeLeased(w.Queue, w.Lease)
	}
	return w.Client.consume(w.Queue, 0, true)
}

// serve is one handler's loop. It ends with ctx, or returns why there are no more items. The last handlers have failed
// as often as fails says. If a handler ends the goroutine, again goes on in another one.
func (w *Worker) serve(
	ctx, handling context.Context, held *holding, consumer *Consumer, fails int, again func(fails int),
) error {
	backoff := w.Backoff
	if backoff == (Backoff{}) {
		backoff = Backoff{First: 100 * time.Millisecond, Most: 30 * time.Second}
	}
	var next, handled *Delivery // next came with the confirm of the one before
	defer func() {
		if handled != nil {
			w.giveBack(ctx, handling, handled, errHandlerExit, backoff, fails+1)
			again(fails + 1)
		}
	}()
	for asked := false; ; {
		d, err := next, error(nil)
		if d == nil {
			d, err = consumer.next(ctx, asked)
		} else if ctx.Err() != nil {
			d.Abort(context.Background())
			err = cause(ctx)
		}
		next, asked = nil, false
		if err != nil {
			return err
		}
		handled = d
		err = w.handle(handling, held, d)
		handled = nil
		if err == nil && w.Lease != 0 {
			held.confirm(w, d)
			fails = 0
			continue
		}
		if err == nil {
			if next, asked, err = d.confirmAndNext(ctx); err != nil && !errors.Is(err, ErrEnded) {
				w.report(d, err)
			}
			fails = 0
			continue
		}
		fails++
		w.giveBack(ctx, handling, d, err, backoff, fails)
	}
}

// giveBack gives an item back whose handler has failed, after so many failures in a row.
func (w *Worker) giveBack(ctx, handling context.Context, d *Delivery, why error, backoff Backoff, fails int) {
	w.report(d, why)
	var err error
	if w.Lease != 0 {
		err = w.returnLeased(handling, d, why, backoff)
	} else {
		select {
		case <-time.After(backoff.After(fails)):
		case <-ctx.Done():
		case <-d.Lost():
		}
		err = d.Abort(context.Background())
	}
	if err != nil && !errors.Is(err, ErrEnded) {
		w.report(d, err)
	}
}

// returnLeased gives an item back whose handler has failed.
func (w *Worker) returnLeased(handling context.Context, d *Delivery, why error, backoff Backoff) error {
	ctx := context.Background() // within ReplyTimeout
	switch {
	case errors.Is(why, ErrReject):
		return d.Reject(ctx)
	case handling.Err() != nil: // the worker stops: the item is not to blame
		return d.Release(ctx)
	}
	err := d.AbortAfter(ctx, backoff.After(max(d.Deliveries, 1)))
	if errors.Is(err, ErrRefused) { // a delay longer than the queue allows
		return d.Abort(ctx)
	}
	return err
}

// holding is the leased items that a worker's handlers have, and those that it has asked servers to confirm.
type holding struct {
	mu    sync.Mutex
	items map[*Delivery]bool // true while the item's lease is being extended

	most       int64 // confirms on their way
	confirming atomic.Int64
	confirms   sync.WaitGroup // and reports that one failed
}

// confirm confirms an item, and reports if that fails. While not too many confirms are on their way it does not wait for
// the answer: the handler takes the next item meanwhile.
func (h *holding) confirm(w *Worker, d *Delivery) {
	report := func(err error) {
		if err != nil && !errors.Is(err, ErrEnded) {
			w.report(d, err)
		}
	}
	if h.confirming.Add(1) > h.most {
		h.confirming.Add(-1)
		report(d.Confirm(context.Background())) // within ReplyTimeout
		return
	}
	h.confirms.Add(1)
	d.confirmThen(func(err error) {
		if err != nil {
			h.confirms.Go(func() { report(err) })
		}
		h.confirming.Add(-1)
		h.confirms.Done()
	})
}

func (h *holding) add(d *Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.items[d] = false
}

func (h *holding) remove(d *Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.items, d)
}

// keep extends the leases of all items again and again until ctx ends.
func (h *holding) keep(ctx context.Context, lease time.Duration) {
	var extending sync.WaitGroup
	defer extending.Wait()
	tick := time.NewTicker(max(lease/3, 1))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, d := range h.begin() {
			extending.Go(func() {
				d.Lost()             // from now on it is noticed when the lease is over
				d.Extend(ctx, lease) // if it fails there is another time, or the item is lost
				h.mu.Lock()
				defer h.mu.Unlock()
				if _, held := h.items[d]; held {
					h.items[d] = false
				}
			})
		}
	}
}

// begin returns the items whose leases are to be extended.
func (h *holding) begin() (items []*Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for d, extending := range h.items {
		if !extending {
			h.items[d] = true
			items = append(items, d)
		}
	}
	return items
}

// handle runs the handler for one item.
func (w *Worker) handle(ctx context.Context, held *holding, d *Delivery) (err error) {
	c := &itemContext{parent: ctx, d: d}
	defer c.end()
	if w.Lease != 0 {
		held.add(d)
		defer held.remove(d)
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return w.Handle(c, d)
}

func (w *Worker) report(d *Delivery, err error) {
	if w.Failed != nil {
		w.Failed(d, err)
		return
	}
	log := w.Client.opts.Logger
	var p *PanicError
	if errors.As(err, &p) {
		log = log.With("stack", string(p.Stack))
	}
	log.Log(context.Background(), slog.LevelWarn, "an item goes back",
		"queue", d.Queue, "server", d.Server, "error", err)
}
