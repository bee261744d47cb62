package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// packingPipeline is how many requests its one writer and its one reader have in flight.
const packingPipeline = 1

// Packing keeps a queue permanently behind, so that journals are packed. It writes a cycle of items ahead, and then
// writes and reads as many at the same time, cycle after cycle.
type Packing struct {
	Queue  string
	Items  int64 // per cycle
	Size   int   // bytes
	Pause  time.Duration
	Cycles int
}

// Name returns the scenario's name.
func (Packing) Name() string { return "packing" }

// Length returns how long the scenario is meant to take at least.
func (s Packing) Length() time.Duration { return time.Duration(s.Cycles) * s.Pause }

// Validate reports every problem of the options.
func (s Packing) Validate() error {
	var errs []error
	checkQueue(&errs, s.Queue)
	checkSize(&errs, s.Size)
	positive(&errs, "items", s.Items)
	positive(&errs, "cycles", int64(s.Cycles))
	if s.Pause < 0 {
		errs = append(errs, fmt.Errorf("pause is %v, want at least 0", s.Pause))
	}
	return errors.Join(errs...)
}

func (s Packing) queues() []string { return []string{s.Queue} }

func (s Packing) run(ctx context.Context, e *Env) error {
	e.printf("packing: %d items of %s with %d second pauses", s.Items, sizeText(s.Size),
		int(s.Pause.Seconds()))
	put := loadtest.Group{
		Operations: s.Items, ItemSize: s.Size, Queue: s.Queue, Pipeline: packingPipeline}
	get := loadtest.Group{Operation: loadtest.Get, Operations: s.Items, ItemSize: s.Size,
		Queue: s.Queue,
		Hits:  true, Pipeline: packingPipeline}
	if err := s.cycle(ctx, e, "ahead", 0, put); err != nil {
		return err
	}
	for i := range s.Cycles {
		if err := pause(ctx, s.Pause); err != nil {
			return err
		}
		e.printf("cycle: %d", i+1)
		if err := s.cycle(ctx, e, fmt.Sprintf("cycle %d", i+1), int64(i+1)*s.Items, put,
			get); err != nil {
			return err
		}
	}
	if err := s.cycle(ctx, e, "rest", 0, get); err != nil {
		return err
	}
	return e.allGot()
}

// cycle writes and reads once. First is the number of the first item that is written.
func (s Packing) cycle(
	ctx context.Context, e *Env, name string, first int64, groups ...loadtest.Group,
) error {
	r, err := e.runPhase(ctx, phase{name: name, groups: groups, queues: s.queues()})
	if err != nil {
		return err
	}
	if _, ok := r.Op("put"); ok {
		e.printf("Wrote %d items starting at %d.", s.Items, first)
	}
	if op, ok := r.Op("get"); ok {
		e.printf("Read %d items in %d msec. Consumer spun %d times in misses.", op.Items,
			r.Wall.Milliseconds(), op.Misses)
	}
	return nil
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
