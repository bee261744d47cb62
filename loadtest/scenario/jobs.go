package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// Scenarios of delays, leases and retries share a ledger that knows when each job may come. They also share connections
// that make one request after the other.

const (
	jobWait     = 200 * time.Millisecond // of a fetch
	jobPatience = 10 * time.Second       // after which a job that is due is lost
	jobTick     = time.Millisecond       // by which a server's clock may run ahead of a delay
	minJobSize  = 34                     // bytes: a seed and a number, in hexadecimal digits
	maxProblems = 5                      // that are named
)

// Jobs is how many jobs there are, and who puts and takes them.
type Jobs struct {
	Queue     string
	Items     int64
	Size      int // bytes
	Producers int // connections
	Consumers int // connections
}

// Validate reports every problem of the options.
func (j Jobs) Validate() error {
	var errs []error
	checkQueue(&errs, j.Queue)
	positive(&errs, "items", j.Items)
	positive(&errs, "producers", int64(j.Producers))
	positive(&errs, "consumers", int64(j.Consumers))
	if j.Size < minJobSize {
		errs = append(errs, fmt.Errorf("bytes is %d, want at least %d to verify", j.Size, minJobSize))
	}
	return errors.Join(errs...)
}

// job is one item.
type job struct {
	from       time.Time // it may not come before
	due        time.Time // it should come from then on
	deliveries int
	counted    []int // deliveries, as the server has counted them
	over       bool  // it was confirmed, or rejected
	dead       bool  // it was rejected, and has not been seen in the dead-letter queue
}

// jobLedger knows every job. Its methods may be called from any goroutine.
type jobLedger struct {
	seed     uint64
	patience time.Duration

	mu sync.Mutex
	// Guarded by mu.
	jobs         map[uint64]*job
	left         int // jobs that are neither confirmed nor rejected
	putting      bool
	last         time.Time // when the last job is due that is left, or was
	moved        time.Time // when a job came last
	early, twice int64
	again        int64 // deliveries beyond the first
	foreign      int64
	late         *hdrhistogram.Histogram
	total, span  jobOps // of the run, and of the interval under way
	problems     []error
}

func newJobLedger(seed uint64) *jobLedger {
	return &jobLedger{seed: seed, patience: jobPatience, jobs: make(map[uint64]*job), putting: true, late: newJobHistogram(),
		total: make(jobOps), span: make(jobOps)}
}

// jobOps is what was done of each kind of request.
type jobOps map[string]*loadtest.Op

// add counts a request that brought so many items, and took so long.
func (o jobOps) add(name string, items int64, took time.Duration) {
	op := o[name]
	if op == nil {
		op = &loadtest.Op{Name: name, Latency: newJobHistogram()}
		o[name] = op
	}
	op.Requests++
	op.Items += items
	if items == 0 {
		op.Misses++
	}
	op.Latency.RecordValue(max(int64(took), 1))
}

// summary returns them in a fixed order.
func (o jobOps) summary() (s loadtest.Summary) {
	for _, name := range []string{"put", "get", "touch", "confirm", "abort", "reject"} {
		if op := o[name]; op != nil {
			s.Ops = append(s.Ops, *op)
		}
	}
	return s
}

func newJobHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 3) }

// body is the item of a job.
func (l *jobLedger) body(seq uint64, size int) []byte {
	text := fmt.Sprintf("%016x %016x ", l.seed, seq)
	return []byte(text + strings.Repeat("x", size-len(text)))
}

// parse returns the number of the job that an item is.
func (l *jobLedger) parse(data []byte) (seq uint64, ok bool) {
	if len(data) < minJobSize {
		return 0, false
	}
	seed, err1 := strconv.ParseUint(string(data[:16]), 16, 64)
	seq, err2 := strconv.ParseUint(string(data[17:33]), 16, 64)
	return seq, err1 == nil && err2 == nil && seed == l.seed
}

// problem notes a broken promise. The caller holds mu.
func (l *jobLedger) problem(format string, args ...any) {
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, fmt.Errorf(format, args...))
	}
}

// put notes that a job is put, and hidden for a while, in a request that is about to be sent.
func (l *jobLedger) put(seq uint64, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := time.Now().Add(delay)
	l.jobs[seq] = &job{from: from, due: from}
	l.left++
}

