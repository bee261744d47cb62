package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// touchEvery is which of the leases is extended before it is confirmed.
const touchEvery = 4

// Leases has consumers lease items, extend some leases, confirm, and forget some items. Nobody may get an item under
// somebody else's lease. It checks that, and that forgotten items come again and confirmed ones do not.
type Leases struct {
	Jobs
	Lease time.Duration
	Leak  float64 // share of the deliveries that are forgotten
}

// Name returns the scenario's name.
func (Leases) Name() string { return "leases" }

// Validate reports every problem of the options.
func (s Leases) Validate() error {
	errs := []error{s.Jobs.Validate()}
	if s.Lease < time.Millisecond {
		errs = append(errs, fmt.Errorf("lease is %v, want at least 1ms", s.Lease))
	}
	if !(s.Leak >= 0 && s.Leak < 1) {
		errs = append(errs, fmt.Errorf("leak is %v, want 0 to less than 1", s.Leak))
	}
	return errors.Join(errs...)
}

func (s Leases) queues() []string { return []string{s.Queue} }

func (s Leases) run(ctx context.Context, e *Env) error {
	e.printf("leases: %d items of %d bytes, leases of %v, of which %.0f %% are forgotten, to %s: %d producers, %d consumers",
		s.Items, s.Size, s.Lease, 100*s.Leak, e.Server, s.Producers, s.Consumers)
	put := func(w *worker, seq uint64) error { return w.put(seq, s.Size, 0) }
	work := func(w *worker) error {
		seq, deliveries, err := w.lease(s.Lease)
		if err != nil || deliveries == 0 || w.random.Float64() < s.Leak {
			return err
		}
		until := w.asked.Add(s.Lease)
		if seq%touchEvery == 0 {
			if until, err = w.touch(seq, until); err != nil {
				return err
			}
		}
		return w.confirm(seq, until)
	}
	return s.runJobs(ctx, e, put, work, nil)
}

// touch has a lease end a while from now, and returns until when it lasts at least. It lasted until a moment before.
func (w *worker) touch(seq uint64, until time.Time) (time.Time, error) {
	const seconds = 5
	err := w.ask("touch", memcache.AppendTouch(nil, w.queue, w.receipt, seconds), func(r *memcache.Reply) error {
		switch {
		case r.Kind == memcache.KindTouched:
			until = w.asked.Add(seconds * time.Second)
		case r.Kind != memcache.KindNotFound:
			return unexpected("touch", r)
		case w.answered.Before(until):
			w.l.broken("the lease of job %d cannot be extended %v before it is over", seq, until.Sub(w.answered))
		}
		return nil
	})
	if err == nil && until.After(w.answered) {
		w.l.hidden(seq, until.Sub(w.asked), w.asked, w.answered)
	}
	return until, err
}
