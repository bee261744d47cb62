// Command client measures what the Go client costs beside the bare load generator, and three servers beside one. It
// starts servers of its own, and reports items for each second, and processor time for each item. On a machine that
// does other things the latter says more. Runs take turns, so that both sides see the same machine. With -gaps it
// measures what producers notice of a server that fails. It ends with 1 if a goal is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// errMissed ends the command with 1 though nothing went wrong.
var errMissed = errors.New("a goal is missed")

// Processors with -pin.
const (
	serverCPU = 0
	ownCPU    = 1
)

func main() {
	runtime.LockOSThread() // servers live as long as the thread that starts them, and the generator ends threads
	b := &bench{}
	flag.StringVar(&b.program, "kestrel", "bin/kestrel", "the built server")
	flag.IntVar(&b.items, "items", 400_000, "items of one run, for each server")
	flag.IntVar(&b.size, "size", 100, "bytes of an item")
	flag.IntVar(&b.batch, "batch", 1000, "items of one call of PutAll, and requests in flight of the generator's puts")
	flag.IntVar(&b.handlers, "handlers", 64, "handlers of the worker for each server, and connections of what else reads")
	flag.IntVar(&b.rounds, "rounds", 7, "runs of each kind")
	flag.BoolVar(&b.pin, "pin", false, "servers have the first processor for themselves, and this process the second")
	gaps := flag.Bool("gaps", false, "measure what producers notice when a server fails, and nothing else")
	flag.Parse()
	run := b.run
	if *gaps {
		run = b.gaps
	}
	if b.pin {
		if err := spawn.PinSelf([]int{ownCPU}); err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			os.Exit(1)
		}
		runtime.GOMAXPROCS(1)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// bench is one run of the command.
type bench struct {
	program                              string
	items, size, batch, handlers, rounds int
	pin                                  bool

	servers []*server
}

// server is a server that was started here.
type server struct {
	*spawn.Process
	addr string
}

// cost is what one run of n items took.
type cost struct {
	wall        time.Duration
	own, theirs time.Duration // processor time of this process, and of the servers
	n           int
}

func (c cost) rate() float64 { return float64(c.n) / c.wall.Seconds() }

// ownRate is how many items one processor would do that this process has for itself.
func (c cost) ownRate() float64    { return float64(c.n) / c.own.Seconds() }
func (c cost) each() float64       { return float64((c.own + c.theirs).Nanoseconds()) / float64(c.n) }
func (c cost) ownEach() float64    { return float64(c.own.Nanoseconds()) / float64(c.n) }
func (c cost) theirsEach() float64 { return float64(c.theirs.Nanoseconds()) / float64(c.n) }

// perCPU is how many items one processor would do if it did nothing else, for the client and the servers.
func (c cost) perCPU() float64 { return 1e9 / c.each() }

// ratio is a comparison of two kinds, and what it is meant to reach.
type ratio struct {
	what, of, to    string
	compare         func(of, to cost) float64
	atLeast, atMost float64 // zero: no goal
}

// by compares one figure of both.
func by(figure func(cost) float64) func(of, to cost) float64 {
	return func(of, to cost) float64 { return figure(of) / figure(to) }
}

// onPaper compares what three servers and their client cost with one, if each server had processors of its own. Then
// each would have the load of the one, and cost as much for an item. The client's part is measured.
func onPaper(three, one cost) float64 { return (three.ownEach() + one.theirsEach()) / one.each() }

// Goals of the design.
const (
	toGenerator = 0.7
	threeToOne  = 1.05
)

var ratios = []ratio{
	{"items per CPU second, puts, client to generator", clientPuts, generatorPuts, by(cost.perCPU), 0, 0},
	{"items per CPU second, reads, client to generator", clientWorks, generatorReads, by(cost.perCPU), 0, 0},
	{"items per CPU second, reads with leases, client to generator", clientLeases, generatorReads, by(cost.perCPU), 0, 0},
	{"items per CPU second, reads, bare Go to generator", bareReads, generatorReads, by(cost.perCPU), 0, 0},
	{"items per CPU second, reads, client to bare Go", clientWorks, bareReads, by(cost.perCPU), 0, 0},
	{"items/s, puts, client to generator", clientPuts, generatorPuts, by(cost.rate), toGenerator, 0},
	{"items/s, reads, client to generator", clientWorks, generatorReads, by(cost.rate), toGenerator, 0},
	{"items/s, reads with leases, client to generator", clientLeases, generatorReads, by(cost.rate), toGenerator, 0},
	{"CPU/item, puts, 3 servers to 1, each with processors of its own", clientPuts + three, clientPuts, onPaper, 0, threeToOne},
	{"CPU/item, reads, 3 servers to 1, the same", clientWorks + three, clientWorks, onPaper, 0, threeToOne},
	{"CPU/item, reads with leases, 3 servers to 1, the same", clientLeases + three, clientLeases, onPaper, 0, threeToOne},
	{"CPU/item, puts, 3 servers to 1, as measured here", clientPuts + three, clientPuts, by(cost.each), 0, 0},
	{"CPU/item, reads, 3 servers to 1, as measured here", clientWorks + three, clientWorks, by(cost.each), 0, 0},
	{"CPU/item, reads with leases, 3 servers to 1, as measured here", clientLeases + three, clientLeases, by(cost.each), 0, 0},
}

func (b *bench) run() (err error) {
	program, err := filepath.Abs(b.program)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range b.servers {
			err = errors.Join(err, s.Stop())
		}
	}()
	for range 3 {
		s, err := b.start(program)
		if err != nil {
			return err
		}
		b.servers = append(b.servers, s)
	}
	kinds := b.kinds()
	costs := make(map[string][]cost)
	for round := range b.rounds + 1 {
		for _, k := range kinds {
			c, err := b.measure(k)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if round > 0 { // the first warms up
				costs[k.name] = append(costs[k.name], c)
			}
		}
	}
	return b.report(kinds, costs)
}

