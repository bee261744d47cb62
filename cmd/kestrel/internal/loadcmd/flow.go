package loadcmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

// The scenarios that are producers and consumers of some queues.

// defineFlow adds the flags of a flow, whose defaults are in it.
func defineFlow(f *pflag.FlagSet, flow *scenario.Flow) {
	f.StringVarP(&flow.Queue, "queue", "q", flow.Queue, "`NAME` of the queue, or how the names begin")
	f.IntVarP(&flow.Queues, "queues", "Q", flow.Queues,
		"`NUMBER` of queues; of several, connection i uses number i modulo this")
	f.IntVarP(&flow.Size, "bytes", "b", flow.Size, "`BYTES` of an item")
	f.IntVarP(&flow.Producers, "producers", "R", flow.Producers, "`NUMBER` of connections that put")
	f.IntVarP(&flow.Consumers, "consumers", "C", flow.Consumers,
		"`NUMBER` of connections that get; 0 leaves the items in the queue")
	f.DurationVar(&flow.Wait, "wait", flow.Wait,
		"`TIME` that gets wait for an item; 0 asks again and again")
	f.BoolVarP(&flow.Reliable, "reliable", "x", false, "open items and confirm them")
	f.IntVar(&flow.Reconnect, "reconnect", flow.Reconnect,
		"`NUMBER` of requests after which a connection is closed and opened again; 0: never")
	f.BoolVar(&flow.Poisson, "poisson", false,
		"let the times between requests be random, as those of many independent clients are")
}

func defaultFlow() scenario.Flow {
	return scenario.Flow{Queue: "spam", Queues: 1, Size: 1024, Producers: 16, Consumers: 16,
		Pipeline: 1,
		Rate:     1000, Wait: time.Second}
}

