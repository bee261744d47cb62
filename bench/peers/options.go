package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// options are the command line.
type options struct {
	cases     *regexp.Regexp
	servers   []string // names; empty selects the defaults
	rounds    int
	window    time.Duration // measured, per case and server
	warmup    time.Duration
	short     bool
	results   string // directory for the report; empty: standard output only
	serverCPU int
	loadCPUs  []int // one generator thread on each
	setup     peer.Setup
}

// dummyWindow is how long the same server runs before each measurement, for nothing. What follows another server
// directly looks dearer, by half with 32 requests in flight.
const dummyWindow = 40 * time.Millisecond

// dummy returns the options of the run before a measurement.
func (o *options) dummy() *options {
	d := *o
	d.window, d.warmup = min(dummyWindow, o.window), 0
	return &d
}

// Defaults, and those of -short.
const (
	defaultWindow = 500 * time.Millisecond

	shortCases  = " c=16 "
	shortRounds = 2
	shortWindow = 150 * time.Millisecond
)

// parseOptions parses and checks the command line; -h prints the usage to stderr.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(stderr)
	cases := f.String("cases", "", "regular `expression` on case names such as\n"+
		`"page-cache SET 64B c=16 P=32" (connections, pipeline) or "sync-always SET 64B c=100 P=1"`)
	servers := f.String("servers", "",
		"comma-separated names; the first of a class is its reference\n"+
			"(default those marked *: "+serverNames()+")")
	f.IntVar(&o.rounds, "rounds", 5, "`rounds` over all servers of a case")
	f.DurationVar(&o.window, "window", defaultWindow, "measured `time` per case, server and round")
	f.DurationVar(&o.warmup, "warmup", 0, "`time` of the same load before it (default a quarter)")
	f.BoolVar(&o.short, "short", false,
		"a quick look: 16 connections, 2 rounds, short windows, unless given")
	f.StringVar(&o.results, "results", "",
		"`directory` to write the report to, as DATE-MACHINE.md, too")
	f.StringVar(&o.setup.Install, "install", "",
		"`directory` for nats-server and nsqd: built from source if they are not there; what Debian\n"+
			"has is installed with apt-get")
	f.StringVar(&o.setup.Dir, "dir", os.TempDir(), "`directory` on the disk that the servers write to")
	f.IntVar(&o.serverCPU, "server-cpu", 0, "`processor` of the server")
	loadCPUs := f.String("load-cpus", "1",
		"comma-separated `processors` of the load generator, a thread on each")
	f.StringVar(&o.setup.Kestrel, "kestrel", "bin/kestrel", "`path` of the kestrel binary")
	f.StringVar(&o.setup.Before, "before", "", "`path` of another build, for kestrel-before and kestrel-always-before")
	f.StringVar(&o.setup.KestrelArgs, "kestrel-args", peer.DefaultArgs,
		"its arguments; DIR, PORT and FILE are replaced")
	page := f.String("kestrel-config", "", "its configuration `file` for page-cache cases\n"+
		"(default one that says "+fmt.Sprintf("%q)", peer.DefaultConfig(pageCache)))
	sync := f.String("kestrel-sync-config", "", "its configuration `file` for sync-always cases\n"+
		"(default one that says "+fmt.Sprintf("%q)", peer.DefaultConfig(syncAlways)))
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	given := make(map[string]bool)
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.short {
		o.shorten(given, cases)
	}
	if *servers != "" {
		o.servers = strings.Split(*servers, ",")
	}
	if !given["warmup"] {
		o.warmup = o.window / 4
	}
	o.setup.KestrelConfig = map[class]string{pageCache: *page, syncAlways: *sync}
	var err error
	if o.cases, err = regexp.Compile(*cases); err != nil {
		return nil, fmt.Errorf("-cases: %w", err)
	}
	for cpu := range strings.SplitSeq(*loadCPUs, ",") {
		n, err := strconv.Atoi(cpu)
		if err != nil {
			return nil, fmt.Errorf("-load-cpus: %w", err)
		}
		o.loadCPUs = append(o.loadCPUs, n)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.validate()
}

// shorten applies -short to what was not given.
func (o *options) shorten(given map[string]bool, cases *string) {
	if !given["cases"] {
		*cases = shortCases
	}
	if !given["rounds"] {
		o.rounds = shortRounds
	}
	if !given["window"] {
		o.window = shortWindow
	}
}

func (o *options) validate() error {
	var errs []error
	for _, name := range o.servers {
		if _, ok := findServer(name); !ok {
			errs = append(errs, fmt.Errorf("unknown server %q, have %s", name, serverNames()))
		}
	}
	if o.rounds < 1 || o.rounds > 1000 {
		errs = append(errs, fmt.Errorf("-rounds %d, want 1 to 1000", o.rounds))
	}
	if o.window <= 0 || o.warmup < 0 {
		errs = append(errs, fmt.Errorf("-window %v and -warmup %v: want more than 0 and at least 0",
			o.window, o.warmup))
	}
	for _, cpu := range append(slices.Clone(o.loadCPUs), o.serverCPU) {
		if cpu < 0 || cpu >= spawn.MaxCPUs {
			errs = append(errs, fmt.Errorf("processor %d, want 0 to %d", cpu, spawn.MaxCPUs-1))
		}
	}
	if slices.Contains(o.loadCPUs, o.serverCPU) {
		errs = append(errs, errors.New("-server-cpu is among -load-cpus"))
	}
	return errors.Join(errs...)
}

// names returns the names of the selected servers.
func (o *options) names() []string {
	if len(o.servers) > 0 {
		return o.servers
	}
	var names []string
	for _, s := range servers() {
		if s.byDefault {
			names = append(names, s.Name)
		}
	}
	return names
}

// installed returns the selected servers whose program is there, and says which are not.
func (o *options) installed(stderr io.Writer) []server {
	var found []server
	for _, name := range o.names() {
		s, _ := findServer(name)
		var err error
		if s.Server, err = o.setup.Locate(s.Server); err != nil {
			fmt.Fprintf(stderr, "peers: skipping %s, no such program: %v\n", s.Name, err)
			continue
		}
		found = append(found, s)
	}
	return found
}

// plan returns the selected cases, each with the servers that take part.
func (o *options) plan(installed []server) []planned {
	var plan []planned
	for _, c := range allCases() {
		if !o.cases.MatchString(c.String()) {
			continue
		}
		p := planned{benchCase: c}
		for _, s := range installed {
			if c.fits(s) {
				p.servers = append(p.servers, s)
			}
		}
		if len(p.servers) > 0 && (c.kind != scaling || len(p.servers) > 1) {
			plan = append(plan, p)
		}
	}
	return plan
}
