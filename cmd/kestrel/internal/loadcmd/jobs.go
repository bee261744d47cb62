package loadcmd

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

// The scenarios of what a work queue needs: delays, leases, retries.

// defineJobs adds the flags that these scenarios share, whose defaults are in j.
func defineJobs(f *pflag.FlagSet, j *scenario.Jobs) {
	f.Int64VarP(&j.Items, "items", "n", j.Items, "`NUMBER` of items")
	f.StringVarP(&j.Queue, "queue", "q", j.Queue, "`NAME` of the queue")
	f.IntVarP(&j.Size, "bytes", "b", j.Size, "`BYTES` of an item")
	f.IntVarP(&j.Producers, "producers", "R", j.Producers, "`NUMBER` of connections that put")
	f.IntVarP(&j.Consumers, "consumers", "C", j.Consumers, "`NUMBER` of connections that work")
}

func defaultJobs() scenario.Jobs {
	return scenario.Jobs{Queue: "jobs", Items: 10000, Size: 64, Producers: 4, Consumers: 16}
}

func newDelayed() *cobra.Command {
	return scenarioCommand{
		name: "delayed", short: "items that are hidden for a while",
		about: "Puts items with delays that are drawn at random, and checks that each comes once, and none before it " +
			"is due. How late they come is the figure to look at: that of \"late\". An item is lost if it has not come " +
			"10 seconds after it was due, while nothing else comes.",
		example: "--spawn -n 100000 --min 1s --max 10s",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Delayed{Jobs: defaultJobs()}
			f.DurationVar(&s.Min, "min", 100*time.Millisecond, "shortest `DELAY`")
			f.DurationVar(&s.Max, "max", 2*time.Second, "longest `DELAY`")
			defineJobs(f, &s.Jobs)
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}

func newLeases() *cobra.Command {
	return scenarioCommand{
		name: "leases", short: "items under leases; consumers forget some of them",
		about: "Consumers lease items and confirm them. One in four leases is extended before, and some items are " +
			"forgotten. Checks that nobody gets an item under the lease of somebody else, and that the server counts " +
			"deliveries. What is forgotten must come again, and what is confirmed must not.",
		example: "--spawn -n 100000 --lease 500ms --leak 0.1",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Leases{Jobs: defaultJobs()}
			f.DurationVar(&s.Lease, "lease", time.Second, "`TIME` of a lease")
			f.Float64Var(&s.Leak, "leak", 0.05, "`SHARE` of the deliveries that are forgotten")
			defineJobs(f, &s.Jobs)
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}

func newRetries() *cobra.Command {
	return scenarioCommand{
		name: "retries", short: "jobs that fail, come again, or are dead letters",
		about: "Jobs fail some times before they are done, and go back with a delay, longer each time. Some are rejected " +
			"in the end. Checks that none comes before its delay is over, and that the server counts deliveries. The " +
			"dead-letter queue, whose name ends in _dead, must have what was rejected, once.",
		example: "--spawn -n 100000 --fails 3 --backoff 200ms",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			s := scenario.Retries{Jobs: defaultJobs()}
			f.IntVar(&s.Fails, "fails", 3, "`NUMBER` of times that a job fails at most")
			f.DurationVar(&s.Backoff, "backoff", 100*time.Millisecond, "`DELAY` after the first failure; n times as long after the n-th")
			f.IntVar(&s.Reject, "reject", 10, "one of this `NUMBER` of jobs is rejected in the end; 0: none")
			defineJobs(f, &s.Jobs)
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}
