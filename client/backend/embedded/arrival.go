package embedded

import (
	"context"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// arrival hears, once, that a message of a queue may have become visible. Every request that waits has
// one, hears of every message, and then matches again: so each message goes to one of the requests that take.
type arrival struct {
	engine *engine.Engine
	waiter engine.Waiter
	heard  chan struct{} // has one when something has come
}

// watch begins to watch a queue. It begins before the request matches, so that it misses nothing.
func (s *Store) watch(name []byte) (*arrival, error) {
	a := &arrival{engine: s.engine, heard: make(chan struct{}, 1)}
	a.waiter.Notify = a
	return a, s.engine.Watch(engine.Now(), name, &a.waiter)
}

// WaitEnded implements engine.Notifier.
func (a *arrival) WaitEnded(*engine.Waiter) { a.heard <- struct{}{} }

// wait returns when something has come, or d is over. The error is that of ctx, or says why there is
// nothing to wait for any more.
func (a *arrival) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.heard:
		if a.waiter.Err != engine.ErrDeleted {
			return a.waiter.Err
		}
	case <-timer.C:
		a.cancel()
	case <-ctx.Done():
		a.cancel()
		return context.Cause(ctx)
	}
	return nil
}

// cancel ends the wait. If it has ended already, cancel returns once Notify has heard of that, so that the
// waiter says how. A nil arrival waits for nothing.
func (a *arrival) cancel() {
	if a != nil && !a.engine.CancelWait(&a.waiter) {
		<-a.heard
	}
}
