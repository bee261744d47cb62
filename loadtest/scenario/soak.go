package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// soakSteady is the share of a soak after which memory is expected to be steady.
const soakSteady = 0.1

// Soak runs a steady flow for a long time, with clients that come and go, and watches the server's
// memory.
type Soak struct {
	Flow
	Duration time.Duration

	// The run fails if the server ever has more resident bytes than MaxResident, or if they grow by
	// more than MaxGrowth. That is a share, from when they were steady to the end. 0 is no bound.
	MaxResident int64
	MaxGrowth   float64
}

// Name returns the scenario's name.
func (Soak) Name() string { return "soak" }

// Length returns how long the scenario is meant to take at least.
func (s Soak) Length() time.Duration { return s.Duration }

// Validate reports every problem of the options.
func (s Soak) Validate() error {
	errs := []error{s.Flow.Validate()}
	if s.Duration <= 0 {
		errs = append(errs, fmt.Errorf("duration is %v, want more than 0", s.Duration))
	}
	if s.MaxResident < 0 || s.MaxGrowth < 0 {
		errs = append(errs, errors.New("the bounds of memory are negative"))
	}
	return errors.Join(errs...)
}

func (s Soak) queues() []string { return s.names() }

func (s Soak) run(ctx context.Context, e *Env) error {
	if e.ledger == nil {
		return errNeedsLedger
	}
	if e.PID == 0 && (s.MaxResident > 0 || s.MaxGrowth > 0) {
		return errors.New("the server's memory cannot be watched without --spawn or --server-pid")
	}
	e.printf("soak: %s puts a second of %d bytes for %v to %s in %d queues: %d producers, %d consumers",
		number(s.Rate), s.Size, s.Duration, e.Server, s.Queues, s.Producers, s.Consumers)
	_, err := e.runPhase(ctx, phase{
		name: "soak", groups: s.groups(s.Duration, 0), queues: s.names(), target: s.Rate})
	if err == nil {
		err = e.allGot()
	}
	p := e.Figures.Phases[len(e.Figures.Phases)-1]
	return errors.Join(err, s.checkMemory(e, p))
}

// checkMemory prints what became of the server's memory and returns an error if it is too much.
func (s Soak) checkMemory(e *Env, p *figures.Phase) error {
	if p.Server == nil {
		return nil
	}
	steady := residentAfter(p.Intervals, int64(soakSteady*float64(p.Wall)))
	if steady <= 0 {
		steady = p.Server.Resident
	}
	growth := float64(p.Server.Resident-steady) / float64(steady)
	e.printf("Memory: %s when it was steady, %s at the end (%+.1f %%), %s at most.",
		figures.Bytes(steady), figures.Bytes(p.Server.Resident), 100*growth, figures.Bytes(p.Server.Peak))
	var errs []error
	if s.MaxResident > 0 && p.Server.Peak > s.MaxResident {
		errs = append(errs, fmt.Errorf("the server used %s of memory, want at most %s",
			figures.Bytes(p.Server.Peak), figures.Bytes(s.MaxResident)))
	}
	if s.MaxGrowth > 0 && growth > s.MaxGrowth {
		errs = append(errs, fmt.Errorf("the server's memory grew by %.1f %%, want at most %.1f %%",
			100*growth, 100*s.MaxGrowth))
	}
	return errors.Join(errs...)
}

// residentAfter returns the resident memory at the end of the first interval that ends after a
// time, in nanoseconds, or 0.
func residentAfter(intervals []figures.Interval, at int64) int64 {
	for _, i := range intervals {
		if i.Server != nil && i.Start+i.Wall >= at {
			return i.Server.Resident
		}
	}
	return 0
}
