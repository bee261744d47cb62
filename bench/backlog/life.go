package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const (
	replyWait = 60 * time.Second // of a batch, when a disk is slow
	lossWait  = 5 * time.Second  // for items that do not come, until they are taken for lost
	firstWait = 2 * time.Minute  // for the first item after a restart
)

// life is that of one server, with what was put to it. Its methods are called by one goroutine.
type life struct {
	server  peer.Server
	process *spawn.Process
	addr    string
	loadCPU int
	ledger  *loadtest.Ledger
}

// leg is what it took to put or to get a number of items.
type leg struct {
	items     int64
	wall      time.Duration
	cpu       time.Duration           // of the server
	generator time.Duration           // of the generator's thread
	latency   *hdrhistogram.Histogram // of requests, in nanoseconds
	peak      int64                   // resident bytes of the server, the most of the time
}

// add adds what another leg took.
func (l *leg) add(other leg) {
	l.items += other.items
	l.wall += other.wall
	l.cpu += other.cpu
	l.generator += other.generator
	l.peak = max(l.peak, other.peak)
	if l.latency == nil {
		l.latency = other.latency
	} else {
		l.latency.Merge(other.latency)
	}
}

// begin starts a server. The caller must call end.
func (o *options) begin(ctx context.Context, r row) (*life, error) {
	process, addr, err := r.setup.Start(ctx, r.server, o.serverCPU)
	if err != nil {
		return nil, err
	}
	l := &life{server: r.server, process: process, addr: addr, loadCPU: o.loadCPU,
		ledger: loadtest.NewLedger(1, false)}
	if err := r.server.Prepare(addr); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", r.name, err), process.Kill())
	}
	return l, nil
}

func (l *life) end() error { return l.process.Kill() }

// load returns what all loads have in common.
func (l *life) load() loadtest.Options {
	return loadtest.Options{
		Addr:      l.addr,
		Protocol:  l.server.Protocol,
		Ledger:    l.ledger,
		CPUs:      []int{l.loadCPU},
		ReplyWait: replyWait,
		DrainWait: lossWait,
	}
}

// group returns the connections that put, and with Take those that get.
func group() loadtest.Group {
	return loadtest.Group{Connections: connections, Pipeline: pipeline, ItemSize: itemSize,
		Queue: peer.Queue}
}

// fill puts so many items.
func (l *life) fill(ctx context.Context, items int64) (leg, error) {
	put := group()
	put.Operations = items
	return l.drive(ctx, put)
}

// take gets so many of the items that were put.
func (l *life) take(ctx context.Context, items int64) (leg, error) {
	take := l.server.Take(group())
	take.Operations = items
	return l.drive(ctx, take)
}

// drain gets all items that were put, and returns how many did not come.
func (l *life) drain(ctx context.Context) (got leg, lost int64, err error) {
	take := l.server.Take(group())
	take.Drain = true
	got, err = l.drive(ctx, take)
	var missing *loadtest.LostError
	if errors.As(err, &missing) {
		_, lost = l.ledger.Missing(0)
		got.wall -= lossWait
		return got, lost, nil
	}
	if err != nil {
		return got, 0, err
	}
	return got, 0, l.empty(ctx)
}

// empty returns an error if an item is left: the ledger has seen all that there should be.
func (l *life) empty(ctx context.Context) error {
	load := l.load()
	load.Ledger = nil
	take := l.server.Take(loadtest.Group{ItemSize: itemSize, Queue: peer.Queue})
	take.Operations = 1
	load.Groups = []loadtest.Group{take}
	result, err := loadtest.Run(ctx, load)
	switch {
	case err != nil:
		return fmt.Errorf("get from an empty queue: %w", err)
	case result.Got() > 0 || result.Misses() == 0:
		return errors.New("an item is left when all that were put have come")
	}
	return nil
}

// drive runs one group and reads what it cost the server.
func (l *life) drive(ctx context.Context, g loadtest.Group) (leg, error) {
	load := l.load()
	load.Groups = []loadtest.Group{g}
	var before, after time.Duration
	var cpuErr error
	read := func(at *time.Duration) func() {
		return func() {
			var err error
			*at, err = spawn.CPUTime(l.process.PID)
			cpuErr = errors.Join(cpuErr, err)
		}
	}
	load.Begin, load.End = read(&before), read(&after)
	if err := spawn.ResetPeak(l.process.PID); err != nil {
		return leg{}, errors.Join(err, l.process.Alive())
	}
	result, err := loadtest.Run(ctx, load)
	peak, peakErr := spawn.Peak(l.process.PID)
	items := result.Got()
	if g.Operation.Puts() {
		put, _ := result.Op("put")
		items = put.Items
	}
	if err = errors.Join(err, cpuErr, peakErr); err != nil {
		err = errors.Join(err, l.process.Alive())
	}
	return leg{items: items, wall: result.Wall, cpu: after - before, generator: result.ThreadCPU,
		latency: result.Latency(), peak: peak}, err
}

// restart kills the server and returns how long the next one takes to hand out an item, and how
// much processor time.
func (l *life) restart(ctx context.Context) (first, cpu time.Duration, err error) {
	executed, err := l.process.Restart()
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if err := l.server.First(ctx, l.addr, l.process.Alive); err != nil {
		return 0, 0, fmt.Errorf("after kill -9: %w", err)
	}
	first = time.Since(executed)
	cpu, err = spawn.CPUTime(l.process.PID)
	return first, cpu, err
}
