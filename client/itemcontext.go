package client

import (
	"context"
	"sync"
	"time"
)

// itemContext is the context of a handler. It ends with its parent, with the handler, and with ErrLost as its cause when
// the item is lost. Most handlers look at none of that: so it becomes a real context when somebody does.
type itemContext struct {
	// Immutable.
	parent context.Context
	d      *Delivery

	mu sync.Mutex
	// Guarded by mu.
	ctx    context.Context // nil until somebody looks
	cancel context.CancelCauseFunc
	ended  bool // the handler has returned
}

// real returns the context that there is, or makes it.
func (c *itemContext) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return c.ctx
	}
	ctx, cancel := context.WithCancelCause(c.parent)
	c.ctx, c.cancel = ctx, cancel
	if c.ended {
		cancel(nil)
	} else {
		c.d.whenLost(func() { cancel(ErrLost) })
	}
	return ctx
}

// end ends the context: the handler has returned.
func (c *itemContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel(nil)
	}
}

// Deadline implements context.Context.
func (c *itemContext) Deadline() (deadline time.Time, ok bool) { return c.parent.Deadline() }

// Done implements context.Context.
func (c *itemContext) Done() <-chan struct{} { return c.real().Done() }

// Err implements context.Context.
func (c *itemContext) Err() error { return c.real().Err() }

// Value implements context.Context. Package context looks here for the cause.
func (c *itemContext) Value(key any) any { return c.real().Value(key) }
