package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// errStopped ends a thread because the run is over; it is never what Run returns.
var errStopped = errors.New("loadtest: stopped")

// Run connects, drives the warm-up and then the measured window, and disconnects. It returns what the measured window
// saw, as far as it went, and the first error. That is one of the options or of a connection, a *ReplyError, a
// *LostError, ErrStalled, or the context's when that ended the run. Run waits for its threads; after an error that
// takes about tickInterval.
func Run(ctx context.Context, opts Options) (Result, error) {
	if err := opts.Validate(); err != nil {
		return Result{}, fmt.Errorf("load options: %w", err)
	}
	opts = opts.withDefaults()
	addr, err := net.ResolveTCPAddr("tcp", opts.Addr)
	if err != nil {
		return Result{}, fmt.Errorf("resolve %q: %w", opts.Addr, err)
	}
	r, err := newRunner(opts, addr)
	if err != nil {
		return Result{}, err
	}
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
	// Immutable.
	opts    Options
	start   time.Time
	groups  []*group
	windows []chan window
	reports chan report

	threads   sync.WaitGroup
	stop      atomic.Bool  // set when the run is cancelled or a thread failed
	producing atomic.Int64 // connections that put and are not done with the window
	released  atomic.Bool  // connections that put may start
	free      sync.Pool    // of *tally
}

// report is what a thread hands in at the end of an interval. Its final one comes at the end of a window, or, without a
// tally, of connecting.
type report struct {
	thread   int
	final    bool
	interval int    // the first that tally has nothing of
	tally    *tally // owned by the receiver
	retries  int64
	err      error
}

// newRunner starts the threads, which begin to connect.
func newRunner(opts Options, addr *net.TCPAddr) (*runner, error) {
	r := &runner{opts: opts, start: time.Now()}
	reconnects, waits := false, false
	for i := range opts.Groups {
		g := newGroup(&r.opts, i)
		r.groups = append(r.groups, g)
		reconnects = reconnects || g.Reconnect > 0 || g.Kill > 0
		waits = waits || g.Wait > 0 || g.Rate > 0
	}
	conns, err := r.newConns()
	if err != nil {
		return nil, err
	}
	count := min(opts.Threads, len(conns))
	r.reports = make(chan report, 4*count)
	for i := range count {
		t := &thread{
			index:   i,
			run:     r,
			target:  newTarget(addr, reconnects),
			cpu:     -1,
			hold:    runtime.GOMAXPROCS(0) > count,
			napping: !waits,
			random:  rand.New(rand.NewPCG(opts.Seed, uint64(i))),
		}
		if len(opts.CPUs) > 0 {
			t.cpu = opts.CPUs[i%len(opts.CPUs)]
		}
		for n := i; n < len(conns); n += count {
			t.conns = append(t.conns, conns[n])
		}
		t.newPacers()
		windows := make(chan window)
		r.windows = append(r.windows, windows)
		r.threads.Go(func() { t.serve(windows) })
	}
	return r, nil
}

// newPacers gives each group with a rate its pacer, and each connection its place.
func (t *thread) newPacers() {
	counts := make([]int, len(t.run.groups))
	for i := range t.conns {
		t.conns[i].slot = i
		counts[t.conns[i].group.index]++
	}
	places := make([]int, len(counts))
	for i, g := range t.run.groups {
		if g.Rate > 0 && counts[i] > 0 {
			places[i] = len(t.pacers)
			part := float64(counts[i]) / float64(g.Connections)
			t.pacers = append(t.pacers, newPacer(g, counts[i], part))
		}
	}
	for i := range t.conns {
		t.conns[i].pacer = places[t.conns[i].group.index]
	}
}

// newConns returns all connections, closed, with their places in the ledger.
func (r *runner) newConns() ([]conn, error) {
	ledger := r.opts.Ledger
	orders := r.orders()
	var conns []conn
	producers, consumers := make(map[string]int), make(map[string]int)
	for _, g := range r.groups {
		for i := range g.Connections {
			queue := i % len(g.queues)
			c := conn{group: g, number: len(conns), index: i, queue: queue, fd: -1}
			name := g.queues[queue]
			c.name = []byte(name)
			if ledger != nil && g.Operation.Puts() {
				p, err := ledger.producer(name, producers[name], g.ItemSize, g.Fanout,
					g.FanoutOnly)
				if err != nil {
					return nil, err
				}
				c.producer = p
				producers[name]++
			}
			if ledger != nil && g.Operation.Gets() {
				c.consumer = ledger.consumer(name, consumers[name], g.ItemSize, orders[name])
				consumers[name]++
			}
			conns = append(conns, c)
		}
	}
	return conns, nil
}

