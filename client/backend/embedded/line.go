package embedded

import (
	"context"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/engine"
)

// inLine does a request that takes the next visible message. If nothing matches it stands in the line of
// the queue: each message goes to the request that has waited longest. It returns 0 if the wait is over, or what it
// waited for has gone.
func (r *matching) inLine(ctx context.Context, d time.Duration) (n int, err error) {
	if n, err = r.start(); n > 0 || err != nil {
		return n, err
	}
	e := r.store.engine
	a := &arrival{engine: e, heard: make(chan struct{}, 1)}
	a.waiter.Notify = a
	ask := engine.FetchRequest{Access: engine.Hold, Waiter: &a.waiter, Delivery: new(engine.Delivery)}
	r.gather.delivery = func() *engine.Delivery { return ask.Delivery }
	got, err := e.Fetch(engine.Now(), r.name, ask, r.gather)
	switch {
	case err == nil:
		return 1, r.taken(got.Read, got.Ticket)
	case !got.Waiting:
		return 0, worded(err)
	}
	ended := a.wait(ctx, d)
	ref := a.waiter.Read
	switch {
	case ended != nil && !ref.IsZero(): // the message came, and the caller has gone
		e.Abort(engine.Now(), ref)
		return 0, ended
	case ended != nil:
		return 0, worded(ended)
	case ref.IsZero():
		return 0, nil
	}
	t, ok := e.Collect(engine.Now(), ref, ask, r.gather)
	if !ok {
		return 0, nil
	}
	return 1, r.taken(ref, t)
}

// taken does with the message that the request holds what it wants, once the message is safe.
func (r *matching) taken(ref engine.ReadRef, t engine.Ticket) error {
	if err := r.store.commit(t); err != nil {
		r.store.engine.Abort(engine.Now(), ref)
		return err
	}
	m := &r.gather.list[0]
	m.Hide = 0
	return r.take(ref, m)
}

// remove removes the message that the request holds.
func (r *matching) remove(ref engine.ReadRef, _ *backend.Message) error {
	t, _ := r.store.engine.Confirm(engine.Now(), ref)
	return r.store.commit(t)
}

// hide gives the message that the request holds the attributes, which hide it.
func (r *matching) hide(ref engine.ReadRef, m *backend.Message, to backend.Attributes) error {
	e, now := r.store.engine, engine.Now()
	t, _, err := e.Return(now, []engine.ReadRef{ref}, engine.Return{How: engine.Release, Delayed: true, Delay: to.Hidden()})
	if err == nil && to.TTL != 0 {
		var u engine.Ticket
		expiry := engine.Changes{SetExpiry: true, Expiry: expiryOf(now, to.Lifetime())}
		u, err = e.Change(now, r.name, &engine.LookRequest{Which: engine.Which{ID: r.gather.place}, Wait: true}, expiry)
		t = t.Merge(u)
		m.TTL = to.Lifetime()
	}
	m.Hide = to.Hidden()
	if err != nil {
		e.Abort(now, ref)
		return worded(err)
	}
	return r.store.commit(t)
}
