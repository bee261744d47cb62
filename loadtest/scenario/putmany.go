package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// PutMany measures how fast items are accepted and, if asked, fetched again.
type PutMany struct {
	Clients int
	Items   int64 // in all; each client puts the same number, rounded down
	Size    int   // bytes
	Burst   int   // items sent before their replies are awaited; with Thrift, items of one put
	Queue   string
	Queues  int // above 1, client i uses the queue called Queue and i modulo Queues
	Get     bool
}

// Name returns the scenario's name.
func (PutMany) Name() string { return "put-many" }

// Validate reports every problem of the options.
func (s PutMany) Validate() error {
	var errs []error
	checkQueue(&errs, s.Queue)
	checkSize(&errs, s.Size)
	positive(&errs, "clients", int64(s.Clients))
	positive(&errs, "items", s.Items)
	positive(&errs, "burst", int64(s.Burst))
	positive(&errs, "queues", int64(s.Queues))
	if s.Clients > 0 && s.Burst > 0 && s.Items/int64(s.Clients)/int64(s.Burst) == 0 {
		errs = append(errs, fmt.Errorf("%d items are less than a burst of %d for each of %d clients",
			s.Items, s.Burst, s.Clients))
	}
	return errors.Join(errs...)
}

func (s PutMany) queues() []string {
	g := loadtest.Group{Queue: s.Queue, Queues: s.Queues}
	var names []string
	for i := range s.Queues {
		names = append(names, g.QueueName(i))
	}
	return names
}

func (s PutMany) run(ctx context.Context, e *Env) error {
	e.printf("Put %d items of %d bytes in bursts of %d to %s in %d queues named %s using %d clients.",
		s.Items, s.Size, s.Burst, e.Server, s.Queues, s.Queue, s.Clients)
	if err := s.half(ctx, e, "put", loadtest.Set); err != nil || !s.Get {
		return err
	}
	e.printf("Get %d items of %d bytes in batches of %d from %s in %d queues named %s using %d clients.",
		s.Items, s.Size, s.Burst, e.Server, s.Queues, s.Queue, s.Clients)
	if err := s.half(ctx, e, "get", loadtest.Get); err != nil {
		return err
	}
	return e.allGot()
}

// half puts, or gets, all items.
func (s PutMany) half(ctx context.Context, e *Env, name string, o loadtest.Operation) error {
	g := loadtest.Group{
		Operation:   o,
		Connections: s.Clients,
		ItemSize:    s.Size,
		Queue:       s.Queue,
		Queues:      s.Queues,
		Hits:        o == loadtest.Get,
	}
	bursts := s.Items / int64(s.Clients) / int64(s.Burst)
	items := int64(s.Clients) * bursts * int64(s.Burst)
	switch {
	case e.Protocol == loadtest.Thrift && o == loadtest.Set:
		g.Burst, g.Operations = s.Burst, bursts*int64(s.Clients)
	case e.Protocol == loadtest.Thrift:
		g.Burst, g.Operations = s.Burst, items
	default:
		g.Pipeline, g.Operations = s.Burst, items
	}
	r, err := e.runPhase(ctx, phase{name: name, groups: []loadtest.Group{g}, queues: s.queues()})
	if r.Retries > 0 {
		e.printf("Had to retry %d times to make all connections.", r.Retries)
	}
	if err != nil {
		return err
	}
	e.printFinished(r.Wall, items)
	if op, ok := r.Op(name); ok {
		h, us := op.Latency, int64(time.Microsecond)
		at := func(q float64) int64 { return h.ValueAtQuantile(q) / us }
		e.printf("Distribution in usec: min=%d max=%d p50=%d p75=%d p90=%d p95=%d p99=%d p999=%d p9999=%d",
			h.Min()/us, h.Max()/us, at(50), at(75), at(90), at(95), at(99), at(99.9), at(99.99))
	}
	return nil
}

// printFinished prints how long it took to put so many items.
func (e *Env) printFinished(wall time.Duration, items int64) {
	e.printf("Finished in %d msec (%.1f usec/put throughput).", wall.Milliseconds(),
		float64(wall)/float64(time.Microsecond)/float64(max(items, 1)))
}
