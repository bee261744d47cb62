package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// trial is one run of an experiment: what it may use, and what it has found.
//
// A violation is a promise of the server that was seen broken. An error that an experiment returns
// is something else: the lab itself could not do its work, and nothing is shown either way.
type trial struct {
	// Immutable.
	name   string // of the experiment
	began  time.Time
	binary string        // the server under test
	cycles int           // how often to do whatever the experiment repeats
	length time.Duration // how long to repeat that instead; 0: see cycles
	seed   uint64        // of everything that is drawn
	dir    string        // for files; removed by finish
	log    io.Writer
	only   string // the one case to run, of an experiment that has cases; "" for all
	edits  []edit // with which the server was built, for experiments that build another one
	// stopped returns why the trial is to end early: servers are then killed, whatever they
	// promise.
	stopped func() error
	// refusals says that the server may refuse requests: something is wrong with its disk.
	refusals atomic.Bool

	counts  counts
	mu      sync.Mutex
	broken  []string // violations; guarded by mu
	skipped string   // why the experiment could not be done here; "" if it was; guarded by mu
}

// counts are what a trial has done. They may be changed from any goroutine.
type counts struct {
	cycles   atomic.Int64 // that are done, of an experiment that repeats something
	trials   atomic.Int64 // crashes, faults, damages, … that were gone through
	puts     atomic.Int64 // acknowledged
	removals atomic.Int64 // acknowledged
	items    atomic.Int64 // found after a crash, and compared
	checks   atomic.Int64 // states compared with what was promised
	refusals atomic.Int64 // answers that something could not be done
	runs     atomic.Int64 // of backlogs, that were made
	mapped   atomic.Int64 // bytes of backlogs that servers read through maps
	direct   atomic.Int64 // … and past the page cache
}

// maxBroken is how many violations a trial keeps: the first ones tell what is wrong.
const maxBroken = 20

// newTrial returns a trial of the experiment called name, with a directory of its own.
func newTrial(
	name, binary string, cycles int, seed uint64, log io.Writer,
) (*trial, error) {
	dir, err := os.MkdirTemp("", dirPattern(name))
	if err != nil {
		return nil, err
	}
	return &trial{
		name: name, binary: binary, cycles: cycles, seed: seed, dir: dir, log: log, began: time.Now(),
	}, nil
}

// dirPattern names a directory by what it is for and when it was made. Several labs may run at a time, and what one
// leaves behind is found by its name.
func dirPattern(name string) string {
	return fmt.Sprintf("kestrel-lab-%s-%s-*", name, time.Now().Format("0102-150405"))
}

// finish removes the trial's files, unless they are evidence.
func (t *trial) finish() {
	if len(t.violations()) == 0 {
		os.RemoveAll(t.dir)
	}
}

// rng returns the source of what the cycle-th cycle draws.
func (t *trial) rng(cycle int) *rand.Rand { return rand.New(rand.NewPCG(t.seed, uint64(cycle))) }

// violate notes that a promise was broken, unless the trial was interrupted. It may be called from
// any goroutine.
func (t *trial) violate(format string, args ...any) {
	if t.stopped != nil && t.stopped() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.broken) < maxBroken {
		t.broken = append(t.broken, fmt.Sprintf(format, args...))
	}
}

// explain adds to the last violation what it was seen with.
func (t *trial) explain(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.broken); n > 0 {
		t.broken[n-1] += " (" + fmt.Sprintf(format, args...) + ")"
	}
}

// violations returns what violate has noted.
func (t *trial) violations() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.broken...)
}

// skip notes that the experiment cannot be done on this machine.
func (t *trial) skip(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skipped = fmt.Sprintf(format, args...)
}

func (t *trial) skipReason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skipped
}

// progressInterval is how often a long trial says how far it has come.
const progressInterval = time.Minute

// reportProgress says now and then how far the trial has come, until ctx is done.
func (t *trial) reportProgress(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Fprintln(t.log, t.progress())
		}
	}
}

// progress words how far the trial has come.
func (t *trial) progress() string {
	c := &t.counts
	return fmt.Sprintf("%s: %v: %d trials, of %d cycles %d done; %d puts and %d removals"+
		" acknowledged, %d violations", t.name, time.Since(t.began).Round(time.Second),
		c.trials.Load(), t.cycles, c.cycles.Load(), c.puts.Load(), c.removals.Load(),
		len(t.violations()))
}

// more reports whether the trial is to go on with another cycle.
func (t *trial) more(ctx context.Context, cycle int) bool {
	t.counts.cycles.Store(int64(cycle))
	over := cycle >= t.cycles
	if t.length > 0 {
		over = time.Since(t.began) >= t.length
	}
	return ctx.Err() == nil && !over && len(t.violations()) == 0
}

// summary words what a trial without violations has done, and what that shows. If nothing happens in n trials, it
// happens in fewer than 3/n of them, at 95 % confidence.
func (t *trial) summary() string {
	c := &t.counts
	n := c.trials.Load()
	if n == 0 {
		return "nothing was tried"
	}
	said := fmt.Sprintf("0 violations in %d trials (a rate below %.2g at 95 %%); %d puts and"+
		" %d removals acknowledged, %d refusals, %d states and %d items compared", n, 3/float64(n),
		c.puts.Load(), c.removals.Load(), c.refusals.Load(), c.checks.Load(), c.items.Load())
	if runs := c.runs.Load(); runs > 0 {
		said += fmt.Sprintf(", %d runs of backlogs made", runs)
	}
	if mapped, direct := c.mapped.Load(), c.direct.Load(); mapped+direct > 0 {
		said += fmt.Sprintf(", %d MiB of them read through maps and %d past the page cache", mapped>>20, direct>>20)
	}
	return said
}
