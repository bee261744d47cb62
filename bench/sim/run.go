package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// hangTime is how long a seed may take, in real time, also on a machine that does much else. A seed of many processes
// may take chainHangTime.
const hangTime, chainHangTime = 5 * time.Minute, 15 * time.Minute

// hangTime is how long a seed that a worker has begun may take.
func (o *options) hangTime(seed uint64) time.Duration {
	if o.file != "" || isChain(seed) { // a script that is replayed may be one
		return chainHangTime
	}
	return hangTime
}

// program is a worker's executable.
type program struct{ path, dir string }

// build builds the worker: this same program, in fake time.
func (o *options) build(ctx context.Context) (*program, error) {
	dir, err := os.MkdirTemp("", "kestrel-sim-")
	if err != nil {
		return nil, err
	}
	p := &program{filepath.Join(dir, "worker"), dir}
	overlay, err := o.clockOverlay(ctx, dir)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-tags", "faketime", "-overlay", overlay, "-o", p.path,
		"github.com/kestrelmq/kestrel/bench/sim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // with cgo, fake time stands still
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("build worker: %w\n%s", err, out)
	}
	return p, nil
}

// simulate runs a worker and calls each with every report, until that returns false. What ends the
// worker before it should is a report too, and another worker goes on behind it.
func (p *program) simulate(ctx context.Context, o options, log io.Writer, each func(report) bool) error {
	end := time.Now().Add(o.limit)
	for o.n > 0 && ctx.Err() == nil {
		if o.limit = time.Until(end); o.limit <= 0 {
			break
		}
		last, died, err := p.worker(ctx, o, log, each)
		if err != nil || !died {
			return err
		}
		if o.file == "" {
			o.n -= int((last-o.seed)/o.step) + 1
			o.seed = last + o.step
		} else {
			o.n--
		}
	}
	return nil
}

// share returns the options of the i-th of the processes at the same time, which take the seeds in turn.
func (o *options) share(i int) options {
	mine, workers := *o, o.workers
	mine.seed = o.seed + uint64(i)*o.step
	mine.step = o.step * uint64(workers)
	mine.n = (o.n - i + workers - 1) / workers
	return mine
}

// worker runs one worker until it ends. It returns the seed that it was at, and whether it died of it.
func (p *program) worker(
	ctx context.Context, o options, log io.Writer, each func(report) bool,
) (last uint64, died bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"-for", o.limit.String(), "-seed", fmt.Sprint(o.seed), "-step", fmt.Sprint(o.step),
		"-n", fmt.Sprint(o.n), "-replay", o.file, "-skip", o.skip}
	if o.trace {
		args = append(args, "-trace")
	}
	cmd := exec.CommandContext(ctx, p.path, args...)
	r, w, err := os.Pipe()
	if err != nil {
		return 0, false, err
	}
	defer r.Close()
	var output bytes.Buffer
	cmd.ExtraFiles, cmd.Stderr = []*os.File{w}, &output
	err = cmd.Start()
	w.Close()
	if err != nil {
		return 0, false, err
	}
	var hung atomic.Bool
	watch := time.AfterFunc(hangTime, func() {
		hung.Store(true)
		cancel()
	})
	defer watch.Stop()
	busy, wanted := false, true
	lines := bufio.NewReader(r)
	for wanted {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return last, false, fmt.Errorf("worker says %q: %w", line, err)
		}
		switch {
		case e.Report != nil:
			busy = false
			wanted = each(*e.Report)
		case e.Log != "":
			fmt.Fprint(log, e.Log)
		default:
			busy, last = true, e.Begin
		}
		watch.Reset(o.hangTime(last))
	}
	if !wanted {
		cancel()
	}
	err = cmd.Wait()
	switch {
	case !wanted || ctx.Err() != nil && !hung.Load():
		return last, false, nil
	case hung.Load():
		each(report{Seed: last, Problems: []problem{{"hang", fmt.Sprintf("nothing has come of it in %v", o.hangTime(last))}}})
		return last, true, nil
	case busy:
		each(report{Seed: last, Problems: []problem{{"crash", lastWords(output.Bytes())}}})
		return last, true, nil
	}
	return last, false, err
}

// lastWords is the beginning of what a worker has said when it died. It leaves out the frames of fake time: 16 bytes
// each that begin with two zeros and "PB".
func lastWords(b []byte) string {
	var plain []byte
	for len(b) > 0 {
		if bytes.HasPrefix(b, []byte("\x00\x00PB")) && len(b) >= 16 {
			b = b[16:]
			continue
		}
		plain, b = append(plain, b[0]), b[1:]
	}
	return string(plain[:min(len(plain), 3000)])
}

// run simulates, and reports whether any law was broken.
func (o options) run(ctx context.Context, out io.Writer) (failed bool, err error) {
	p, err := o.build(ctx)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(p.dir)
	if o.file != "" && o.n > 1<<30 {
		o.n = 10
	}
	var (
		mu      sync.Mutex
		sum     Figures
		found   []report
		running sync.WaitGroup
		errs    = make([]error, o.workers)
	)
	began := time.Now()
	seeds, stop := context.WithCancel(ctx)
	defer stop()
	if o.file != "" || o.n < o.workers {
		o.workers = 1
	}
	for i := range o.workers {
		mine := o
		if o.file == "" {
			mine = o.share(i)
		}
		running.Go(func() {
			errs[i] = p.simulate(seeds, mine, out, func(r report) bool {
				mu.Lock()
				defer mu.Unlock()
				sum.add(r.Figures)
				if len(r.Problems) == 0 {
					return true
				}
				found = append(found, r)
				fmt.Fprintf(out, "seed %d fails, after %s and %d seeds, with %d faults:\n%s", r.Seed,
					time.Since(began).Round(time.Second/10), sum.Seeds, r.Figures.Faults, r)
				if o.keepGoing && o.file == "" { // a later generator makes another script of the seed
					if _, err := o.save(newScript(r.Seed), ""); err != nil {
						fmt.Fprintln(out, err)
					}
				}
				if !o.keepGoing && o.file == "" {
					stop()
				}
				return o.keepGoing || o.file != ""
			})
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return true, err
		}
	}
	o.summarize(out, sum, len(found), time.Since(began))
	if len(found) > 0 && o.shortens && !o.keepGoing && o.file == "" && ctx.Err() == nil {
		err = o.shorten(ctx, out, p, found[0])
	}
	return len(found) > 0, err
}

func (r report) String() string {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  %s\n", p)
	}
	return b.String()
}

// summarize prints what was done.
func (o *options) summarize(out io.Writer, f Figures, failed int, took time.Duration) {
	per := func(n int64) int64 { return int64(float64(n) / took.Seconds()) }
	fmt.Fprintf(out, "%d seeds in %s from %d on, %d failed: %s of virtual time, %d processes, %d requests (%d puts "+
		"acknowledged, %d items delivered), %d calls of the disk that change it, %d faults; "+
		"%d processes, %d requests, %d calls a second\n",
		f.Seeds, took.Round(time.Second/10), o.seed, failed, f.Virtual.Round(time.Second), f.Restarts, f.Ops, f.Acked,
		f.Delivered, f.FileOps, f.Faults, per(f.Restarts), per(f.Ops), per(f.FileOps))
}
