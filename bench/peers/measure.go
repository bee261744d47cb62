package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// sample is one measurement.
type sample struct {
	operations   int64
	wall         time.Duration
	serverCPU    time.Duration
	generatorCPU time.Duration // of the generator's threads
	p50, p99     time.Duration // of a batch
	resident     int64         // bytes, of the server at the end of the window
}

// results holds the samples of each case and server, one per round, nil where one failed.
type results map[string]map[string][]*sample

// measureAll measures every case, round by round. It goes on after a failure, and returns what it
// has with all failures; an interrupt ends it.
func measureAll(
	ctx context.Context, o *options, plan []planned, stderr io.Writer,
) (results, error) {
	all := make(results)
	var errs []error
	for i, p := range plan {
		name := p.String()
		all[name] = make(map[string][]*sample)
		for round := range o.rounds {
			for _, s := range p.servers {
				fmt.Fprintf(stderr, "[%d/%d]%sround %d/%d %-14s ",
					i+1, len(plan), name, round+1, o.rounds, s.name)
				got, err := measure(ctx, o, p.benchCase, s)
				if ctx.Err() != nil {
					fmt.Fprintln(stderr, "interrupted")
					return all, errors.Join(append(errs, ctx.Err())...)
				}
				if err != nil {
					err = fmt.Errorf("%s:%sround %d: %w", s.name, name, round+1, err)
					errs = append(errs, err)
					fmt.Fprintf(stderr, "FAILED: %v\n", err)
					got = nil
				} else {
					fmt.Fprintf(stderr, "%7.3f µs/op %10.0f op/s  generator %.3f µs/op\n",
						got.cpuPerOperation(), got.rate(), got.generatorPerOperation())
				}
				all[name][s.name] = append(all[name][s.name], got)
			}
		}
	}
	return all, errors.Join(errs...)
}

// measure measures one case on one server, freshly started.
func measure(ctx context.Context, o *options, c benchCase, s server) (got *sample, err error) {
	p, addr, err := start(ctx, o, s)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, p.Kill())
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+20*(o.window+o.warmup))
	defer cancel()
	load := o.load(c, s, addr)
	if c.operation == loadtest.Get {
		if err := fill(ctx, load, s); err != nil {
			return nil, errors.Join(fmt.Errorf("fill: %w", err), p.Alive())
		}
	}
	got, err = observe(ctx, p.PID, load)
	if err != nil {
		return nil, errors.Join(err, p.Alive())
	}
	return got, nil
}

// load returns the load of a case. Gets are bounded by number, for the queue must not run dry.
func (o *options) load(c benchCase, s server, addr string) loadtest.Options {
	group := loadtest.Group{
		Operation:   c.operation,
		Connections: c.connections,
		Pipeline:    c.pipeline,
		ItemSize:    itemSize,
		Queue:       "bench",
	}
	load := loadtest.Options{
		Addr:     addr,
		Protocol: s.protocol,
		Threads:  len(o.loadCPUs),
		CPUs:     o.loadCPUs,
	}
	if c.operation == loadtest.Get {
		group.Operations, group.WarmupOperations = c.gets(o.window), c.gets(o.warmup)
	} else {
		group.Duration, load.Warmup = o.window, o.warmup
	}
	load.Groups = []loadtest.Group{group}
	return load
}

// fill puts as many items as the load will get.
func fill(ctx context.Context, load loadtest.Options, s server) error {
	group := load.Groups[0]
	group.Operation, group.Connections, group.Pipeline = loadtest.Set, 4, 32
	group.Operations += group.WarmupOperations
	group.WarmupOperations = 0
	if s.keeps {
		group.Operations = 1
	}
	load.Groups = []loadtest.Group{group}
	_, err := loadtest.Run(ctx, load)
	return err
}

// observe runs a load and reads the server's CPU clock around its measured window.
func observe(ctx context.Context, pid int, load loadtest.Options) (*sample, error) {
	var before, after time.Duration
	var beforeErr, afterErr error
	load.Begin = func() { before, beforeErr = spawn.CPUTime(pid) }
	load.End = func() { after, afterErr = spawn.CPUTime(pid) }
	result, err := loadtest.Run(ctx, load)
	if err := errors.Join(err, beforeErr, afterErr); err != nil {
		return nil, err
	}
	if result.Misses() > 0 {
		return nil, fmt.Errorf("%d of %d gets missed", result.Misses(), result.Operations())
	}
	resident, err := spawn.Resident(pid)
	if err != nil {
		return nil, err
	}
	latency := result.Latency()
	return &sample{
		operations:   result.Operations(),
		wall:         result.Wall,
		serverCPU:    after - before,
		generatorCPU: result.ThreadCPU,
		p50:          time.Duration(latency.ValueAtQuantile(50)),
		p99:          time.Duration(latency.ValueAtQuantile(99)),
		resident:     resident,
	}, nil
}

// The functions below return a sample's numbers in the units of the report.

func (s *sample) cpuPerOperation() float64 { // µs
	return microseconds(s.serverCPU) / float64(s.operations)
}

func (s *sample) generatorPerOperation() float64 { // µs
	return microseconds(s.generatorCPU) / float64(s.operations)
}

func (s *sample) rate() float64 { // operations per second
	return float64(s.operations) / s.wall.Seconds()
}

func (s *sample) busy() float64 { // percent of one core
	return 100 * s.serverCPU.Seconds() / s.wall.Seconds()
}

func (s *sample) residentMiB() float64 { return float64(s.resident) / (1 << 20) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// over applies f to the sample of each round; a failed round is not a number.
func over(samples []*sample, f func(*sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = math.NaN()
		if s != nil {
			values[i] = f(s)
		}
	}
	return values
}