// orders returns, by queue, the order in which consumers can expect its items.
func (r *runner) orders() map[string]order {
	consumers := make(map[string]int)
	loose := make(map[string]bool)
	for _, g := range r.groups {
		for i := range g.Connections {
			name := g.queues[i%len(g.queues)]
			if g.Operation.Gets() {
				consumers[name]++
			}
			loose[name] = loose[name] || g.Kill > 0
		}
	}
	orders := make(map[string]order)
	for name, n := range consumers {
		switch {
		case loose[name]:
			orders[name] = anyOrder
		case n == 1:
			orders[name] = exactOrder
		default:
			orders[name] = risingOrder
		}
	}
	return orders
}

// received returns how many items the ledger has seen.
func (r *runner) received() int64 {
	if r.opts.Ledger == nil {
		return 0
	}
	return r.opts.Ledger.got.Load()
}

// drained reports whether nothing more is put, and everything that was put is got.
func (r *runner) drained() bool {
	return r.producing.Load() == 0 && r.opts.Ledger.drained()
}

// newTally returns an empty tally for a thread.
func (r *runner) newTally(t *thread) *tally {
	next, ok := r.free.Get().(*tally)
	if !ok {
		next = new(tally)
	}
	next.random, next.onItem = t.random, r.opts.OnItem
	if r.opts.Ledger != nil {
		next.offset = r.start.Sub(r.opts.Ledger.begin)
	}
	return next
}

// recycle takes back a tally whose counts have been added to another.
func (r *runner) recycle(t *tally) {
	t.reset()
	r.free.Put(t)
}

// run drives both windows.
func (r *runner) run() (Result, error) {
	result := Result{Threads: len(r.windows)}
	retries, err := r.connected()
	result.Retries = retries
	if err != nil {
		return result, fmt.Errorf("connect to %s: %w", r.opts.Addr, err)
	}
	if r.warms() {
		if _, err := r.drive(true, nil); err != nil {
			return result, fmt.Errorf("warm-up: %w", err)
		}
	}
	var begin time.Time
	var cpu time.Duration
	total, err := r.drive(false, func() {
		if r.opts.Begin != nil {
			r.opts.Begin()
		}
		begin, cpu = time.Now(), cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)
	})
	result.Wall = time.Since(begin)
	result.ProcessCPU = cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - cpu
	result.Summary, result.Lag = total.summary(), total.lag
	result.Errors, result.Unsent, result.ThreadCPU = total.errors, total.unsent, total.cpu
	if r.opts.End != nil {
		r.opts.End()
	}
	return result, err
}

// warms reports whether there is a warm-up.
func (r *runner) warms() bool {
	for _, g := range r.groups {
		if g.WarmupOperations > 0 {
			return true
		}
	}
	return r.opts.Warmup > 0
}

// connected waits until every thread has connected.
func (r *runner) connected() (retries int64, err error) {
	for range r.windows {
		got := <-r.reports
		retries += got.retries
		err = r.failed(err, got.err)
	}
	return retries, err
}

// failed returns the error to report of the first so far and another. An error stops all threads.
func (r *runner) failed(first, err error) error {
	if err == nil {
		return first
	}
	r.stop.Store(true)
	if first == nil || errors.Is(first, errStopped) {
		return err
	}
	return first
}

// drive has all threads drive a window. Begun, if not nil, is called when it begins: then all
// threads wait, or only those groups with a head start have begun.
func (r *runner) drive(warm bool, begun func()) (*tally, error) {
	w := window{warm: warm, headStart: !warm && r.opts.HeadStart > 0}
	producers := 0
	for _, g := range r.groups {
		length := g.Duration
		if warm {
			length = r.opts.Warmup
			if length == 0 && g.WarmupOperations == 0 {
				length = 1 // this group has no part in the warm-up
			}
		}
		w.lengths = append(w.lengths, length)
		if g.Operation.Puts() {
			producers += g.Connections
		}
	}
	r.producing.Store(int64(producers))
	r.released.Store(!w.headStart)
	if begun != nil && !w.headStart {
		begun()
	}
	for _, windows := range r.windows {
		windows <- w
	}
	if w.headStart {
		time.Sleep(r.opts.HeadStart)
		begun()
		r.released.Store(true)
	}
	return r.gather(time.Since(r.start), !warm)
}

// close ends the threads and waits for them.
func (r *runner) close() {
	for _, windows := range r.windows {
		close(windows)
	}
	r.threads.Wait()
}
