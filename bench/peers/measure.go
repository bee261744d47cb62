package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// sample is one measurement. An operation is an item put, or got if the case only gets, or put and got. In the cases
// that deliver it is an item that went all the way.
type sample struct {
	operations     int64
	wall           time.Duration
	serverCPU      time.Duration
	generatorCPU   time.Duration // of the generator's threads
	latency        *hdrhistogram.Histogram
	p50, p99, p999 time.Duration // of it
	resident       int64         // bytes, of the server at the end of the window
	perClient      float64       // bytes of resident memory that each connection has added
}

// results holds the samples of each case and server, one per round, nil where one failed.
type results map[string]map[string][]*sample

// measureAll measures every case, round by round. It goes on after a failure, and returns what it
// has with all failures; an interrupt ends it.
func measureAll(
	ctx context.Context, o *options, plan []planned, todo *schedule, stderr io.Writer,
) (results, error) {
	all := make(results)
	var errs []error
	for _, p := range plan {
		name := p.String()
		all[name] = make(map[string][]*sample)
		for round := range o.rounds {
			for _, s := range p.servers {
				fmt.Fprintf(stderr, "%v%sround %d/%d %-16s ", todo, name, round+1, o.rounds, s.Name)
				_, err := measureFilled(ctx, o.dummy(), p.benchCase, s)
				var got *sample
				if err == nil {
					got, err = measureFilled(ctx, o, p.benchCase, s)
				}
				todo.measured(o.estimate(p.benchCase, s))
				if ctx.Err() != nil {
					fmt.Fprintln(stderr, "interrupted")
					return all, errors.Join(append(errs, ctx.Err())...)
				}
				if err != nil {
					err = fmt.Errorf("%s:%sround %d: %w", s.Name, name, round+1, err)
					errs = append(errs, err)
					fmt.Fprintf(stderr, "FAILED: %v\n", err)
					got = nil
				} else {
					fmt.Fprintf(stderr, "%7.3f µs/op %10.0f op/s  generator %.3f µs/op\n",
						got.cpuPerOperation(), got.rate(), got.generatorPerOperation())
				}
				all[name][s.Name] = append(all[name][s.Name], got)
			}
		}
	}
	return all, errors.Join(errs...)
}

// errRanDry says that a server got all that was put for it before its time was over.
var errRanDry = errors.New("the queue ran dry")

// measureFilled is measure, again with twice as much to get if a server is quicker than was thought.
func measureFilled(ctx context.Context, o *options, c benchCase, s server) (got *sample, err error) {
	for range 4 {
		if got, err = measure(ctx, o, c, s); !errors.Is(err, errRanDry) {
			break
		}
		s.speed *= 2
	}
	return got, err
}

// measure measures one case on one server, freshly started.
func measure(ctx context.Context, o *options, c benchCase, s server) (got *sample, err error) {
	p, addr, err := o.setup.Start(ctx, s.Server, o.serverCPUs(s)...)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, p.Kill())
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+20*(o.window+o.warmup))
	defer cancel()
	if err := s.Prepare(addr); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare: %w", err), p.Alive())
	}
	load := o.load(c, s, addr)
	if c.kind == get {
		if err := fill(ctx, o, c, load, s); err != nil {
			return nil, errors.Join(fmt.Errorf("fill: %w", err), p.Alive())
		}
	}
	if c.inCycles(s) {
		got, err = observeCycles(ctx, o, p.PID, c, s, load)
	} else {
		got, err = observe(ctx, p.PID, c, load)
	}
	if err != nil {
		return nil, errors.Join(err, p.Alive())
	}
	if filled := c.gets(o.window, s.speed); c.kind == get && s.Pushes() && got.operations >= filled {
		return nil, fmt.Errorf("%w after %d gets", errRanDry, got.operations)
	}
	return got, nil
}

// fill puts as many items as the load will get.
func fill(ctx context.Context, o *options, c benchCase, load loadtest.Options, s server) error {
	items := c.gets(o.window, s.speed) + c.gets(o.warmup, s.speed)
	if s.keeps {
		items = 1
	}
	load.Groups = []loadtest.Group{{Connections: 4, Pipeline: 32, ItemSize: c.size, Queue: queueName,
		Operations: items}}
	load.Warmup = 0
	_, err := loadtest.Run(ctx, load)
	return err
}

// counters are a server's, at the two ends of the measured window.
type counters struct {
	idle          int64 // resident bytes before the connections
	before, after time.Duration
	err           error
}

// observe runs a load and reads the server's CPU clock around its measured window.
func observe(
	ctx context.Context, pid int, c benchCase, load loadtest.Options,
) (*sample, error) {
	var n counters
	n.idle, n.err = spawn.Resident(pid)
	load.Begin = func() { n.before = n.cpu(pid) }
	load.End = func() { n.after = n.cpu(pid) }
	result, err := loadtest.Run(ctx, load)
	if err := errors.Join(err, n.err); err != nil {
		return nil, err
	}
	if result.Misses() > 0 && !c.kind.delivers() {
		return nil, fmt.Errorf("%d of %d gets missed", result.Misses(), result.Operations())
	}
	resident, err := spawn.Resident(pid)
	if err != nil {
		return nil, err
	}
	s := &sample{
		operations:   c.operations(result),
		wall:         result.Wall,
		serverCPU:    n.after - n.before,
		generatorCPU: result.ThreadCPU,
		resident:     resident,
		perClient:    float64(resident-n.idle) / float64(c.connections),
	}
	if s.operations == 0 {
		return nil, errors.New("not one operation was done")
	}
	s.latency = c.latency(result)
	s.setPercentiles()
	return s, nil
}

func (n *counters) cpu(pid int) time.Duration {
	d, err := spawn.CPUTime(pid)
	n.err = errors.Join(n.err, err)
	return d
}

// operations returns how many operations of the case were done.
func (c benchCase) operations(r loadtest.Result) int64 {
	put, _ := r.Op("put")
	if c.kind == get || c.kind.delivers() {
		return r.Got()
	}
	return put.Items
}

// latency returns what the case's percentiles are of: deliveries, or the requests that count.
func (c benchCase) latency(r loadtest.Result) *hdrhistogram.Histogram {
	if c.kind.delivers() {
		return r.Delivery
	}
	return r.Latency()
}

func (s *sample) setPercentiles() {
	s.p50 = time.Duration(s.latency.ValueAtQuantile(50))
	s.p99 = time.Duration(s.latency.ValueAtQuantile(99))
	s.p999 = time.Duration(s.latency.ValueAtQuantile(99.9))
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

func (s *sample) p50Micros() float64    { return microseconds(s.p50) }
func (s *sample) p99Micros() float64    { return microseconds(s.p99) }
func (s *sample) p999Micros() float64   { return microseconds(s.p999) }
func (s *sample) residentMiB() float64  { return float64(s.resident) / (1 << 20) }
func (s *sample) perClientKiB() float64 { return s.perClient / (1 << 10) }

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
