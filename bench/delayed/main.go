// Command delayed measures what delayed items and leases cost: to put them, to keep them while they wait, at a restart,
// and to cancel one. While they wait it looks at memory and at the journal. It also measures how late they come, and
// what they do to other queues. It uses the engine in this process, on a directory of its own, and says of each figure
// whether the goal is reached.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// steps are what can be measured, in this order. The first, if it is chosen, makes what the next three look at.
var steps = []struct {
	name, what string
	run        func(*bench) error
}{
	{"put", "puts of delayed items, and what they take once they are on disk", (*bench).putMany},
	{"restart", "a start with all of them", (*bench).restart},
	{"cancel", "removals of some of them, by id", (*bench).cancel},
	{"late", "how late others come that become due", (*bench).lateness},
	{"memory", "what delayed items take that stay in memory", (*bench).memory},
	{"burst", "what a plain queue notices when many become due at one instant", (*bench).bursts},
	{"lease", "leases and their confirms", (*bench).leases},
	{"renew", "what renewals of leases do to the journal", (*bench).renewals},
}

func main() {
	b := &bench{}
	var names []string
	for _, s := range steps {
		names = append(names, s.name)
	}
	flag.IntVar(&b.items, "items", 1_000_000, "items that wait")
	flag.IntVar(&b.body, "body", 100, "bytes of their bodies")
	flag.IntVar(&b.due, "due", 100_000, "of others that become due, how many")
	flag.IntVar(&b.once, "once", 1_000_000, "items that become due at one instant")
	flag.IntVar(&b.rounds, "rounds", 3, "times that items become due at one instant, with quiet times between them")
	flag.IntVar(&b.cancels, "cancels", 10_000, "items that are removed")
	flag.IntVar(&b.leased, "leases", 10_000, "leases that are renewed")
	flag.DurationVar(&b.renew, "renew", 20*time.Second, "how long they are renewed, 100,000 times a second")
	flag.DurationVar(&b.wait, "wait", 20*time.Second, "how long what becomes due waits at least: long enough to be hidden")
	chosen := flag.String("steps", strings.Join(names, ","), "what to measure")
	dir := flag.String("dir", "", "where to make a data directory; default: that of temporary files")
	flag.Parse()
	b.chosen = strings.Split(*chosen, ",")
	for _, name := range b.chosen {
		if !slices.Contains(names, name) {
			fmt.Fprintf(os.Stderr, "delayed: -steps %s: there is no such step; they are %s\n", name, strings.Join(names, ", "))
			os.Exit(2)
		}
	}
	if err := b.run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "delayed:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	chosen                                          []string
	items, body, due, once, rounds, cancels, leased int
	wait, renew                                     time.Duration
	dir                                             string
	e                                               *engine.Engine
	bodies                                          []byte
}

func (b *bench) run(in string) (err error) {
	if b.dir, err = os.MkdirTemp(in, "kestrel-delayed-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.bodies = make([]byte, b.body)
	if err := b.open(); err != nil {
		return err
	}
	for _, s := range steps {
		if slices.Contains(b.chosen, s.name) {
			if err := s.run(b); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", s.name, err), b.e.Close())
			}
		}
	}
	return b.e.Close()
}

// options are those of the engine: the default ones, but nothing is synced.
func (b *bench) options(name string) engine.Options {
	o := engine.Options{Dir: filepath.Join(b.dir, name), Settings: engine.Settings{Default: engine.DefaultQueueOptions()}}
	o.Settings.Default.Sync = engine.SyncNever
	return o
}

func (b *bench) open() (err error) {
	b.e, err = engine.Open(b.options("data"))
	return err
}

// batch is how many requests share a commit, as those of one turn of an event loop do.
const batch = 32

// putAll puts n items to a queue, the one with number i delayed by delay(i), and waits for the disk as a server does.
func putAll(e *engine.Engine, name string, n int, data func(i int) []byte, delay func(i int) time.Duration) error {
	puts := make([]engine.PutRequest, 0, batch)
	extras := make([]engine.PutExtra, batch)
	for i := 0; i < n; {
		for puts = puts[:0]; len(puts) < batch && i < n; i++ {
			extra := &extras[len(puts)]
			extra.Delay = delay(i)
			puts = append(puts, engine.PutRequest{Data: data(i), Extra: extra})
		}
		s, err := e.PutAll(engine.Now(), []byte(name), puts)
		if err == nil {
			err = e.Commit(s.Ticket)
		}
		if err != nil {
			return err
		}
		for s.Ahead && e.Ahead([]byte(name)) {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// goal prints what was measured beside the goal, and whether that is reached.
func goal(reached bool, what, goal, format string, args ...any) {
	yes := "NO"
	if reached {
		yes = "yes"
	}
	fmt.Printf("%-20s %-3s  goal %-22s  %s\n", what, yes, goal, fmt.Sprintf(format, args...))
}

// note prints what has no goal.
func note(what, format string, args ...any) {
	fmt.Printf("%-20s      %s\n", what, fmt.Sprintf(format, args...))
}

// spread is durations in order.
type spread []time.Duration

func spreadOf(all []time.Duration) spread {
	slices.Sort(all)
	return all
}

func (s spread) p99() time.Duration   { return s[len(s)*99/100] }
func (s spread) worst() time.Duration { return s[len(s)-1] }

func (s spread) String() string {
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return fmt.Sprintf("p50 %.3f ms, p99 %.3f ms, worst %.3f ms of %d", ms(s[len(s)/2]), ms(s.p99()), ms(s.worst()), len(s))
}

// cpuTime is how much processor time this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perItem words what n requests took: a rate, and processor time of each in microseconds.
func perItem(n int, took, cpu time.Duration) (rate, micros float64) {
	return float64(n) / took.Seconds(), float64(cpu.Nanoseconds()) / 1e3 / float64(n)
}
