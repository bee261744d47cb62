package loadcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

const loadPage = `Usage:
    kestrel load SCENARIO [flags]
    kestrel load compare A.json B.json...
    kestrel load report RUN.json... -o report.html

Puts load on a server of the memcache family, or on Kestrel's Thrift service,
checks every reply, and measures. An item that is lost, damaged, out of order or
delivered twice is an error that names it. Without --flush or --no-flush a
run leaves a queue alone that already holds items, and ends with an error.

Scenarios of the original:
    put-many      how fast items are accepted, and fetched again
    many-clients  one producer, many consumers that wait
    flood         producers and consumers at full speed
    packing       a queue that is always behind
    leaky-reader  consumers that forget some of what they read (Thrift)

Others:
    open-loop     a given rate, whatever the server does
    ramp          the highest rate that keeps a latency
    fanout        a queue with children, each of which gets everything
    mixed         several kinds of load at once, from a file
    soak          a steady load for hours, and the server's memory
    outage        consumers stop, and come back while producers go on
    delayed       items that are hidden for a while
    leases        items under leases; consumers forget some of them
    retries       jobs that fail, come again, or are dead letters

Afterwards:
    compare       ratios of runs, with their spread
    report        one page with charts, to be opened in a browser

    Measure a server that is started for it, and keep the result:
        $ kestrel load put-many --get --spawn --output before

'kestrel load COMMAND --help' says more.

Exit status: 0 if all was well; 1 if a check failed, a queue was not empty, or
the server could not be reached or started; 2 if the flags are wrong.
`

// New returns `kestrel load` and what belongs to it.
func New() *cobra.Command {
	cmd := cli.Group("load", "put load on a server, check it and measure it", loadPage)
	cmd.AddCommand(newPutMany(), newManyClients(), newFlood(), newPacking(), newLeakyReader(),
		newOpenLoop(), newRamp(), newFanout(), newMixed(), newSoak(), newOutage(), newDelayed(),
		newLeases(), newRetries(), newLoadCompare(), newLoadReport())
	return cmd
}

// scenarioCommand is a scenario as a command: define adds its flags to f and returns what makes the
// scenario of them, once they are parsed.
type scenarioCommand struct {
	name, short string
	about       string // a paragraph or two
	example     string // its flags in an example
	file        string // that the example names; "" for most
	thriftOnly  bool
	define      func(f *pflag.FlagSet) func() (scenario.Scenario, error)
}

// command returns the cobra command.
func (s scenarioCommand) command() *cobra.Command {
	cmd := &cobra.Command{Use: s.name, Short: s.short, Args: cli.NoArguments}
	f := cmd.Flags()
	f.SortFlags = false
	f.Bool("help", false, "print this")
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	build := s.define(own)
	f.AddFlagSet(own)
	place := defineLoadFlags(f, s.thriftOnly)
	cmd.Long = s.page(own, f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		sc, err := build()
		if err != nil {
			return err
		}
		if err := sc.Validate(); err != nil {
			return err
		}
		return place.run(cmd, sc)
	}
	return cmd
}

// page returns the help page of a scenario with flags of its own among all flags.
func (s scenarioCommand) page(own, all *pflag.FlagSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n    kestrel load %s [flags]\n\n%s\n", s.name, cli.Wrap(s.about, "", 80))
	b.WriteString("\nFlags:\n")
	cli.WriteFlags(&b, own)
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	rest.SortFlags = false
	all.VisitAll(func(f *pflag.Flag) {
		if own.Lookup(f.Name) == nil && f.Name != "help" {
			rest.AddFlag(f)
		}
	})
	b.WriteString("\n  The server, and the run\n")
	cli.WriteFlags(&b, rest)
	fmt.Fprintf(&b, "\nExample:\n    $ kestrel load %s %s\n    …\n", s.name, s.example)
	if s.file != "" {
		b.WriteString("\nA file for it:\n")
		for line := range strings.Lines(s.file) {
			if line != "\n" {
				line = "    " + line
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
