package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// Fanout puts to a queue with children and checks that every child gets every item.
type Fanout struct {
	Flow      // its Queue is the parent; Consumers are of each child, Queues is 1
	Children  int
	Items     int64
	Duration  time.Duration // 0: bounded by Items only
	OnlyChild bool          // the parent keeps nothing itself (fanout_only)
}

// Name returns the scenario's name.
func (Fanout) Name() string { return "fanout" }

// Length returns how long the scenario is meant to take at least.
func (s Fanout) Length() time.Duration { return s.Duration }

// Validate reports every problem of the options.
func (s Fanout) Validate() error {
	errs := []error{s.Flow.Validate()}
	positive(&errs, "children", int64(s.Children))
	positive(&errs, "consumers", int64(s.Consumers))
	if s.Queues != 1 {
		errs = append(errs, fmt.Errorf("queues is %d, want 1", s.Queues))
	}
	if s.Items <= 0 && s.Duration <= 0 {
		errs = append(errs, errors.New("neither items nor duration bounds the run"))
	}
	return errors.Join(errs...)
}

// children returns the names of the children.
func (s Fanout) children() []string {
	var names []string
	for i := range s.Children {
		names = append(names, fmt.Sprintf("%s+%d", s.Queue, i))
	}
	return names
}

func (s Fanout) queues() []string { return append([]string{s.Queue}, s.children()...) }

func (s Fanout) run(ctx context.Context, e *Env) error {
	if e.ledger == nil {
		return errNeedsLedger
	}
	e.printf("fanout: %d producers to %s on %s, %d children with %d consumers each", s.Producers,
		s.Queue, e.Server, s.Children, s.Consumers)
	for _, child := range s.children() { // a child gets what is put once it exists
		if err := e.control.touch(child); err != nil {
			return fmt.Errorf("create %q: %w", child, err)
		}
	}
	groups := s.groups(s.Duration, s.Items)
	put, get := groups[0], groups[1]
	put.Fanout = s.children()
	all := []loadtest.Group{put}
	readers := s.queues()
	if s.OnlyChild {
		readers = s.children()
		all[0].FanoutOnly = true
	}
	for _, queue := range readers {
		get.Queue = queue
		all = append(all, get)
	}
	r, err := e.runPhase(ctx, phase{name: "fanout", groups: all, queues: s.queues(), target: s.Rate})
	if err != nil {
		return err
	}
	op, _ := r.Op("put")
	e.printf("Put %d items, got %d.", op.Items, r.Got())
	return e.allGot()
}