// hidden notes that a job is out of reach for a while, counted from some moment between two.
func (l *jobLedger) hidden(seq uint64, d time.Duration, asked, answered time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[seq]
	j.from, j.due = asked.Add(d), answered.Add(d)
	if j.due.After(l.last) {
		l.last = j.due
	}
}

// came notes that a job has come, and returns how often it has, or 0 if it must not be worked on. Slow says that the
// answer took so long that somebody else may have got the job since.
func (l *jobLedger) came(data []byte, at time.Time, slow bool) (seq uint64, deliveries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq, ok := l.parse(data)
	j := l.jobs[seq]
	if !ok || j == nil {
		l.foreign++
		l.problem("an item that nobody has put: %.60q", data)
		return 0, 0
	}
	l.moved = at
	j.deliveries++
	if j.deliveries > 1 {
		l.again++
	}
	switch {
	case j.over:
		l.noteTwice(seq)
		return seq, 0
	case !slow && at.Before(j.from.Add(-jobTick)):
		l.early++
		l.problem("job %d has come %v before it was due", seq, j.from.Sub(at))
		return seq, j.deliveries
	}
	l.late.RecordValue(max(int64(at.Sub(j.due)), 1))
	return seq, j.deliveries
}

// cameTwice notes that a job has come again after its end.
func (l *jobLedger) cameTwice(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteTwice(seq)
}

// noteTwice is cameTwice for a caller that holds mu.
func (l *jobLedger) noteTwice(seq uint64) {
	l.twice++
	l.problem("job %d has come again after its end", seq)
}

// end notes that a job is confirmed, or rejected.
func (l *jobLedger) end(seq uint64, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j := l.jobs[seq]; !j.over {
		j.over, j.dead = true, dead
		l.left--
	}
}

// counted notes what the server has said of the deliveries of a job.
func (l *jobLedger) counted(seq uint64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[seq].counted = append(l.jobs[seq].counted, n)
}

// checkCounted checks that the server has counted the deliveries of each job: 1, 2, 3. The caller holds mu.
func (l *jobLedger) checkCounted() {
	for seq, j := range l.jobs {
		slices.Sort(j.counted) // two connections may hear of it in another order
		for i, n := range j.counted {
			if n != i+1 {
				l.problem("job %d has come %d times, and the server says %v", seq, len(j.counted), j.counted)
				break
			}
		}
	}
}

// broken notes another broken promise.
func (l *jobLedger) broken(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem(format, args...)
}

// finished reports whether nothing more is to come.
func (l *jobLedger) finished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.putting && (l.left == 0 || time.Since(l.last) > l.patience && time.Since(l.moved) > l.patience)
}

// time notes how long a request took.
func (l *jobLedger) time(op string, items int64, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.add(op, items, took)
	l.span.add(op, items, took)
}

// endSpan returns what was done since it was called last.
func (l *jobLedger) endSpan() loadtest.Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.span.summary()
	l.span = make(jobOps)
	return done
}

// worker is one connection of such a scenario. It is used by one goroutine.
type worker struct {
	*control
	l      *jobLedger
	queue  []byte
	random *rand.Rand
	// Of the last item that was fetched.
	asked, answered time.Time
	receipt         uint64
	counted         int           // deliveries, as the server says
	lasts           time.Duration // lease of the fetches; 0: they take for good
}

// ask makes a request of one reply.
func (w *worker) ask(op string, request []byte, take func(r *memcache.Reply) error) error {
	w.out = append(w.out[:0], request...)
	w.asked = time.Now()
	if err := w.send(); err != nil {
		return err
	}
	items := int64(0)
	err := w.line(func(r *memcache.Reply) error {
		w.answered = time.Now()
		if r.Kind != memcache.KindEnd || op != "get" {
			items = 1
		}
		return take(r)
	})
	w.l.time(op, items, w.answered.Sub(w.asked))
	return err
}

// unexpected is the error for a reply that a request does not have.
func unexpected(op string, r *memcache.Reply) error {
	return fmt.Errorf("%s: the server answered %v %q", op, r.Kind, r.Text)
}

