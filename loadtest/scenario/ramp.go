package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// rampUnsent is the share of the requests due that may be unsent at the end of a step, besides one
// for each connection.
const rampUnsent = 0.02

// Ramp finds the highest rate at which the server keeps the 99th percentile of latency within a target. Latency
// counts from when a request was due. Ramp doubles the rate until the server fails, and then halves the distance
// between what was held and what was not.
type Ramp struct {
	Flow     // its Rate is where the search begins
	P99      time.Duration
	Step     time.Duration // of each rate
	Max      float64       // requests a second not to be exceeded
	Accuracy float64       // the search ends when the bounds differ by this share
}

// Name returns the scenario's name.
func (Ramp) Name() string { return "ramp" }

// Validate reports every problem of the options.
func (s Ramp) Validate() error {
	errs := []error{s.Flow.Validate()}
	if s.Rate <= 0 || s.Max < s.Rate || s.Max > loadtest.MaxRate {
		errs = append(errs,
			fmt.Errorf("the search from %v to %v a second: want more than 0, and up to %v",
				s.Rate, s.Max, float64(loadtest.MaxRate)))
	}
	if s.P99 <= 0 || s.Step <= 0 {
		errs = append(errs, fmt.Errorf("p99 is %v and step %v, want more than 0", s.P99, s.Step))
	}
	if !(s.Accuracy >= 0.001 && s.Accuracy <= 1) {
		errs = append(errs, fmt.Errorf("accuracy is %v, want 0.001 to 1", s.Accuracy))
	}
	return errors.Join(errs...)
}

func (s Ramp) queues() []string { return s.names() }

func (s Ramp) run(ctx context.Context, e *Env) error {
	if s.Consumers > 0 && e.ledger == nil {
		return errNeedsLedger
	}
	e.printf("ramp: the highest rate of puts of %d bytes to %s with p99 within %v: %d producers, "+
		"%d consumers", s.Size, e.Server, s.P99, s.Producers, s.Consumers)
	best, err := search(s.Rate, s.Max, s.Accuracy, func(rate float64) (bool, error) {
		return s.holds(ctx, e, rate)
	})
	if err != nil {
		return err
	}
	if best == 0 {
		return fmt.Errorf("p99 is above %v already at %s puts a second", s.P99, number(s.Rate))
	}
	e.printf("Held %s puts a second.", number(best))
	return e.allGot()
}

// search returns the highest rate that holds, as far as it looks, or 0 if the first does not.
func search(
	from, limit, accuracy float64, holds func(rate float64) (bool, error),
) (float64, error) {
	low, high := 0.0, 0.0 // held, and not held; 0: not known
	for rate := from; ; {
		ok, err := holds(rate)
		switch {
		case err != nil:
			return 0, err
		case ok && rate >= limit:
			return rate, nil
		case ok:
			low = rate
		default:
			high = rate
		}
		switch {
		case low == 0:
			return 0, nil
		case high == 0:
			rate = min(2*low, limit)
		case high-low <= accuracy*high:
			return low, nil
		default:
			rate = (low + high) / 2
		}
	}
}

// holds tries a rate for one step.
func (s Ramp) holds(ctx context.Context, e *Env, rate float64) (bool, error) {
	s.Rate = rate
	r, err := e.runPhase(ctx, phase{
		name:   fmt.Sprintf("%s/s", number(rate)),
		groups: s.groups(s.Step, 0),
		queues: s.names(),
		target: rate,
	})
	if err != nil {
		return false, err
	}
	put, _ := r.Op("put")
	worst := time.Duration(put.Latency.ValueAtQuantile(99))
	if r.Delivery != nil {
		worst = max(worst, time.Duration(r.Delivery.ValueAtQuantile(99)))
	}
	due := rate * s.Step.Seconds()
	ok := put.Requests > 0 && worst <= s.P99 && r.Unsent <= int64(rampUnsent*due)+int64(s.Producers)
	verdict := "held"
	if !ok {
		verdict = "not held"
	}
	e.printf("%10s/s: p99 %v, %d of %.0f sent: %s", number(rate), worst.Round(time.Microsecond),
		put.Requests, due, verdict)
	return ok, nil
}
