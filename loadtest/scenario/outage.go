package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// caughtUp is the share of the deepest backlog that is left when consumers count as having caught up.
const caughtUp = 0.01

// Outage stops the consumers of a flow for a while, and has them come back while producers go on. It measures what the
// backlog's drain costs the producers.
type Outage struct {
	Flow
	Before time.Duration // with consumers
	Outage time.Duration // without
	After  time.Duration // that producers go on when consumers are back
	Keep   float64       // share of their rate that puts must keep during the drain; 0: any
}

// Name returns the scenario's name.
func (Outage) Name() string { return "outage" }

// Length returns how long the scenario is meant to take at least.
func (s Outage) Length() time.Duration { return s.Before + s.Outage + s.After }

// Validate reports every problem of the options.
func (s Outage) Validate() error {
	errs := []error{s.Flow.Validate()}
	positive(&errs, "consumers", int64(s.Consumers))
	if s.Before <= 0 || s.Outage <= 0 || s.After <= 0 {
		errs = append(errs, fmt.Errorf("before is %v, outage %v and after %v, want more than 0", s.Before, s.Outage, s.After))
	}
	if s.Keep < 0 || s.Keep > 1 {
		errs = append(errs, fmt.Errorf("keep is %v, want a share from 0 to 1", s.Keep))
	}
	return errors.Join(errs...)
}

func (s Outage) queues() []string { return s.names() }

func (s Outage) run(ctx context.Context, e *Env) error {
	if e.ledger == nil {
		return errNeedsLedger
	}
	e.printf("outage: %d producers of %d bytes, %d consumers that are away for %v", s.Producers, s.Size, s.Consumers, s.Outage)
	alone := s.Flow
	alone.Consumers = 0
	for _, p := range []phase{
		{name: "steady", groups: s.groups(s.Before, 0)},
		{name: "outage", groups: alone.groups(s.Outage, 0)},
		{name: "catch up", groups: s.groups(s.After, 0)},
	} {
		p.queues, p.target = s.names(), s.Rate
		if _, err := e.runPhase(ctx, p); err != nil {
			return err
		}
	}
	return errors.Join(e.allGot(), s.judge(e))
}

// judge prints how puts and gets went during the drain, and returns an error if puts have kept too little of their rate.
func (s Outage) judge(e *Env) error {
	steady, away, back := e.Figures.Phases[0], e.Figures.Phases[1], e.Figures.Phases[2]
	d := drainOf(back, deepest(away), int64(s.After))
	before := opsOf(steady.Intervals, "put", int64(s.Before)).rate()
	e.printf("Backlog: %d items when the consumers came back.", d.backlog)
	if d.puts.wall == 0 || before == 0 {
		return errors.New("nothing was measured of the drain: make --outage longer, or --interval shorter")
	}
	share := d.puts.rate() / before
	if d.done {
		e.printf("Drain: it took %v.", time.Duration(d.puts.wall).Round(time.Millisecond))
	} else {
		e.printf("Drain: it was not over when the puts ended, after %v.", s.After)
	}
	e.printf("Puts: %.0f a second before, %.0f during the drain, which is %.3f of it. Gets meanwhile: %.0f a second.", before,
		d.puts.rate(), share, d.gets.rate())
	if !d.done {
		e.note("The drain was not over when the puts ended: --after is too short.")
	}
	if share < s.Keep {
		return fmt.Errorf("puts kept %.3f of their rate while the backlog drained, want at least %v", share, s.Keep)
	}
	return nil
}

// drain is what happened until a backlog was gone.
type drain struct {
	backlog    int64
	done       bool // it was gone while producers went on
	puts, gets ops
}

// ops counts requests.
type ops struct{ requests, wall int64 } // wall in ns

func (o ops) rate() float64 {
	if o.wall == 0 {
		return 0
	}
	return float64(o.requests) / (float64(o.wall) / 1e9)
}

// drainOf measures the drain of a backlog in a phase whose producers end after so many ns.
func drainOf(p *figures.Phase, backlog, until int64) drain {
	d := drain{backlog: backlog}
	end := until
	for _, i := range p.Intervals {
		if i.Start+i.Wall > until {
			break
		}
		if i.Server != nil && i.Server.Items >= 0 && float64(i.Server.Items) <= caughtUp*float64(backlog) {
			d.done, end = true, i.Start+i.Wall
			break
		}
	}
	d.puts, d.gets = opsOf(p.Intervals, "put", end), opsOf(p.Intervals, "get", end)
	if d.gets.requests == 0 {
		d.gets = opsOf(p.Intervals, "consume", end)
	}
	return d
}

// opsOf adds up the requests of an operation in the whole intervals that end within so many ns.
func opsOf(intervals []figures.Interval, name string, until int64) (o ops) {
	for _, i := range intervals {
		if i.Start+i.Wall > until {
			break
		}
		o.wall = i.Start + i.Wall
		for _, op := range i.Ops {
			if op.Name == name {
				o.requests += op.Requests
			}
		}
	}
	return o
}

// deepest is the most items that the queues held at the end of an interval.
func deepest(p *figures.Phase) (most int64) {
	for _, i := range p.Intervals {
		if i.Server != nil {
			most = max(most, i.Server.Items)
		}
	}
	return most
}
