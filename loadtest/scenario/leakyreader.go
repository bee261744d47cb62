package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

const (
	leakyWait      = 100 * time.Millisecond // of a get
	leakyAutoAbort = 5 * time.Second
	leakyReport    = 1000 // confirmed items between two lines of output
	leakySize      = 64   // bytes
)

// LeakyReader has consumers forget some of the items that they read tentatively, and checks that
// those come again. Thrift only.
type LeakyReader struct {
	Items   int64
	Rate    float64 // share of the items that are forgotten
	Queue   string
	Threads int // consumers
	Verbose bool
}

// Name returns the scenario's name.
func (LeakyReader) Name() string { return "leaky-reader" }

// Validate reports every problem of the options.
func (s LeakyReader) Validate() error {
	var errs []error
	checkQueue(&errs, s.Queue)
	positive(&errs, "items", s.Items)
	positive(&errs, "threads", int64(s.Threads))
	if !(s.Rate >= 0 && s.Rate < 1) {
		errs = append(errs, fmt.Errorf("rate is %v, want 0 to less than 1", s.Rate))
	}
	return errors.Join(errs...)
}

func (s LeakyReader) queues() []string { return []string{s.Queue} }

func (s LeakyReader) run(ctx context.Context, e *Env) error {
	if e.Protocol != loadtest.Thrift || e.ledger == nil {
		return errors.New("leaky-reader speaks Thrift only, and needs verification")
	}
	e.printf("leaky-reader: %d threads each sending %d items through %s", s.Threads, s.Items, s.Queue)
	confirmed := int64(0)
	observe := func(item loadtest.Item, forgotten bool) {
		if s.Verbose {
			e.printf("open %08x", item.Seq)
		}
		if forgotten {
			return
		}
		if s.Verbose {
			e.printf("confirm %08x", item.Seq)
		}
		if confirmed++; confirmed%leakyReport == 0 {
			e.printf("%d", confirmed)
		}
	}
	r, err := e.runPhase(ctx, phase{
		name:   "put and get",
		queues: s.queues(),
		groups: []loadtest.Group{
			{Operations: s.Items, ItemSize: leakySize, Queue: s.Queue},
			{Operation: loadtest.Lease, Connections: s.Threads, ItemSize: leakySize, Queue: s.Queue,
				Wait: leakyWait, AutoAbort: leakyAutoAbort, Leak: s.Rate, Drain: true},
		},
		options: func(o *loadtest.Options) { o.Threads, o.OnItem = 1, observe },
	})
	var lost *loadtest.LostError
	if errors.As(err, &lost) {
		e.printf("Missed the following items:")
		items, _ := e.ledger.Missing(int(s.Items))
		for _, item := range items {
			e.printf("\t%08x", item.Seq)
		}
	}
	if err != nil {
		return err
	}
	e.printFinished(r.Wall, s.Items)
	if err := e.allGot(); err != nil {
		return err
	}
	e.printf("Completed all reads")
	return nil
}