// put puts a job that is hidden for a while.
func (w *worker) put(seq uint64, size int, delay time.Duration) error {
	w.l.put(seq, delay)
	with := memcache.SetOptions{Delay: delay > 0, DelayMillis: delay.Milliseconds()}
	request := memcache.AppendSetWith(nil, w.queue, with, 0, 0, w.l.body(seq, size))
	err := w.ask("put", request, func(r *memcache.Reply) error {
		if r.Kind != memcache.KindStored {
			return unexpected("put", r)
		}
		return nil
	})
	if err == nil {
		w.l.putDone(seq, w.answered.Add(delay))
	}
	return err
}

// putDone notes from when on a job should come, which it may have.
func (l *jobLedger) putDone(seq uint64, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j := l.jobs[seq]; j.deliveries == 0 {
		j.due = due
	}
	if due.After(l.last) {
		l.last = due
	}
}

// next fetches a job, which has come so often; 0 if there is none to work on.
func (w *worker) next(o memcache.GetOptions) (seq uint64, deliveries int, err error) {
	o.WaitMillis = int32(jobWait.Milliseconds())
	err = w.ask("get", memcache.AppendGet(nil, w.queue, o), func(r *memcache.Reply) error {
		switch r.Kind {
		case memcache.KindEnd:
			return nil
		case memcache.KindValue:
		default:
			return unexpected("get", r)
		}
		w.receipt, w.counted = r.CAS, 0
		if len(r.Meta) > 0 {
			var meta struct{ Deliveries int }
			if err := json.Unmarshal(r.Meta, &meta); err != nil {
				return fmt.Errorf("get: %q describes no item: %w", r.Meta, err)
			}
			w.counted = meta.Deliveries
		}
		slow := w.lasts > 0 && w.answered.Sub(w.asked) > jobWait+w.lasts/2
		seq, deliveries = w.l.came(r.Data, w.answered, slow)
		return nil
	})
	return seq, deliveries, err
}

// lease fetches a job under a lease, and notes what the server says of its deliveries.
func (w *worker) lease(d time.Duration) (seq uint64, deliveries int, err error) {
	w.lasts = d
	seq, deliveries, err = w.next(memcache.GetOptions{Lease: true, LeaseMillis: d.Milliseconds(), CAS: true, Meta: true})
	if deliveries == 0 {
		return seq, 0, err
	}
	w.l.hidden(seq, d, w.asked, w.answered)
	w.l.counted(seq, w.counted)
	return seq, deliveries, err
}

// confirm ends the lease of a job that was fetched last. The lease was to last until a moment, at least.
func (w *worker) confirm(seq uint64, until time.Time) error {
	return w.ask("confirm", memcache.AppendCommand(nil, memcache.OpDelete, fmt.Appendf(nil, "%s/lease=%d", w.queue, w.receipt)), func(r *memcache.Reply) error {
		switch {
		case r.Kind == memcache.KindDeleted:
			w.l.end(seq, false)
		case r.Kind != memcache.KindNotFound:
			return unexpected("confirm", r)
		case w.answered.Before(until):
			w.l.broken("job %d cannot be confirmed %v before its lease is over", seq, until.Sub(w.answered))
		}
		return nil
	})
}

// giveBack gives back the job that was fetched last.
func (w *worker) giveBack(op string, o memcache.GetOptions) error {
	o.Receipt = w.receipt
	return w.ask(op, memcache.AppendGet(nil, w.queue, o), func(r *memcache.Reply) error {
		if r.Kind != memcache.KindEnd {
			return unexpected(op, r)
		}
		return nil
	})
}

