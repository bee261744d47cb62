package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const (
	itemSize    = 1024 // bytes
	connections = 4
	pipeline    = 32
)

// options are the command line.
type options struct {
	size      byteSize // of the items of a backlog
	memory    byteSize // max_memory_size of kestrel's queues
	rounds    int
	peers     bool
	backup    bool
	copies    int           // with backup: of each backlog
	pace      int           // with backup: MiB a second of one more copy; 0: none
	servers   string        // with peers: names, with commas between them
	rate      float64       // puts a second of the neighbour
	alone     time.Duration // of the neighbour beside nothing, and beside a queue in memory
	results   string        // directory for the report; empty: standard output only
	serverCPU int
	loadCPU   int
	setup     peer.Setup
}

// parseOptions parses and checks the command line; -h prints the usage to stderr.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{size: 1 << 30, memory: 128 << 20}
	f := flag.NewFlagSet("backlog", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Var(&o.size, "size", "`size` of the backlog, such as 256MiB or 10GiB, in items of 1 KiB")
	f.Var(&o.memory, "memory", "max_memory_size of kestrel's queues, a `size`; goals are about 128MiB")
	f.IntVar(&o.rounds, "rounds", 3, "`rounds` over all that is compared")
	f.BoolVar(&o.peers, "peers", false, "measure beside other servers, instead of kestrel's own goals")
	f.BoolVar(&o.backup, "backup", false, "measure kestrel backup and a neighbour beside it, and no drains")
	f.IntVar(&o.copies, "copies", 2, "with -backup: how `many` copies of each backlog")
	f.IntVar(&o.pace, "pace", 0, "with -backup: one more copy with so many `MiB` a second; 0: none")
	f.StringVar(&o.servers, "servers", "redis-everysec,beanstalkd,nats,kestrel",
		"with -peers: comma-separated `names` as make bench-peers has them; the first is the reference")
	f.Float64Var(&o.rate, "rate", 1000, "puts a `second` of the neighbour")
	f.DurationVar(&o.alone, "alone", 4*time.Second,
		"`time` of the neighbour beside nothing, and beside a queue in memory")
	f.StringVar(&o.results, "results", "",
		"`directory` to write the report to, as DATE-MACHINE-backlog.md, too")
	f.StringVar(&o.setup.Install, "install", "",
		"`directory` for servers built from source, with -peers; what Debian has is installed with apt-get")
	f.StringVar(&o.setup.Dir, "dir", os.TempDir(), "`directory` on the disk that the servers write to")
	f.StringVar(&o.setup.Kestrel, "kestrel", "bin/kestrel", "`path` of the kestrel binary")
	f.IntVar(&o.serverCPU, "server-cpu", 0, "`processor` of the server")
	f.IntVar(&o.loadCPU, "load-cpu", 1, "`processor` of the load generator")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.validate()
}

func (o *options) validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	const mib = 1 << 20
	bad(o.size < 4*mib || o.size > 1<<40, "-size %v, want 4MiB to 1024GiB", o.size)
	bad(o.memory < mib || o.memory > 1<<40, "-memory %v, want 1MiB to 1024GiB", o.memory)
	bad(!o.peers && o.size < 2*o.memory, "-size %v is no backlog beside -memory %v: want twice that",
		o.size, o.memory)
	bad(o.rounds < 1 || o.rounds > 1000, "-rounds %d, want 1 to 1000", o.rounds)
	bad(!(o.rate >= 1 && o.rate <= 1e5), "-rate %v, want 1 to 100000", o.rate)
	bad(o.backup && o.peers, "-backup and -peers: choose one")
	bad(o.copies < 1 || o.copies > 100, "-copies %d, want 1 to 100", o.copies)
	bad(o.pace < 0, "-pace %d, want 0 or more", o.pace)
	bad(o.alone <= 0, "-alone %v, want more than 0", o.alone)
	for _, cpu := range []int{o.serverCPU, o.loadCPU} {
		bad(cpu < 0 || cpu >= spawn.MaxCPUs, "processor %d, want 0 to %d", cpu, spawn.MaxCPUs-1)
	}
	bad(o.serverCPU == o.loadCPU, "-server-cpu and -load-cpu are the same")
	for name := range strings.SplitSeq(o.servers, ",") {
		s, ok := peer.Find(name)
		bad(!ok, "unknown server %q", name)
		bad(ok && !keepsBacklog(s), "%s keeps no backlog that could be measured here", name)
	}
	return errors.Join(errs...)
}

// keepsBacklog reports whether a server has a queue that outlives it, and that items can be taken
// from one by one.
func keepsBacklog(s peer.Server) bool {
	switch s.Protocol {
	case loadtest.RedisList, loadtest.Beanstalk, loadtest.JetStream:
		return s.Class != peer.Memory
	case loadtest.Memcache:
		return s.Class != peer.Memory && strings.HasPrefix(s.Name, "kestrel")
	}
	return false
}

// items returns how many are in a backlog.
func (o *options) items() int64 { return int64(o.size) / itemSize }

// byteSize is a number of bytes, written as kestrel's configuration has them.
type byteSize int64

func (b byteSize) String() string {
	units := []string{"", "KiB", "MiB", "GiB"}
	n, unit := int64(b), 0
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

// Set parses a size.
func (b *byteSize) Set(text string) error {
	shift := 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			text, shift = digits, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<62>>shift {
		return errors.New("want a size such as 1073741824, 256MiB or 10GiB")
	}
	*b = byteSize(n << shift)
	return nil
}
