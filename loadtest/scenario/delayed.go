package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// Delayed puts items with delays and checks that each comes once, never early, and measures how late.
type Delayed struct {
	Jobs
	Min, Max time.Duration // delays are drawn from between them
}

// Name returns the scenario's name.
func (Delayed) Name() string { return "delayed" }

// Validate reports every problem of the options.
func (s Delayed) Validate() error {
	errs := []error{s.Jobs.Validate()}
	if s.Min < 0 || s.Max < s.Min {
		errs = append(errs, fmt.Errorf("delays from %v to %v: want 0 or more, and the second no shorter", s.Min, s.Max))
	}
	return errors.Join(errs...)
}

func (s Delayed) queues() []string { return []string{s.Queue} }

func (s Delayed) run(ctx context.Context, e *Env) error {
	e.printf("delayed: %d items of %d bytes, hidden for %v to %v, to %s: %d producers, %d consumers", s.Items, s.Size,
		s.Min, s.Max, e.Server, s.Producers, s.Consumers)
	put := func(w *worker, seq uint64) error {
		delay := s.Min + time.Duration(w.random.Int64N(int64(s.Max-s.Min)+1))
		return w.put(seq, s.Size, delay.Truncate(time.Millisecond))
	}
	work := func(w *worker) error {
		seq, deliveries, err := w.next(memcache.GetOptions{})
		switch {
		case err != nil || deliveries == 0:
			return err
		case deliveries > 1: // the first to take it has not noted that yet
			w.l.cameTwice(seq)
		}
		w.l.end(seq, false)
		return nil
	}
	return s.runJobs(ctx, e, put, work, nil)
}
