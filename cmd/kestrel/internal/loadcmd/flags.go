package loadcmd

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/loadtest"
)

// Ports of the original, which are also those of this server.
const (
	memcachePort = 22133
	thriftPort   = 2229
)

// loadFlags are the flags that all scenarios have: which server, and how to run.
type loadFlags struct {
	flags *pflag.FlagSet

	server   string
	host     string
	port     int
	thrift   bool
	clientID string
	stats    string
	pid      int

	spawn     bool
	spawnArgs string
	spawnDir  string

	flush    bool
	noFlush  bool
	noVerify bool
	monitor  bool
	seed     uint64
	threads  int
	cpus     string
	interval time.Duration
	timeout  time.Duration
	label    string
	output   string
	quiet    bool
}

// defineLoadFlags adds the flags to f; thriftOnly is for scenarios that speak nothing else.
func defineLoadFlags(f *pflag.FlagSet, thriftOnly bool) *loadFlags {
	p := &loadFlags{flags: f, thrift: thriftOnly}
	f.StringVar(&p.server, "server", "", "`HOST:PORT` of the server; or say -h and -p")
	f.StringVarP(&p.host, "host", "h", "localhost", "`HOST` of the server")
	if thriftOnly {
		f.IntVarP(&p.port, "port", "p", thriftPort, "`PORT` of the server")
	} else {
		f.IntVarP(&p.port, "port", "p", memcachePort,
			fmt.Sprintf("`PORT` of the server; with --thrift the default is %d", thriftPort))
		f.BoolVar(&p.thrift, "thrift", false, "speak Thrift, not memcache")
	}
	f.StringVar(&p.clientID, "client-id", defaultClientID(thriftOnly),
		"`NAME` that Thrift connections say they have, for white lists; empty: none")
	f.BoolVar(&p.spawn, "spawn", false,
		"start 'kestrel serve' in a temporary directory, and remove both at the end; the next run removes what"+
			" a killed one has left")
	f.StringVar(&p.spawnArgs, "spawn-args", "",
		"more `FLAGS` of that server, such as \"--sync-journal never\"")
	f.StringVar(&p.spawnDir, "spawn-dir", "", "`DIR` for its temporary directory: the disk to measure")
	f.IntVar(&p.pid, "server-pid", 0,
		"`PID` of a server on this machine, to see its CPU time and memory")
	f.StringVar(&p.stats, "stats", "",
		"`HOST:PORT` of the server's memcache port, to see the depth of its queues during Thrift load")
	f.BoolVar(&p.flush, "flush", false,
		"destroy what is in the queues first; without it, a queue that is not empty is an error")
	f.BoolVarP(&p.noFlush, "no-flush", "F", false,
		"leave in the queues what is there; such items are passed over")
	f.BoolVarP(&p.monitor, "monitor", "M", false, "print the state of the queues at every interval")
	f.BoolVar(&p.noVerify, "no-verify", false,
		"send items that are all alike, and do not check that each comes once and in order")
	f.Uint64Var(&p.seed, "seed", 0,
		"`NUMBER` that seeds the random generator (default: random)")
	f.IntVar(&p.threads, "threads", 1, "`NUMBER` of threads of the generator")
	f.StringVar(&p.cpus, "cpus", "", "`LIST` of processors for the threads, such as 1,2")
	f.DurationVar(&p.interval, "interval", time.Second,
		"`TIME` between two samples of what is seen over time")
	f.DurationVar(&p.timeout, "timeout", 0,
		"`TIME` after which the run fails (default 1h, or twice its duration)")
	f.StringVar(&p.label, "label", "",
		"`NAME` of the run for compare and report; all rounds of one side have the same")
	f.StringVar(&p.output, "output", "",
		"`PREFIX` of files to write: PREFIX.json, PREFIX.hlog, and a PREFIX-….hgrm for each histogram")
	f.BoolVar(&p.quiet, "quiet", false, "print neither the table of percentiles nor progress")
	return p
}

func defaultClientID(thriftOnly bool) string {
	if thriftOnly {
		return "load-test"
	}
	return ""
}

// check returns what is wrong with the flags together, and fills in what follows from others.
func (p *loadFlags) check() error {
	changed := p.flags.Changed
	if p.thrift && !changed("port") {
		p.port = thriftPort
	}
	switch {
	case changed("server") && (changed("host") || changed("port")):
		return errors.New("--server says all that --host and --port do: leave those out")
	case p.spawn && (changed("server") || changed("host") || changed("port") || changed("server-pid")):
		return errors.New("--spawn starts a server of its own: leave out --server, --host, --port, " +
			"--server-pid")
	case !p.spawn && (p.spawnArgs != "" || p.spawnDir != ""):
		return errors.New("--spawn-args and --spawn-dir are for --spawn")
	case p.flush && p.noFlush:
		return errors.New("--flush destroys what --no-flush leaves: say one of them")
	case p.clientID != "" && !p.thrift:
		return errors.New("--client-id is for --thrift")
	case p.port < 1 || p.port > 65535:
		return fmt.Errorf("--port is %d, want 1 to 65535", p.port)
	case p.threads < 1 || p.threads > loadtest.MaxThreads:
		return fmt.Errorf("--threads is %d, want 1 to %d", p.threads, loadtest.MaxThreads)
	case !p.noVerify && p.size() < loadtest.MinVerifiedSize:
		return fmt.Errorf("--bytes is %d, want at least %d to verify: or say --no-verify", p.size(), loadtest.MinVerifiedSize)
	case p.interval < 20*time.Millisecond:
		return fmt.Errorf("--interval is %v, want at least 20ms", p.interval)
	case p.timeout < 0 || p.pid < 0:
		return errors.New("--timeout or --server-pid is negative")
	}
	if p.server == "" {
		p.server = net.JoinHostPort(p.host, strconv.Itoa(p.port))
	}
	if _, _, err := net.SplitHostPort(p.server); err != nil {
		return fmt.Errorf("--server %q is not HOST:PORT", p.server)
	}
	return nil
}

// size returns the bytes of an item, if a flag says them; otherwise they are enough.
func (p *loadFlags) size() int {
	if !p.flags.Changed("bytes") {
		return loadtest.MaxItemSize
	}
	n, _ := p.flags.GetInt("bytes")
	return n
}

// protocol returns what is spoken.
func (p *loadFlags) protocol() loadtest.Protocol {
	if p.thrift {
		return loadtest.Thrift
	}
	return loadtest.Memcache
}

// processors returns what --cpus lists.
func (p *loadFlags) processors() (cpus []int, err error) {
	for word := range strings.SplitSeq(p.cpus, ",") {
		if word == "" && p.cpus == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--cpus %q is not a list of processors such as 0,1", p.cpus)
		}
		cpus = append(cpus, n)
	}
	return cpus, nil
}

// options returns every flag with its value, for the figures.
func (p *loadFlags) options() map[string]string {
	options := make(map[string]string)
	p.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			options[f.Name] = f.Value.String()
		}
	})
	return options
}
