package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// kind is what is done with a server.
type kind uint8

const (
	whole     kind = iota // all items are put, then got
	cycles                // a little is put and got, until it adds up to all
	outage                // all are put, the server killed and started again, all are got
	neighbour             // all are put, then got, while others put to another queue
	backedUp              // all are put, then copied by kestrel backup, while others put to another queue
)

// cycleSize is how many bytes a cycle puts. The window of a queue, and the journal, have room for
// far more.
const cycleSize = 32 << 20

// row is what is measured once in each round.
type row struct {
	name   string
	server peer.Server
	setup  *peer.Setup
	kind   kind
	touch  int64 // bytes of memory, before the server starts
	admin  int   // port, of a server that is backed up
}

// sample is what one row has shown in one round.
type sample struct {
	put, get leg
	disk     int64         // bytes, with all items on it; 0 where that was not looked at
	first    time.Duration // of an outage: from exec to the first item
	firstCPU time.Duration // what the server had used by then
	lost     int64         // items acknowledged that did not come
	beside   [numSpans]span
	quiet    [numSpans]span // what came between the steps of each
	backups  [numBackupKinds]backups
}

// table is everything that is measured.
type table struct {
	o       *options
	rows    []row
	samples map[string][]*sample // by row: one for each round, nil where one failed
	began   time.Time
}

func newTable(o *options, rows []row) *table {
	return &table{o: o, rows: rows, samples: make(map[string][]*sample), began: time.Now()}
}

// measure measures every row in every round. It goes on after a failure and returns all of them; an
// interrupt ends it.
func (t *table) measure(ctx context.Context, stderr io.Writer) error {
	var errs []error
	for round := range t.o.rounds {
		for i, r := range t.rows {
			if err := touch(r.touch); err != nil {
				return errors.Join(append(errs, fmt.Errorf("touch memory: %w", err))...)
			}
			done, all := round*len(t.rows)+i, t.o.rounds*len(t.rows)
			fmt.Fprintf(stderr, "[%d/%d%s] round %d/%d %-29s ", done+1, all,
				left(time.Since(t.began), done, all), round+1, t.o.rounds, r.name)
			s, err := t.o.sample(ctx, r)
			if ctx.Err() != nil {
				fmt.Fprintln(stderr, "interrupted")
				return errors.Join(append(errs, ctx.Err())...)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, round %d: %w", r.name, round+1, err))
				fmt.Fprintf(stderr, "FAILED: %v\n", err)
				s = nil
			} else {
				fmt.Fprintln(stderr, s.progress())
			}
			t.samples[r.name] = append(t.samples[r.name], s)
		}
	}
	return errors.Join(errs...)
}

// progress is what a sample has shown, in a line, without what its row does not measure.
func (s *sample) progress() string {
	var parts []string
	add := func(format string, figure float64) {
		if !math.IsNaN(figure) {
			parts = append(parts, fmt.Sprintf(format, figure))
		}
	}
	b := &s.backups[unhindered]
	add("put %.0f k/s", s.putRate())
	add("get %.0f k/s", s.getRate())
	add("%.0f MiB", s.peak())
	add("backup %.0f MB/s", b.speed())
	add("a neighbour's p99 × %.2f", b.toQuiet())
	return strings.Join(parts, "  ")
}

// left says how long what is not done will take, if it takes as long as what is done has taken.
func left(elapsed time.Duration, done, all int) string {
	if done == 0 {
		return ""
	}
	d := elapsed * time.Duration(all-done) / time.Duration(done)
	return fmt.Sprintf(", %v left", d.Round(time.Second))
}

// sample measures a row once.
func (o *options) sample(ctx context.Context, r row) (s *sample, err error) {
	l, err := o.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	s = new(sample)
	switch r.kind {
	case cycles:
		err = s.cycles(ctx, l, o.items())
	case neighbour:
		err = s.neighbour(ctx, l, o)
	case backedUp:
		err = s.backup(ctx, l, o, r.admin)
	default:
		err = s.through(ctx, l, o.items(), r.kind == outage)
	}
	return s, err
}

// through fills and drains, with a kill and a restart between the two or without.
func (s *sample) through(ctx context.Context, l *life, items int64, killed bool) (err error) {
	if s.put, err = l.fill(ctx, items); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if s.disk, err = spawn.DiskUsed(l.process.Dir); err != nil {
		return err
	}
	if killed {
		if s.first, s.firstCPU, err = l.restart(ctx); err != nil {
			return err
		}
	}
	if s.get, s.lost, err = l.drain(ctx); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if s.lost > 0 && !killed {
		return fmt.Errorf("%d items of %d were lost", s.lost, items)
	}
	return nil
}

// cycles fills a little and drains it, until so many items went through.
func (s *sample) cycles(ctx context.Context, l *life, items int64) error {
	for left := items; left > 0; left -= cycleSize / itemSize {
		put, err := l.fill(ctx, min(left, cycleSize/itemSize))
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		s.put.add(put)
		get, lost, err := l.drain(ctx)
		if err != nil || lost > 0 {
			return fmt.Errorf("drain: %w; %d lost", err, lost)
		}
		s.get.add(get)
	}
	return nil
}

// The functions below return a sample's numbers in the units of the report; what a row does not
// measure is not a number.

func (l *leg) rate() float64 { return orNaN(float64(l.items) / l.wall.Seconds() / 1e3) }

func (l *leg) cpuEach() float64 { return orNaN(micros(l.cpu) / float64(l.items)) }

func (l *leg) generatorEach() float64 { return orNaN(micros(l.generator) / float64(l.items)) }

func (l *leg) p99() float64 {
	if l.latency == nil || l.latency.TotalCount() == 0 {
		return math.NaN()
	}
	return micros(time.Duration(l.latency.ValueAtQuantile(99)))
}

func (s *sample) putRate() float64        { return s.put.rate() }
func (s *sample) getRate() float64        { return s.get.rate() }
func (s *sample) putCPU() float64         { return s.put.cpuEach() }
func (s *sample) getCPU() float64         { return s.get.cpuEach() }
func (s *sample) putGenerator() float64   { return s.put.generatorEach() }
func (s *sample) getGenerator() float64   { return s.get.generatorEach() }
func (s *sample) getP99() float64         { return s.get.p99() }
func (s *sample) putPeak() float64        { return orNaN(float64(s.put.peak) / (1 << 20)) }
func (s *sample) getPeak() float64        { return orNaN(float64(s.get.peak) / (1 << 20)) }
func (s *sample) peak() float64           { return orNaN(float64(max(s.put.peak, s.get.peak)) / (1 << 20)) }
func (s *sample) diskMiB() float64        { return orNaN(float64(s.disk) / (1 << 20)) }
func (s *sample) firstMillis() float64    { return orNaN(micros(s.first) / 1e3) }
func (s *sample) firstCPUMillis() float64 { return orNaN(micros(s.firstCPU) / 1e3) }
func (s *sample) lostItems() float64      { return float64(s.lost) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// orNaN returns v, or not a number for what was not measured.
func orNaN(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}
