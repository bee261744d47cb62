package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// spanKind is what happens on the backlog's queue while a neighbour puts to another.
type spanKind uint8

const (
	quiet    spanKind = iota // nothing
	inMemory                 // full speed, of a queue that stays in memory
	spilling                 // full speed, of a queue that grows in read-behind
	draining                 // full speed, of a queue that is read back
	numSpans
)

func (k spanKind) String() string {
	return [...]string{"nothing", "puts and gets in memory", "spills", "drains"}[k]
}

// steps is in how many parts each of the queue's jobs is done, with quiet between them.
const steps = 8

// span is how a neighbour fared for a while.
type span struct {
	latency *hdrhistogram.Histogram // of puts, from when they were due, in nanoseconds
	lag     *hdrhistogram.Histogram // of it, what the generator was late
	shared  bool                    // the load did not give way to the neighbour
}

func (s *span) p50() float64   { return quantile(s.latency, 50) }
func (s *span) p99() float64   { return quantile(s.latency, 99) }
func (s *span) p999() float64  { return quantile(s.latency, 99.9) }
func (s *span) lag99() float64 { return quantile(s.lag, 99) }

// add adds how it fared for another while.
func (s *span) add(other *span) {
	s.latency, s.lag = merged(s.latency, other.latency), merged(s.lag, other.lag)
	s.shared = s.shared || other.shared
}

// merged adds h to a histogram, which is made if there is none, and returns that.
func merged(to, h *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if to == nil {
		to = hdrhistogram.New(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
	}
	to.Merge(h)
	return to
}

// neighbour measures the puts of a neighbour in every span there is.
func (s *sample) neighbour(ctx context.Context, l *life, o *options) error {
	if err := s.takeTurns(ctx, l, o, inMemory, func(int64) error {
		var unused sample
		for end := time.Now().Add(o.alone / steps); time.Now().Before(end); {
			if err := unused.cycles(ctx, l, cycleSize/itemSize); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("in memory: %w", err)
	}
	ahead := int64(o.memory) * 3 / 2 / itemSize // then the queue is in read-behind
	if _, err := l.fill(ctx, ahead); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := s.takeTurns(ctx, l, o, spilling, func(step int64) error {
		put, err := l.fill(ctx, share(o.items()-ahead, step))
		s.put.add(put)
		return err
	}); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := s.takeTurns(ctx, l, o, draining, func(step int64) (err error) {
		var got leg
		if step < steps-1 {
			got, err = l.take(ctx, share(o.items(), step))
		} else {
			got, s.lost, err = l.drain(ctx)
		}
		s.get.add(got)
		return err
	}); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	for k := inMemory; k < numSpans; k++ {
		s.beside[quiet].add(&s.quiet[k])
	}
	if s.lost > 0 {
		return fmt.Errorf("%d items were lost", s.lost)
	}
	return nil
}

// takeTurns measures a neighbour beside what work does in each of its steps, and beside nothing before each. So what
// else the machine has to do meets both.
func (s *sample) takeTurns(
	ctx context.Context, l *life, o *options, kind spanKind, work func(step int64) error,
) error {
	for step := range int64(steps) {
		alone, err := l.beside(o.rate, func() error { return sleep(ctx, o.alone/steps) })
		if err != nil {
			return fmt.Errorf("quiet: %w", err)
		}
		s.quiet[kind].add(&alone)
		busy, err := l.beside(o.rate, func() error { return work(step) })
		if err != nil {
			return err
		}
		s.beside[kind].add(&busy)
	}
	return nil
}

// share returns how many of so many items are for a step.
func share(items, step int64) int64 { return items*(step+1)/steps - items*step/steps }

// beside has a neighbour put at a rate while what is given runs.
func (l *life) beside(rate float64, run func() error) (span, error) {
	p, err := startPutter(l.addr, rate, l.loadCPU)
	if err != nil {
		return span{}, err
	}
	runErr := run()
	s, err := p.end()
	return s, errors.Join(runErr, err)
}

// sleep waits, at most until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
