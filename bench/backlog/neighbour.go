package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/loadtest"
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

const (
	besideQueue = "beside"
	besideSize  = 64        // bytes of an item
	longest     = time.Hour // of a span; it is ended before
)

// span is how a neighbour fared for a while.
type span struct {
	latency *hdrhistogram.Histogram // of puts, from when they were due, in nanoseconds
	lag     *hdrhistogram.Histogram // of it, what the generator was late
}

func (s *span) p50() float64   { return quantile(s.latency, 50) }
func (s *span) p99() float64   { return quantile(s.latency, 99) }
func (s *span) p999() float64  { return quantile(s.latency, 99.9) }
func (s *span) lag99() float64 { return quantile(s.lag, 99) }

// neighbour measures the puts of a neighbour in every span there is.
func (s *sample) neighbour(ctx context.Context, l *life, o *options) (err error) {
	if s.beside[quiet], err = l.beside(ctx, o.rate, func() error {
		return sleep(ctx, o.alone)
	}); err != nil {
		return fmt.Errorf("quiet: %w", err)
	}
	if s.beside[inMemory], err = l.beside(ctx, o.rate, func() error {
		var unused sample
		for end := time.Now().Add(o.alone); time.Now().Before(end); {
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
	if s.beside[spilling], err = l.beside(ctx, o.rate, func() (err error) {
		s.put, err = l.fill(ctx, o.items()-ahead)
		return err
	}); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if s.beside[draining], err = l.beside(ctx, o.rate, func() (err error) {
		s.get, s.lost, err = l.drain(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if s.lost > 0 {
		return fmt.Errorf("%d items were lost", s.lost)
	}
	return nil
}

// beside has a neighbour put at a rate while what is given runs.
func (l *life) beside(ctx context.Context, rate float64, run func() error) (span, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, ended := make(chan struct{}), make(chan struct{})
	load := l.load()
	load.Ledger = nil // latency is all that is asked here, and a ledger is for one run at a time
	load.Begin = func() { close(begun) }
	load.Groups = []loadtest.Group{{Connections: connections, ItemSize: besideSize, Queue: besideQueue,
		Rate: rate, Duration: longest}}
	var result loadtest.Result
	var err error
	go func() {
		defer close(ended)
		result, err = loadtest.Run(ctx, load)
	}()
	select {
	case <-begun:
	case <-ended:
		return span{}, err
	}
	runErr := run()
	cancel()
	<-ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	put, ok := result.Op("put")
	if err = errors.Join(runErr, err); err == nil && !ok {
		err = errors.New("the neighbour put nothing")
	}
	return span{latency: put.Latency, lag: result.Lag}, err
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