// runJobs has the producers put every job, and the consumers work until nothing more is to come. Then it prints what the
// ledger says, and returns an error if a promise was broken.
func (j Jobs) runJobs(
	ctx context.Context, e *Env, put func(w *worker, seq uint64) error, work func(w *worker) error,
	check func(w *worker) error,
) error {
	if e.Protocol != loadtest.Memcache || e.ledger == nil {
		return errors.New("delays and leases are measured with the memcache protocol, and need verification")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := newJobLedger(e.Seed)
	connect := func(n int) (*worker, func(), error) {
		c, err := e.dial(ctx, e.Server, loadtest.Memcache)
		if err != nil {
			return nil, nil, err
		}
		w := &worker{control: c, l: l, queue: []byte(j.Queue), random: rand.New(rand.NewPCG(e.Seed, uint64(n)))}
		return w, c.close, nil
	}
	var putters, takers sync.WaitGroup
	run := func(wg *sync.WaitGroup, n int, f func(w *worker) error) {
		wg.Go(func() {
			w, done, err := connect(n)
			if err == nil {
				defer done()
				err = f(w)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	w := e.watchJobs(l, j.Queue)
	for p := range j.Producers {
		run(&putters, p, func(w *worker) error {
			for seq := int64(p); seq < j.Items; seq += int64(j.Producers) {
				if err := put(w, uint64(seq)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for c := range j.Consumers {
		run(&takers, j.Producers+c, func(w *worker) error {
			for !l.finished() {
				if err := work(w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	putters.Wait()
	l.mu.Lock()
	l.putting = false
	l.mu.Unlock()
	takers.Wait()
	if check != nil && ctx.Err() == nil {
		run(&putters, j.Producers+j.Consumers, check)
		putters.Wait()
	}
	return errors.Join(context.Cause(ctx), w.end(), l.report(e, w.phase))
}

// jobWatch reads the server's counters and ends an interval, again and again, until it ends.
type jobWatch struct {
	*watch
	l      *jobLedger
	began  time.Duration // processor time of this process at the beginning
	stop   chan struct{}
	ended  sync.WaitGroup
	passed time.Duration // end of the last interval; of the goroutine, and then of end
}

// watchJobs begins to watch.
func (e *Env) watchJobs(l *jobLedger, queue string) *jobWatch {
	w := &jobWatch{watch: &watch{env: e, phase: &figures.Phase{Name: "jobs"}}, l: l, stop: make(chan struct{})}
	w.sampler = sampler{env: e, queues: []string{queue}, began: e.began}
	w.began, _ = spawn.CPUTime(os.Getpid())
	w.begin()
	w.ended.Go(func() {
		tick := time.NewTicker(e.Interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.endInterval()
			case <-w.stop:
				return
			}
		}
	})
	return w
}

func (w *jobWatch) endInterval() {
	start := w.passed
	w.passed = time.Since(w.started)
	w.interval(loadtest.Interval{Start: start, Wall: w.passed - start, Summary: w.l.endSpan()})
}

// end ends the last interval, and adds the phase to the figures. The connections are goroutines: all of the process is
// the generator.
func (w *jobWatch) end() error {
	close(w.stop)
	w.ended.Wait()
	w.endInterval()
	w.watch.end()
	used, err := spawn.CPUTime(os.Getpid())
	used -= w.began
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return errors.Join(err, w.finish(&loadtest.Result{Summary: w.l.total.summary(), Wall: w.passed,
		Threads: runtime.GOMAXPROCS(0), ThreadCPU: used, ProcessCPU: used}), w.err)
}

// report prints and keeps what has come of the jobs, and returns what went wrong.
func (l *jobLedger) report(e *Env, p *figures.Phase) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	latency, err := figures.NewLatency(l.late)
	if err != nil {
		return err
	}
	n := l.late.TotalCount()
	p.Ops = append(p.Ops, figures.Op{Name: "late", Requests: n, Items: n, Latency: latency,
		Rate: float64(n) / time.Duration(p.Wall).Seconds()})
	l.checkCounted()
	put, lost := int64(len(l.jobs)), int64(l.left)
	e.Figures.Checked = figures.Checked{Verified: true, Put: put, Got: put - lost, Left: lost, Lost: lost,
		Redelivered: l.again, Foreign: l.foreign, Early: l.early, Twice: l.twice}
	at := func(q float64) time.Duration { return time.Duration(l.late.ValueAtQuantile(q)).Round(time.Microsecond) }
	e.printf("Put %d jobs; %d done, %d lost, %d twice, %d early; %d deliveries beyond the first.", put, put-lost, lost,
		l.twice, l.early, l.again)
	e.printf("Late: p50 %v, p99 %v, p999 %v, at most %v.", at(50), at(99), at(99.9), time.Duration(l.late.Max()).Round(time.Microsecond))
	if lost > 0 {
		for seq, j := range l.jobs {
			if !j.over {
				l.problem("job %d has not come within %v of its time", seq, l.patience)
			}
		}
	}
	return errors.Join(l.problems...)
}