// report prints all figures. It returns errMissed if a goal is.
func (b *bench) report(kinds []kind, costs map[string][]cost) error {
	fmt.Printf("%d items of %d B for each server, %d rounds, %d processors, pinned: %t; medians\n\n",
		b.items, b.size, b.rounds, runtime.NumCPU(), b.pin)
	if cpus := runtime.NumCPU(); cpus <= len(b.servers) {
		fmt.Printf("Three servers share %d processors with the client here. \"Of its own\" takes the servers' part from the run of "+
			"one: on paper.\n\n", cpus)
	}
	fmt.Println("| what | items/s | items per second of own CPU | own CPU/item | servers' CPU/item |\n| --- | --: | --: | --: | --: |")
	for _, k := range kinds {
		if strings.HasPrefix(k.name, filled) {
			continue // it is there for the next
		}
		all := costs[k.name]
		fmt.Printf("| %s | %.0f | %.0f | %.0f ns | %.0f ns |\n", k.name, median(all, cost.rate), median(all, cost.ownRate),
			median(all, cost.ownEach), median(all, cost.theirsEach))
	}
	fmt.Println("\n| ratio, by round | goal | median | range |\n| --- | --: | --: | --: |")
	var missed error
	for _, r := range ratios {
		var all []float64
		for i := range costs[r.of] {
			all = append(all, r.compare(costs[r.of][i], costs[r.to][i]))
		}
		slices.Sort(all)
		middle, goal, verdict := all[len(all)/2], "", ""
		switch {
		case r.atLeast > 0:
			goal = fmt.Sprintf("≥ %.2f", r.atLeast)
		case r.atMost > 0:
			goal = fmt.Sprintf("≤ %.2f", r.atMost)
		}
		if middle < r.atLeast || r.atMost > 0 && middle > r.atMost {
			verdict, missed = " missed", errMissed
		}
		fmt.Printf("| %s | %s | %.2f%s | %.2f–%.2f |\n", r.what, goal, middle, verdict, all[0], all[len(all)-1])
	}
	return missed
}

func median(all []cost, figure func(cost) float64) float64 {
	var values []float64
	for _, c := range all {
		values = append(values, figure(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// measure does something once. What reads finds what puts have left.
func (b *bench) measure(k kind) (c cost, err error) {
	servers := b.servers[:k.on]
	if k.empty {
		if err := b.flush(); err != nil {
			return c, err
		}
	}
	ours, theirs, err := cpuTimes(servers)
	if err != nil {
		return c, err
	}
	began := time.Now()
	if err := k.do(servers); err != nil {
		return c, err
	}
	c.wall, c.n = time.Since(began), b.items*k.on
	oursAfter, theirsAfter, err := cpuTimes(servers)
	c.own, c.theirs = oursAfter-ours, theirsAfter-theirs
	return c, err
}

func cpuTimes(servers []*server) (ours, theirs time.Duration, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, err
	}
	ours = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	for _, s := range servers {
		t, err := spawn.CPUTime(s.PID)
		if err != nil {
			return 0, 0, err
		}
		theirs += t
	}
	return ours, theirs, nil
}

// start starts a server that does not sync, so that the disk is not what is measured.
func (b *bench) start(program string) (*server, error) {
	port, err := spawn.FreePort()
	if err != nil {
		return nil, err
	}
	var cpus []int
	if b.pin {
		cpus = []int{serverCPU}
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.Process, err = spawn.Start(context.Background(), spawn.Options{
		Name: "kestrel", Program: program, CPUs: cpus,
		Args: func(dir string) ([]string, error) {
			return []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--memcache-port", strconv.Itoa(port),
				"--thrift-port", "none", "--text-port", "none", "--sync-journal", "never", "--log-level", "error"}, nil
		},
		Ready: func() error {
			conn, err := net.Dial("tcp", s.addr)
			if err == nil {
				conn.Close()
			}
			return err
		},
	})
	return s, err
}
