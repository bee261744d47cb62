package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// Mixed runs several flows at the same time.
type Mixed struct {
	Flows    []Flow
	Duration time.Duration
	Items    int64 // of each flow; 0: bounded by Duration only
}

// Name returns the scenario's name.
func (Mixed) Name() string { return "mixed" }

// Length returns how long the scenario is meant to take at least.
func (s Mixed) Length() time.Duration { return s.Duration }

// Validate reports every problem of the options.
func (s Mixed) Validate() error {
	var errs []error
	if len(s.Flows) == 0 {
		errs = append(errs, errors.New("there is no flow"))
	}
	if s.Duration <= 0 && s.Items <= 0 {
		errs = append(errs, errors.New("neither items nor duration bounds the run"))
	}
	seen := make(map[string]bool)
	for i, f := range s.Flows {
		if err := f.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("flow %d: %w", i+1, err))
			continue
		}
		for _, name := range f.names() {
			if seen[name] {
				errs = append(errs, fmt.Errorf("flow %d: queue %q belongs to another flow", i+1, name))
			}
			seen[name] = true
		}
	}
	return errors.Join(errs...)
}

func (s Mixed) queues() (names []string) {
	for _, f := range s.Flows {
		names = append(names, f.names()...)
	}
	return names
}

func (s Mixed) run(ctx context.Context, e *Env) error {
	var groups []loadtest.Group
	target, consumed := 0.0, true
	for _, f := range s.Flows {
		e.printf("mixed: %d queues named %s, %d bytes, %d producers, %d consumers", f.Queues, f.Queue,
			f.Size, f.Producers, f.Consumers)
		groups = append(groups, f.groups(s.Duration, s.Items)...)
		target += f.Rate
		consumed = consumed && f.Consumers > 0
		if f.Consumers > 0 && e.ledger == nil {
			return errNeedsLedger
		}
	}
	if !consumed {
		return errors.New("every flow needs consumers: the run ends when all items have come")
	}
	_, err := e.runPhase(ctx, phase{name: "mixed", groups: groups, queues: s.queues(), target: target})
	if err != nil {
		return err
	}
	return e.allGot()
}