func newOpenLoop() *cobra.Command {
	return scenarioCommand{
		name: "open-loop", short: "a given rate, whatever the server does",
		about: "Puts are due at a given rate that the server cannot hold up, and consumers wait for the " +
			"items. Latency counts from when a put was due. So a stall of the server shows in every " +
			"request that was due during it. Delivery is from then to when a consumer has the item.",
		example: "--spawn --rate 20000 --duration 30s --output run",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.OpenLoop{Flow: defaultFlow()}
			cli.RateVar(f, &s.Rate, "rate", "`NUMBER` of puts a second")
			f.DurationVarP(&s.Duration, "duration", "d", 10*time.Second, "`TIME` to measure")
			f.DurationVar(&s.Warmup, "warmup", time.Second, "`TIME` of the same load before")
			defineFlow(f, &s.Flow)
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}

func newRamp() *cobra.Command {
	return scenarioCommand{
		name: "ramp", short: "the highest rate that keeps a latency",
		about: "Tries one rate after the other, as open-loop does. Ends with the highest at which the 99th " +
			"percentile of both puts and deliveries stays within a target.",
		example: "--spawn --p99 5ms --step 3s",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Ramp{Flow: defaultFlow()}
			f.DurationVar(&s.P99, "p99", 10*time.Millisecond, "`TIME` within which 99 of 100 must be done")
			f.DurationVar(&s.Step, "step", 5*time.Second, "`TIME` of each rate")
			f.Float64Var(&s.Rate, "from", s.Rate, "`NUMBER` of puts a second to begin with")
			f.Float64Var(&s.Max, "to", 1e6, "`NUMBER` of puts a second to end with")
			f.Float64Var(&s.Accuracy, "accuracy", 0.05, "`SHARE` by which the result may be too low")
			defineFlow(f, &s.Flow)
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}

func newFanout() *cobra.Command {
	return scenarioCommand{
		name: "fanout", short: "a queue with children, each of which gets everything",
		about: "Puts to a queue that has children, and checks that every child, and the queue itself, " +
			"delivers every item, once and in order.",
		example: "--spawn --children 10 -n 100000",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Fanout{Flow: defaultFlow()}
			s.Producers, s.Consumers, s.Rate = 4, 1, 0
			f.IntVar(&s.Children, "children", 3, "`NUMBER` of children")
			f.Int64VarP(&s.Items, "items", "n", 10000, "`NUMBER` of items; 0: as many as --duration allows")
			f.DurationVarP(&s.Duration, "duration", "d", 0, "`TIME` to put; 0: as long as the items take")
			cli.RateVar(f, &s.Rate, "rate", "`NUMBER` of puts a second; 0: as many as possible")
			f.BoolVar(&s.OnlyChild, "fanout-only", false,
				"expect nothing in the queue itself (the server's option fanout_only)")
			defineFlow(f, &s.Flow)
			f.Lookup("consumers").Usage = "`NUMBER` of connections that get, for each child"
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}

// mixedExample is a file for mixed.
const mixedExample = `duration = "30s"

[[flow]]
queue = "mail"
queues = 10
size = 2048
rate = 500.0

[[flow]]
queue = "log"
producers = 4
consumers = 4
pipeline = 32
`

func newMixed() *cobra.Command {
	return scenarioCommand{
		name: "mixed", short: "several kinds of load at once, from a file",
		about: "Runs the flows of a TOML file at the same time. The file may say duration and items. " +
			"Each [[flow]] may have queue, queues, size, producers, consumers, rate, poisson, pipeline, wait, " +
			"reliable and reconnect. What is left out is as in open-loop, but for rate, which is then as " +
			"high as it gets.",
		example: "--spawn --file mixed.toml",
		file:    mixedExample,
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			file := f.StringP("file", "f", "", "`FILE` that says what to do")
			return func() (scenario.Scenario, error) {
				if *file == "" {
					return nil, fmt.Errorf("which flows? Say --file FILE")
				}
				return readMixed(*file)
			}
		},
	}.command()
}

func newSoak() *cobra.Command {
	return scenarioCommand{
		name: "soak", short: "a steady load for hours, and the server's memory",
		about: "Puts at a steady rate for a long time, with consumers that confirm and clients that come " +
			"and go. Checks every item, and watches the server's memory.",
		example: "--spawn --duration 8h --max-growth 0.1 --output soak",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Soak{Flow: defaultFlow()}
			s.Queues, s.Rate, s.Reconnect = 8, 2000, 1000
			cli.RateVar(f, &s.Rate, "rate", "`NUMBER` of puts a second")
			f.DurationVarP(&s.Duration, "duration", "d", time.Hour, "`TIME` to run")
			size := f.String("max-memory", "", "`SIZE` that the server's memory may reach, such as 256MiB")
			f.Float64Var(&s.MaxGrowth, "max-growth", 0,
				"`SHARE` by which its memory may grow once a tenth of the time has passed; 0: any")
			defineFlow(f, &s.Flow)
			return func() (scenario.Scenario, error) {
				if *size != "" {
					n, err := config.ParseSize(*size)
					if err != nil {
						return nil, fmt.Errorf("--max-memory %q is not a size such as 256MiB", *size)
					}
					s.MaxResident = n
				}
				return s, nil
			}
		},
	}.command()
}

func newOutage() *cobra.Command {
	return scenarioCommand{
		name: "outage", short: "consumers stop, and come back while producers go on",
		about: "Producers put at a given rate, with consumers, then without, and then with consumers again, which drain " +
			"the backlog as quickly as they can. The run fails if puts keep less than a share of their rate during the drain.",
		example: "--spawn --rate 20000 --outage 20s --after 60s",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Outage{Flow: defaultFlow()}
			cli.RateVar(f, &s.Rate, "rate", "`NUMBER` of puts a second; 0: as many as possible")
			f.DurationVar(&s.Before, "before", 5*time.Second, "`TIME` with consumers")
			f.DurationVar(&s.Outage, "outage", 10*time.Second, "`TIME` without consumers")
			f.DurationVar(&s.After, "after", 20*time.Second, "`TIME` that producers go on when the consumers are back")
			f.Float64Var(&s.Keep, "keep", 0.9, "`SHARE` of their rate that puts must keep during the drain; 0: any")
			defineFlow(f, &s.Flow)
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}
