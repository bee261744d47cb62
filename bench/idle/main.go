// Idle measures what idle queues cost: the resident memory of each, the processor time of all, and what they add to a
// start. Then it measures how long a look at all of them takes, and how long other clients wait meanwhile.
//
//	go run ./bench/idle -kestrel bin/kestrel -queues 100000
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var r run
	flag.StringVar(&r.binary, "kestrel", "bin/kestrel", "the server to measure")
	flag.IntVar(&r.queues, "queues", 100_000, "queues")
	flag.IntVar(&r.items, "items", 10, "items that each queue holds, one after the other")
	flag.DurationVar(&r.idle, "idle", 20*time.Second, "how long the server is left alone")
	flag.StringVar(&r.sweep, "sweep", "none", "expiration_timer_frequency of the server")
	flag.IntVar(&r.looks, "looks", 5, "how often all queues are looked at")
	flag.Parse()
	if err := r.all(); err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

// run is one measurement.
type run struct {
	binary string
	queues int
	items  int
	idle   time.Duration
	sweep  string
	looks  int

	dir   string
	empty int64 // bytes resident of a server without queues
}

func (r *run) all() (err error) {
	if r.dir, err = os.MkdirTemp("", "idle"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	s, err := r.start()
	if err != nil {
		return err
	}
	defer func() { s.kill() }()
	if r.empty, err = s.resident(); err != nil {
		return err
	}
	fmt.Printf("%d queues; a server without any starts in %v and takes %d KiB\n\n",
		r.queues, s.took.Round(time.Millisecond), r.empty>>10)
	fmt.Printf("%-28s %14s %14s %10s\n", "", "B per queue", "… left alone", "% of a CPU")
	again := func() error { return r.again(&s) }
	phases := []struct {
		name  string
		begin func() error
	}{
		{"asked once, in vain", func() error { return s.ask(r.queues) }},
		{"started again", again},
		{fmt.Sprintf("had %d items, now empty", r.items), func() error {
			return s.fillAndDrain(r.queues, r.items)
		}},
		{"started again", again},
	}
	for _, p := range phases {
		if err := p.begin(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := r.phase(s, p.name); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return r.look(s)
}

// again ends the server and starts it on what it had.
func (r *run) again(s **server) (err error) {
	if err := (*s).stop(); err != nil {
		return err
	}
	if *s, err = r.start(); err == nil {
		used, err := (*s).processor()
		fmt.Printf("exec to the first answer: %v, with %v of a processor\n",
			(*s).took.Round(time.Millisecond), used)
		return err
	}
	return err
}

// phase prints what the queues cost now.
func (r *run) phase(s *server, name string) error {
	at, err := s.resident()
	if err != nil {
		return err
	}
	used, err := s.processor()
	if err != nil {
		return err
	}
	time.Sleep(r.idle)
	later, err := s.processor()
	if err != nil {
		return err
	}
	left, err := s.resident()
	if err != nil {
		return err
	}
	each := func(bytes int64) int64 { return (bytes - r.empty) / int64(r.queues) }
	fmt.Printf("%-28s %14d %14d %10.2f\n", name, each(at), each(left),
		100*float64(later-used)/float64(r.idle))
	return nil
}
