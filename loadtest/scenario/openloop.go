package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// OpenLoop offers a given rate for a time, whatever the server does. Latency counts from when a
// request was due.
type OpenLoop struct {
	Flow
	Duration time.Duration
	Warmup   time.Duration
}

// Name returns the scenario's name.
func (OpenLoop) Name() string { return "open-loop" }

// Length returns how long the scenario is meant to take at least.
func (s OpenLoop) Length() time.Duration { return s.Warmup + s.Duration }

// Validate reports every problem of the options.
func (s OpenLoop) Validate() error {
	errs := []error{s.Flow.Validate()}
	if s.Rate <= 0 {
		errs = append(errs, fmt.Errorf("rate is %v, want more than 0", s.Rate))
	}
	if s.Duration <= 0 || s.Warmup < 0 {
		errs = append(errs, fmt.Errorf("duration is %v and warmup %v, want more than 0 and at least 0",
			s.Duration, s.Warmup))
	}
	return errors.Join(errs...)
}

func (s OpenLoop) queues() []string { return s.names() }

func (s OpenLoop) run(ctx context.Context, e *Env) error {
	if s.Consumers > 0 && e.ledger == nil {
		return errNeedsLedger
	}
	e.printf("open-loop: %s puts a second of %d bytes for %v to %s: %d producers, %d consumers",
		number(s.Rate), s.Size, s.Duration, e.Server, s.Producers, s.Consumers)
	_, err := e.runPhase(ctx, phase{
		name:    "load",
		groups:  s.groups(s.Duration, 0),
		queues:  s.names(),
		target:  s.Rate,
		options: func(o *loadtest.Options) { o.Warmup = s.Warmup },
	})
	if err != nil || s.Consumers == 0 {
		return err
	}
	return e.allGot()
}

// number prints a rate without needless digits.
func number(v float64) string { return fmt.Sprintf("%.6g", v) }
