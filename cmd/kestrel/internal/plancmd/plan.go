package plancmd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

const planPage = `Usage:
    kestrel plan --rate NUMBER --size SIZE --outage TIME [flags]

Says what a load needs: processors, memory, disk, servers, and how long
consumers take to catch up after an outage. Each line has its formula, and each
number says where it comes from. Without --measure the costs of requests are
round numbers. With it the command measures them here, in a minute at most. It
measures puts, gets from memory and from a backlog on disk, and the memory of a
server. The rate at which it reads the disk is a lower bound, because the load
runs here as well.

Flags:
    --rate NUMBER
        items a second that producers put, such as 50k
    --size SIZE
        size of an item, such as 2KiB
    --outage TIME
        how long consumers may be away, such as 2h
    --connections NUMBER (default 1000)
        clients that are connected at a time
    --processors NUMBER (default: those of this machine)
        processors of one server
    --measure
        measure what requests cost here, with a server that is started for it

Example:
    $ kestrel plan --rate 50k --size 2KiB --outage 2h --processors 8
    …
    drain        11m7s             backlog / (gets − rate), with 590,000 gets a second: …
    …

Exit status: 0 if all was well; 1 if the measuring failed; 2 if the flags are
wrong.
`

// What a plan leaves free, and what it takes for given.
const (
	steadyShare = 0.5 // of the processors, that the steady load may take: the rest drains backlogs
	drainShare  = 0.8 // of them, that may be busy during a drain
	recordBytes = 40  // of an item in a journal or backlog, beside its data, about
	diskSpare   = 1.1 // the reserve of 5 % and room for files that are half used
	baseMemory  = 64 << 20
	connMemory  = 2304 // bytes of a connection, as memory_limit counts it
	// writes is how often an item of an outage goes to disk: to the journal, and to the backlog.
	writes   = 2
	stated   = "stated: 10 µs, a round number that nobody measured; --measure measures it here"
	measured = "measured here: processor time of the server, one request in flight for each of 32 connections"
)

// costs are what requests cost a server.
type costs struct {
	put, get, fetch time.Duration // processor time of one; fetch is a get of an item that is on disk
	base            int64         // bytes of a server without items and clients
	reads           float64       // bytes a second that gets from disk brought, at least; 0: not measured
	source          string
}

// roundCosts are stated, and nobody measured them.
var roundCosts = costs{
	put: 10 * time.Microsecond, get: 10 * time.Microsecond, fetch: 10 * time.Microsecond, base: baseMemory, source: stated,
}

// load is what is planned for.
type load struct {
	rate        float64 // items a second
	size        int64   // bytes
	outage      time.Duration
	connections int64
	processors  int
	costs       costs
}

// plan is what a load needs.
type plan struct {
	busy    float64 // processors, while consumers keep up
	servers int64
	backlog float64 // items that an outage leaves
	disk    int64   // bytes, of one server
	memory  int64   // bytes, of one server
	gets    float64 // items a second that consumers get during the drain, of all servers
	drain   time.Duration
	never   bool // the drain does not end
}

// New returns `kestrel plan`.
func New() *cobra.Command {
	var size string
	l := load{connections: 1000, processors: runtime.NumCPU()}
	measures := false
	cmd := &cobra.Command{Use: "plan", Short: "say what a load needs of a server", Long: planPage, Args: cli.NoArguments}
	f := cmd.Flags()
	cli.RateVar(f, &l.rate, "rate", "items a second")
	f.StringVar(&size, "size", "", "size of an item")
	f.DurationVar(&l.outage, "outage", 0, "how long consumers may be away")
	f.Int64Var(&l.connections, "connections", l.connections, "clients")
	f.IntVar(&l.processors, "processors", l.processors, "processors of one server")
	f.BoolVar(&measures, "measure", false, "measure here")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if l.rate <= 0 {
			return errors.New("--rate is missing: items a second, such as 50k")
		}
		if size == "" {
			return errors.New("--size is missing: how large an item is, such as 2KiB")
		}
		if l.size, err = config.ParseSize(size); err != nil || l.size < 1 || l.size > engine.MaxItemSize {
			return fmt.Errorf("--size %q is not the size of an item, such as 2KiB", size)
		}
		switch {
		case l.outage <= 0:
			return errors.New("--outage is missing: how long consumers may be away, such as 2h")
		case l.connections < 1:
			return fmt.Errorf("--connections is a number above zero, and not %d", l.connections)
		case l.processors < 1:
			return fmt.Errorf("--processors is a number above zero, and not %d", l.processors)
		}
		l.costs = roundCosts
		if measures {
			if l.costs, err = measure(cmd.Context(), l.size); err != nil {
				return cli.Failed("plan: %v", err)
			}
		}
		l.plan().write(cmd.OutOrStdout(), l)
		return nil
	}
	return cmd
}

