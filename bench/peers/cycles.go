package main

import (
	"context"
	"fmt"

	"github.com/kestrelmq/kestrel/loadtest"
)

const (
	// cycles is how many times a queue is filled for one measurement.
	cycles = 4
	// warmCycles is how many times before: with a window of half a second, until kestrel's journal
	// goes round in files that it has written before.
	warmCycles = 4
)

// inCycles reports whether the puts of a case are measured in cycles. The queue is then filled with a part of what the
// window takes, and drained, again and again, and the fills count. So every server works in memory that it has used
// before, as memcached does, which writes over what is there. How a queue grows is another case.
func (c benchCase) inCycles(s server) bool {
	return c.kind == set && c.class != syncAlways && !s.Pushes() &&
		s.Protocol != loadtest.JetStream // which takes minutes to drain
}

// observeCycles measures the puts of a case in cycles.
func observeCycles(ctx context.Context, o *options, pid int, c benchCase, s server,
	load loadtest.Options) (*sample, error) {
	put := load.Groups[0]
	put.Duration, put.Operations = 0, c.gets(o.window, s.speed)/cycles
	take := s.Take(put)
	take.Hits = take.Operation != loadtest.Get
	load.Warmup = 0
	var sum *sample
	for i := range warmCycles + cycles {
		load.Groups = []loadtest.Group{put}
		got, err := observe(ctx, pid, c, load)
		if err != nil {
			return nil, fmt.Errorf("fill %d: %w", i, err)
		}
		switch {
		case i < warmCycles:
		case sum == nil:
			sum = got
		default:
			sum.add(got)
		}
		if s.keeps {
			continue // there is nothing to drain
		}
		load.Groups = []loadtest.Group{take}
		r, err := loadtest.Run(ctx, load)
		if err == nil && r.Misses() > 0 {
			err = fmt.Errorf("%d gets missed", r.Misses())
		}
		if err != nil {
			return nil, fmt.Errorf("drain %d: %w", i, err)
		}
	}
	return sum, nil
}

// add takes in a later part of the same measurement.
func (s *sample) add(t *sample) {
	s.operations += t.operations
	s.wall += t.wall
	s.serverCPU += t.serverCPU
	s.generatorCPU += t.generatorCPU
	s.resident, s.perClient = t.resident, t.perClient
	s.latency.Merge(t.latency)
	s.setPercentiles()
}
