package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// errStopped ends a thread because the run is over; it is never what Run returns.
var errStopped = errors.New("loadtest: stopped")

// Run connects, drives the warm-up and then the measured window, and disconnects. It returns what
// the measured window saw, as far as it went, and the first error: of the options, of a connection,
// a *ReplyError, ErrStalled, or the context's when that ended the run. Run waits for its threads;
// after an error that takes about tickInterval.
func Run(ctx context.Context, opts Options) (Result, error) {
	if err := opts.Validate(); err != nil {
		return Result{Latency: newHistogram()}, fmt.Errorf("load options: %w", err)
	}
	opts = opts.withDefaults()
	addr, err := net.ResolveTCPAddr("tcp", opts.Addr)
	if err != nil {
		return Result{Latency: newHistogram()}, fmt.Errorf("resolve %q: %w", opts.Addr, err)
	}
	r := newRunner(opts, addr)
	defer r.close()
	unlink := context.AfterFunc(ctx, func() { r.stop.Store(true) })
	defer unlink()

	result, err := r.run()
	if errors.Is(err, errStopped) {
		err = ctx.Err()
	}
	return result, err
}

// runner holds the threads of one run.
type runner struct {
	opts    Options
	start   time.Time
	stop    atomic.Bool
	windows []chan window
	results chan threadResult
	threads sync.WaitGroup
}

// newRunner starts the threads, which begin to connect.
func newRunner(opts Options, addr *net.TCPAddr) *runner {
	r := &runner{opts: opts, start: time.Now()}
	plan := newPlan(opts)
	threads := min(opts.Threads, opts.Connections)
	r.results = make(chan threadResult, threads)
	for i := range threads {
		t := &thread{
			plan:   plan,
			target: newTarget(addr, opts.Reconnect > 0),
			start:  r.start,
			stop:   &r.stop,
			cpu:    -1,
			hold:   runtime.GOMAXPROCS(0) > threads,
			conns:  newConns(plan, i, threads),
		}
		if len(opts.CPUs) > 0 {
			t.cpu = opts.CPUs[i%len(opts.CPUs)]
		}
		windows := make(chan window)
		r.windows = append(r.windows, windows)
		r.threads.Go(func() { t.serve(windows, r.results) })
	}
	return r
}

// newConns returns every connection whose index is i modulo threads, closed.
func newConns(p *plan, i, threads int) []conn {
	var conns []conn
	for ; i < p.opts.Connections; i += threads {
		c := conn{index: i, queue: i % len(p.queues), fd: -1}
		if p.opts.Verify {
			c.own = new(batch)
			c.order = &orderChecker{
				producer: uint32(c.queue),
				sole:     p.opts.Connections <= p.opts.Queues,
				started:  p.opts.Operation != Get,
			}
		}
		conns = append(conns, c)
	}
	return conns
}

// run drives both windows.
func (r *runner) run() (Result, error) {
	result := Result{Latency: newHistogram()}
	if _, err := r.gather(); err != nil {
		return result, fmt.Errorf("connect to %s: %w", r.opts.Addr, err)
	}
	if r.opts.WarmupOperations > 0 || r.opts.Warmup > 0 {
		if _, err := r.drive(r.opts.WarmupOperations, r.opts.Warmup); err != nil {
			return result, fmt.Errorf("warm-up: %w", err)
		}
	}
	if r.opts.Begin != nil {
		r.opts.Begin()
	}
	begin, cpu := time.Now(), cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)
	tallies, err := r.drive(r.opts.Operations, r.opts.Duration)
	result.Wall = time.Since(begin)
	result.ProcessCPU = cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - cpu
	for _, t := range tallies {
		result.add(t)
	}
	if r.opts.End != nil {
		r.opts.End()
	}
	return result, err
}

// drive has all threads drive a window of so many operations and so long; zero means unbounded.
func (r *runner) drive(operations int64, duration time.Duration) ([]*tally, error) {
	end := time.Duration(unbounded)
	if duration > 0 {
		end = time.Since(r.start) + duration
	}
	threads := int64(len(r.windows))
	for i, windows := range r.windows {
		w := window{operations: unbounded, end: end}
		if operations > 0 {
			w.operations = operations / threads
			if int64(i) < operations%threads {
				w.operations++
			}
		}
		windows <- w
	}
	return r.gather()
}

// gather waits for the answer of every thread. The first error stops the other threads.
func (r *runner) gather() (tallies []*tally, err error) {
	for range r.windows {
		result := <-r.results
		if result.tally != nil {
			tallies = append(tallies, result.tally)
		}
		if result.err != nil {
			r.stop.Store(true)
			if err == nil || errors.Is(err, errStopped) {
				err = result.err
			}
		}
	}
	return tallies, err
}

// close ends the threads and waits for them.
func (r *runner) close() {
	for _, windows := range r.windows {
		close(windows)
	}
	r.threads.Wait()
}