// plan works out what l needs.
func (l load) plan() plan {
	var p plan
	p.busy = l.rate * (l.costs.put + l.costs.get).Seconds()
	p.servers = max(int64(math.Ceil(p.busy/(steadyShare*float64(l.processors)))), 1)
	p.backlog = l.rate * l.outage.Seconds()
	each := p.backlog / float64(p.servers)
	p.disk = int64(each * float64(l.size+recordBytes) * diskSpare)
	p.memory = l.costs.base + engine.DefaultQueueOptions().MaxMemorySize + l.connections*connMemory
	free := drainShare*float64(l.processors)*float64(p.servers) - l.rate*l.costs.put.Seconds()
	p.gets = free / l.costs.fetch.Seconds()
	if p.never = p.gets <= l.rate; !p.never {
		p.drain = time.Duration(min(p.backlog/(p.gets-l.rate), 1e9) * float64(time.Second))
	}
	return p
}

// Columns of a plan.
const (
	formulaColumn = 31 // where formulas begin
	narrowScreen  = 60 // columns of a terminal on which formulas have lines of their own
)

// planLine is a line of a plan: what a load needs, how much, and how that was found. On a terminal it fits the width,
// with more lines if need be. A width of 0 is no terminal.
func planLine(what, value, formula string, width int) string {
	if width > 0 && width < narrowScreen {
		return fmt.Sprintf("%-12s %s\n  %s\n", what, value, cli.Hang(formula, 2, width-2))
	}
	return fmt.Sprintf("%-12s %-17s %s\n", what, value, cli.Hang(formula, formulaColumn, width))
}

// write prints the plan.
func (p plan) write(out io.Writer, l load) {
	width := cli.Width(out)
	line := func(what, value, formula string) { io.WriteString(out, planLine(what, value, formula, width)) }
	line("put", l.costs.put.String(), l.costs.source)
	line("get", l.costs.get.String(), "likewise, from memory")
	line("get on disk", l.costs.fetch.String(), "likewise, from a backlog")
	line("processors", fmt.Sprintf("%.2f busy", p.busy), "rate × (put + get)")
	line("servers", figures.Thousands(p.servers), fmt.Sprintf("busy / (%g × %d processors), rounded up: half is left for drains", steadyShare, l.processors))
	line("backlog", cli.Counted(int64(p.backlog+0.5), "item"), "rate × outage, over all servers")
	line("disk", sizeText(p.disk), fmt.Sprintf("backlog / servers × (size + %d bytes) × %g, for each server, beside its journal_size", recordBytes, diskSpare))
	line("disk writes", sizeText(int64(l.rate/float64(p.servers)*float64(l.size+recordBytes)*writes))+"/s",
		fmt.Sprintf("%d × rate / servers × (size + record) in an outage: journal and backlog", writes))
	line("memory", sizeText(p.memory), fmt.Sprintf("%s + max_memory_size of one queue + %s bytes × connections, for each server",
		sizeText(l.costs.base), figures.Thousands(connMemory)))
	if p.never {
		line("drain", "never", figures.Thousands(int64(p.gets+0.5))+" gets a second are not more than the puts: add processors")
		return
	}
	line("drain", p.drain.Round(time.Second).String(), fmt.Sprintf("backlog / (gets − rate), with %s gets a second: (%g × processors × servers − rate × put) / get on disk",
		figures.Thousands(int64(p.gets+0.5)), drainShare))
	reads := "gets / servers × (size + record): a slower disk makes the drain longer"
	if l.costs.reads > 0 {
		reads += fmt.Sprintf("; here it gave %s/s at least", sizeText(int64(l.costs.reads)))
	}
	line("disk reads", sizeText(int64(p.gets/float64(p.servers)*float64(l.size+recordBytes)))+"/s", reads)
}

// sizeText writes a size in the greatest unit that leaves a number above 1.
func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	v := float64(n)
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
