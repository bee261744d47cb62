package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
)

// trial is one run of an experiment: what it may use, and what it has found.
//
// A violation is a promise of the server that was seen broken. An error that an experiment returns
// is something else: the lab itself could not do its work, and nothing is shown either way.
type trial struct {
	// Immutable.
	binary string // the server under test
	cycles int    // how often to do whatever the experiment repeats
	seed   uint64 // of everything that is drawn
	dir    string // for files; removed by finish
	log    io.Writer
	only   string // the one case to run, of an experiment that has cases; "" for all
	// refusals says that the server may refuse requests: something is wrong with its disk.
	refusals atomic.Bool

	counts  counts
	mu      sync.Mutex
	broken  []string // violations; guarded by mu
	skipped string   // why the experiment could not be done here; "" if it was; guarded by mu
}

// counts are what a trial has done. They may be changed from any goroutine.
type counts struct {
	trials   atomic.Int64 // crashes, faults, damages, … that were gone through
	puts     atomic.Int64 // acknowledged
	removals atomic.Int64 // acknowledged
	items    atomic.Int64 // found after a crash, and compared
	checks   atomic.Int64 // states compared with what was promised
	refusals atomic.Int64 // answers that something could not be done
	runs     atomic.Int64 // of backlogs, that were made
}

// maxBroken is how many violations a trial keeps: the first ones tell what is wrong.
const maxBroken = 20

func newTrial(binary string, cycles int, seed uint64, log io.Writer) (*trial, error) {
	dir, err := os.MkdirTemp("", "kestrel-lab-")
	if err != nil {
		return nil, err
	}
	return &trial{binary: binary, cycles: cycles, seed: seed, dir: dir, log: log}, nil
}

// finish removes the trial's files, unless they are evidence.
func (t *trial) finish() {
	if len(t.violations()) == 0 {
		os.RemoveAll(t.dir)
	}
}

// rng returns the source of what the cycle-th cycle draws.
func (t *trial) rng(cycle int) *rand.Rand { return rand.New(rand.NewPCG(t.seed, uint64(cycle))) }

// violate notes that a promise was broken. It may be called from any goroutine.
func (t *trial) violate(format string, args ...any) {
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

// progress says how far a long run has come, about a hundred times over all of it.
func (t *trial) progress(cycle int) {
	if every := max(t.cycles/100, 1); t.cycles > 100 && cycle%every == 0 {
		fmt.Fprintf(t.log, "cycle %d of %d\n", cycle, t.cycles)
	}
}

// more reports whether the trial is to go on with another cycle.
func (t *trial) more(ctx context.Context, cycle int) bool {
	return ctx.Err() == nil && cycle < t.cycles && len(t.violations()) == 0
}

// summary words what a trial without violations has done, and what that shows: if nothing happens
// in n trials, it happens in fewer than 3/n of them, at 95 % confidence.
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
	return said
}
