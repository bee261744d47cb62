// Command client measures what the Go client costs beside the bare load generator, and three servers beside one. It
// starts servers of its own, and reports items for each second, and processor time for each item: on a machine that
// does other things the latter says more. Runs take turns, so that both sides see the same machine. With -gaps it measures
// what producers notice of a server that fails.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

func main() {
	runtime.LockOSThread() // servers live as long as the thread that starts them, and the generator ends threads
	b := &bench{}
	flag.StringVar(&b.program, "kestrel", "bin/kestrel", "the built server")
	flag.IntVar(&b.items, "items", 400_000, "items of one run")
	flag.IntVar(&b.size, "size", 100, "bytes of an item")
	flag.IntVar(&b.batch, "batch", 1000, "items of one call of PutAll, and requests in flight of the generator's puts")
	flag.IntVar(&b.handlers, "handlers", 64, "handlers of the worker, and connections of the generator that reads")
	flag.IntVar(&b.rounds, "rounds", 7, "runs of each kind")
	gaps := flag.Bool("gaps", false, "measure what producers notice when a server fails, and nothing else")
	flag.Parse()
	run := b.run
	if *gaps {
		run = b.gaps
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
func (c cost) ownRate() float64 { return float64(c.n) / c.own.Seconds() }
func (c cost) each() float64    { return float64((c.own + c.theirs).Nanoseconds()) / float64(c.n) }

// perCPU is how many items one processor would do if it did nothing else, for the client and the servers.
func (c cost) perCPU() float64 { return 1e9 / c.each() }

// kind is something that is measured.
type kind struct {
	name  string
	do    func(servers []*server) error
	on    int  // servers
	empty bool // the queue is to be empty before
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
		s, err := start(program)
		if err != nil {
			return err
		}
		b.servers = append(b.servers, s)
	}
	kinds := []kind{
		{"generator puts", b.generatorPuts, 1, true}, {"generator reads", b.generatorReads, 1, false},
		{"client puts", b.clientPuts, 1, true}, {"client works", b.clientWorks, 1, false},
		{"filled again", b.generatorPuts, 1, true}, {"client works with leases", b.clientWorksLeased, 1, false},
		{"client puts, 3 servers", b.clientPuts, 3, true}, {"client works, 3 servers", b.clientWorks, 3, false},
		{"filled again, 3 servers", b.clientPuts, 3, true}, {"client works with leases, 3 servers", b.clientWorksLeased, 3, false},
	}
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
	fmt.Printf("%d items of %d B, %d rounds, %d processors; medians\n\n", b.items, b.size, b.rounds, runtime.NumCPU())
	fmt.Println("| what | items/s | items per second of own CPU | own CPU/item | servers' CPU/item |\n| --- | --: | --: | --: | --: |")
	for _, k := range kinds {
		if strings.HasPrefix(k.name, "filled") {
			continue // it is there for the next
		}
		all := costs[k.name]
		fmt.Printf("| %s | %.0f | %.0f | %.0f ns | %.0f ns |\n", k.name, median(all, cost.rate), median(all, cost.ownRate),
			median(all, func(c cost) float64 { return float64(c.own.Nanoseconds()) / float64(c.n) }),
			median(all, func(c cost) float64 { return float64(c.theirs.Nanoseconds()) / float64(c.n) }))
	}
	fmt.Println()
	b.ratio(costs, "items/s, puts, client to generator (at least 0.7)", "client puts", "generator puts", cost.rate)
	b.ratio(costs, "items/s, reads, client to generator (at least 0.7)", "client works", "generator reads", cost.rate)
	b.ratio(costs, "items/s, reads, client with leases to generator (at least 0.7)", "client works with leases", "generator reads", cost.rate)
	b.ratio(costs, "items per CPU second, puts, client to generator", "client puts", "generator puts", cost.perCPU)
	b.ratio(costs, "items per CPU second, reads, client to generator", "client works", "generator reads", cost.perCPU)
	b.ratio(costs, "items per CPU second, reads, client with leases to generator", "client works with leases", "generator reads", cost.perCPU)
	b.ratio(costs, "CPU/item, puts, 3 servers to 1 (at most 1.05)", "client puts, 3 servers", "client puts", cost.each)
	b.ratio(costs, "CPU/item, reads, 3 servers to 1 (at most 1.05)", "client works, 3 servers", "client works", cost.each)
	b.ratio(costs, "CPU/item, reads with leases, 3 servers to 1 (at most 1.05)", "client works with leases, 3 servers",
		"client works with leases", cost.each)
	return nil
}

// ratio prints the ratios of two kinds, round by round.
func (b *bench) ratio(costs map[string][]cost, what, of, to string, figure func(cost) float64) {
	var all []float64
	for i := range costs[of] {
		all = append(all, figure(costs[of][i])/figure(costs[to][i]))
	}
	slices.Sort(all)
	fmt.Printf("%s: %.2f (%.2f to %.2f)\n", what, all[len(all)/2], all[0], all[len(all)-1])
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
	c.wall, c.n = time.Since(began), b.items
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
func start(program string) (*server, error) {
	port, err := spawn.FreePort()
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.Process, err = spawn.Start(context.Background(), spawn.Options{
		Name: "kestrel", Program: program,
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

func (b *bench) generate(addr string, g loadtest.Group) error {
	g.ItemSize, g.Queue, g.Operations = b.size, "work", int64(b.items)
	_, err := loadtest.Run(context.Background(), loadtest.Options{Addr: addr, Groups: []loadtest.Group{g}})
	return err
}

func (b *bench) generatorPuts(servers []*server) error {
	return b.generate(servers[0].addr, loadtest.Group{Operation: loadtest.Set, Connections: 1, Pipeline: b.batch})
}

// generatorReads opens and confirms, as the worker does: one request ends an item and asks for the next.
func (b *bench) generatorReads(servers []*server) error {
	return b.generate(servers[0].addr, loadtest.Group{Operation: loadtest.CloseOpen, Connections: b.handlers, Hits: true})
}

func (b *bench) dial(servers []*server) (*client.Client, error) {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addr)
	}
	return client.Dial(context.Background(), "", client.Options{Source: client.Static(addrs...)})
}

// flush empties the queue on all servers.
func (b *bench) flush() error {
	c, err := b.dial(b.servers)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Flush(context.Background(), "work")
}

// producers is how many goroutines put at the same time: while the replies of one batch are on their way the next is
// made.
const producers = 4

func (b *bench) clientPuts(servers []*server) error {
	c, err := b.dial(servers)
	if err != nil {
		return err
	}
	defer c.Close()
	items := make([][]byte, b.batch)
	for i := range items {
		items[i] = make([]byte, b.size)
	}
	var left atomic.Int64
	left.Store(int64(b.items))
	failed := make([]error, producers)
	var putting sync.WaitGroup
	for p := range producers {
		putting.Go(func() {
			for failed[p] == nil {
				n := min(left.Add(-int64(b.batch))+int64(b.batch), int64(b.batch))
				if n <= 0 {
					return
				}
				failed[p] = c.PutAll(context.Background(), "work", items[:n], client.PutOptions{})
			}
		})
	}
	putting.Wait()
	return errors.Join(failed...)
}

func (b *bench) clientWorks(servers []*server) error { return b.work(servers, 0) }

func (b *bench) clientWorksLeased(servers []*server) error { return b.work(servers, 30*time.Second) }

// work has a worker confirm each item.
func (b *bench) work(servers []*server, lease time.Duration) error {
	c, err := b.dial(servers)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, done := context.WithCancel(context.Background())
	defer done()
	var left atomic.Int64
	left.Store(int64(b.items))
	w := &client.Worker{Client: c, Queue: "work", Lease: lease, Handlers: b.handlers, Handle: func(context.Context, *client.Delivery) error {
		if left.Add(-1) == 0 {
			done()
		}
		return nil
	}}
	return w.Run(ctx)
}
