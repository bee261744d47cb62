package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// connectWait is how long connections that are refused are tried again.
const connectWait = 30 * time.Second

// phase is one run of the generator within a scenario.
type phase struct {
	name    string
	groups  []loadtest.Group
	queues  []string // to watch
	target  float64  // requests a second asked for
	options func(*loadtest.Options)
}

// runPhase runs a phase and adds it to the figures, also if it fails.
func (e *Env) runPhase(ctx context.Context, p phase) (loadtest.Result, error) {
	w := &watch{env: e, phase: &figures.Phase{Name: p.name, Target: p.target},
		expect: expected(p.groups)}
	w.sampler = sampler{env: e, queues: p.queues, began: e.began}
	opts := loadtest.Options{
		Addr:        e.Server,
		Protocol:    e.Protocol,
		ClientID:    e.ClientID,
		Groups:      p.groups,
		Ledger:      e.ledger,
		ConnectWait: connectWait,
		Threads:     e.Threads,
		CPUs:        e.CPUs,
		Seed:        e.Seed + uint64(len(e.Figures.Phases)),
		Interval:    e.Interval,
		OnInterval:  w.interval,
		Begin:       w.begin,
		End:         w.end,
	}
	if p.options != nil {
		p.options(&opts)
	}
	result, err := loadtest.Run(ctx, opts)
	if addErr := w.finish(&result); addErr != nil {
		err = errors.Join(err, addErr)
	}
	if err = errors.Join(err, w.err); err != nil {
		return result, fmt.Errorf("%s: %w", p.name, err)
	}
	return result, nil
}

// watch follows one phase. It is used by the goroutine that runs the phase.
type watch struct {
	env     *Env
	phase   *figures.Phase
	sampler sampler
	expect  expectation
	started time.Time
	cpu     time.Duration // of the server, at the beginning
	usage   *figures.Usage
	done    int64 // requests so far
	err     error
}

// begin reads the server's counters when the measured window begins.
func (w *watch) begin() {
	w.started = time.Now()
	w.phase.Start = int64(w.started.Sub(w.env.began))
	if w.env.PID == 0 {
		return
	}
	cpu, err1 := spawn.CPUTime(w.env.PID)
	resident, err2 := spawn.Resident(w.env.PID)
	if w.err = errors.Join(err1, err2); w.err == nil {
		w.cpu = cpu
		w.usage = &figures.Usage{
			AtStart:   resident,
			Peak:      resident,
			Processor: w.env.Figures.Server.Processors,
		}
	}
}

// end reads them again.
func (w *watch) end() {
	if w.usage == nil {
		return
	}
	cpu, err1 := spawn.CPUTime(w.env.PID)
	resident, err2 := spawn.Resident(w.env.PID)
	if err := errors.Join(err1, err2); err != nil {
		w.err = errors.Join(w.err, err)
		w.usage = nil
		return
	}
	w.usage.CPU, w.usage.Resident = int64(cpu-w.cpu), resident
	w.usage.Peak = max(w.usage.Peak, resident)
}

// interval keeps an interval.
func (w *watch) interval(i loadtest.Interval) {
	next := figures.Interval{Start: int64(i.Start), Wall: int64(i.Wall), Server: w.sampler.sample()}
	begin := w.started.Add(i.Start)
	log := func(kind string, op loadtest.Op) {
		if w.env.Log != nil {
			err := w.env.Log.Interval(w.phase.Name, kind, begin, i.Wall, op.Latency)
			w.err = errors.Join(w.err, err)
		}
	}
	for _, op := range i.Ops {
		next.Ops = append(next.Ops, figures.IntervalOp{
			Name: op.Name, Requests: op.Requests, Quantiles: figures.NewQuantiles(op.Latency)})
		log(op.Name, op)
	}
	if i.Delivery != nil && i.Delivery.TotalCount() > 0 {
		q := figures.NewQuantiles(i.Delivery)
		next.Delivery = &q
		log("delivery", loadtest.Op{Latency: i.Delivery})
	}
	if w.usage != nil && next.Server != nil {
		w.usage.Peak = max(w.usage.Peak, next.Server.Resident)
	}
	w.phase.Intervals = append(w.phase.Intervals, next)
	w.progress(&i, next.Server)
}

// progress passes on how far the phase is.
func (w *watch) progress(i *loadtest.Interval, s *figures.Sample) {
	w.done += i.Operations()
	if w.env.Progress == nil {
		return
	}
	p := Progress{Phase: w.phase.Name, Elapsed: i.Start + i.Wall, Depth: -1}
	if i.Wall > 0 {
		p.Rate = float64(i.Operations()) / i.Wall.Seconds()
	}
	p.P99 = time.Duration(i.Latency().ValueAtQuantile(99))
	if s != nil {
		p.Depth = s.Items
	}
	p.Remaining = w.expect.remaining(p.Elapsed, w.done)
	w.env.Progress(p)
}

// finish completes the figures of the phase and adds it.
func (w *watch) finish(r *loadtest.Result) error {
	p := w.phase
	p.Wall, p.Unsent = int64(r.Wall), r.Unsent
	var errs []error
	latency := func(h *figures.Latency, err error) *figures.Latency {
		errs = append(errs, err)
		return h
	}
	for _, op := range r.Ops {
		next := figures.Op{Name: op.Name, Requests: op.Requests, Items: op.Items, Misses: op.Misses,
			Latency: latency(figures.NewLatency(op.Latency))}
		if r.Wall > 0 {
			next.Rate = float64(op.Requests) / r.Wall.Seconds()
		}
		p.Ops = append(p.Ops, next)
	}
	p.Delivery = latency(figures.NewLatency(r.Delivery))
	p.Lag = latency(figures.NewLatency(r.Lag))
	p.Generator = figures.Generator{Threads: r.Threads, ThreadCPU: int64(r.ThreadCPU),
		ProcessCPU: int64(r.ProcessCPU)}
	if r.Wall > 0 && r.Threads > 0 {
		p.Generator.Busy = r.ThreadCPU.Seconds() / r.Wall.Seconds() / float64(r.Threads)
	}
	if w.usage != nil && r.Operations() > 0 {
		w.usage.PerOpCPU = w.usage.CPU / r.Operations()
		p.Server = w.usage
	}
	w.env.Figures.Phases = append(w.env.Figures.Phases, p)
	w.env.noteBottleneck(p)
	return errors.Join(errs...)
}
