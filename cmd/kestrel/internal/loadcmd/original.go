package loadcmd

import (
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

// The scenarios of the original, with its letters for their options.

func newPutMany() *cobra.Command {
	return scenarioCommand{
		name: "put-many", short: "how fast items are accepted, and fetched again",
		about: "Clients put items as fast as the server takes them. With --get they then fetch all of " +
			"them again, and every item must be there, once, in order.",
		example: "--get --spawn -c 50 -n 200000 -r 16",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			var s scenario.PutMany
			f.IntVarP(&s.Clients, "clients", "c", 100, "`NUMBER` of clients, each with a connection")
			f.Int64VarP(&s.Items, "items", "n", 10000,
				"`NUMBER` of items in all; each client puts an equal share, rounded down")
			f.IntVarP(&s.Size, "bytes", "b", 1024, "`BYTES` of an item")
			f.IntVarP(&s.Burst, "burst", "r", 1,
				"`NUMBER` of items sent before their replies are awaited; with --thrift, of one put")
			f.StringVarP(&s.Queue, "queue", "q", "spam", "`NAME` of the queue, or how the names begin")
			f.IntVarP(&s.Queues, "queues", "Q", 1,
				"`NUMBER` of queues; of several, client i uses number i modulo this")
			f.BoolVarP(&s.Get, "get", "g", false, "fetch everything again afterwards")
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}

func newManyClients() *cobra.Command {
	return scenarioCommand{
		name: "many-clients", short: "one producer, many consumers that wait",
		about: "One producer puts an item every so often; many consumers wait for it, a second at a " +
			"time. With --kill they break connections that have a request on the way, and still no item " +
			"may be lost.",
		example: "--spawn -c 1000 -s 1 -n 5000",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			var s scenario.ManyClients
			sleep := f.Int64P("sleep", "s", 100, "`MS` between two puts")
			f.Int64VarP(&s.Items, "items", "n", 100, "`NUMBER` of items")
			f.IntVarP(&s.Size, "bytes", "b", 64, "`BYTES` of an item")
			f.StringVarP(&s.Queue, "queue", "q", "spam", "`NAME` of the queue")
			f.IntVarP(&s.Clients, "clients", "c", 100, "`NUMBER` of consumers")
			f.IntVarP(&s.Kill, "kill", "k", 0,
				"`PERCENT` of requests right after which a consumer breaks its connection; implies -x")
			f.BoolVarP(&s.Reliable, "reliable", "x", false, "confirm items: get/t=1000/close/open")
			return func() (scenario.Scenario, error) {
				s.Sleep = milliseconds(*sleep)
				return s, nil
			}
		},
	}.command()
}

// milliseconds returns a duration, as long as there can be one.
func milliseconds(n int64) time.Duration {
	return time.Duration(max(min(n, math.MaxInt64/int64(time.Millisecond)), -1)) * time.Millisecond
}

func newFlood() *cobra.Command {
	return scenarioCommand{
		name: "flood", short: "producers and consumers at full speed",
		about: "Producers put and consumers get, all at once and as fast as they can. With --rollup " +
			"items are put in bursts and fetched with MONITOR and CONFIRM. The server must allow as many " +
			"open reads (max_open_transactions), or consumers get them in smaller lots.",
		example: "--spawn -n 1000000 -R 8 -C 8 -B",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			var s scenario.Flood
			f.Int64VarP(&s.Items, "items", "n", 10000,
				"`NUMBER` of items; each producer and each consumer has its part")
			kB := f.IntP("kilobytes", "k", 1, "`KB` of an item")
			size := f.IntP("bytes", "b", 0, "`BYTES` of an item, in place of --kilobytes")
			f.StringVarP(&s.Queue, "queue", "q", "spam", "`NAME` of the queue")
			f.Int64VarP(&s.Prefill, "prefill", "P", 0, "`NUMBER` of items put before")
			f.IntVarP(&s.Producers, "producers", "R", 1, "`NUMBER` of producers")
			f.IntVarP(&s.Consumers, "consumers", "C", 1, "`NUMBER` of consumers")
			f.IntVarP(&s.Rollup, "rollup", "r", 1, "`NUMBER` of items put, and fetched, at a time")
			f.BoolVarP(&s.Blocking, "blocking", "B", false,
				"consumers wait for items, in place of asking again and again")
			return func() (scenario.Scenario, error) {
				s.Size = kilobytes(*kB)
				if *size != 0 {
					s.Size = *size
				}
				return s, nil
			}
		},
	}.command()
}

// kilobytes returns a size in bytes; what is too much stays too much.
func kilobytes(n int) int { return min(n, math.MaxInt32) * 1024 }

func newPacking() *cobra.Command {
	return scenarioCommand{
		name: "packing", short: "a queue that is always behind",
		about: "Puts a cycle of items ahead. Then it puts and gets as many at the same time, cycle after " +
			"cycle, and gets the rest at the end. So the queue is never empty, and what is read lies in " +
			"the middle of the journal. Checks the order over the whole run.",
		example: "--spawn -c 10 -n 100000 -t 0",
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			var s scenario.Packing
			f.StringVarP(&s.Queue, "queue", "q", "spam", "`NAME` of the queue")
			f.Int64VarP(&s.Items, "items", "n", 25000, "`NUMBER` of items of a cycle")
			kB := f.IntP("kilobytes", "k", 1, "`KB` of an item")
			pause := f.Int64P("pause", "t", 1, "`SECONDS` between two cycles")
			f.IntVarP(&s.Cycles, "cycles", "c", 100, "`NUMBER` of cycles")
			return func() (scenario.Scenario, error) {
				s.Size = kilobytes(*kB)
				s.Pause = milliseconds(min(*pause, math.MaxInt64/1000) * 1000)
				return s, nil
			}
		},
	}.command()
}

func newLeakyReader() *cobra.Command {
	return scenarioCommand{
		name: "leaky-reader", short: "consumers that forget some of what they read (Thrift)",
		about: "Consumers read items tentatively, for five seconds, and confirm them, but for a share " +
			"that they forget. Those must come again, and in the end none may be missing. The command says " +
			"that it is the client load-test.",
		example: "--spawn -n 20000 -d 0.05 -t 4", thriftOnly: true,
		define: func(f *pflag.FlagSet) func() (scenario.Scenario, error) {
			var s scenario.LeakyReader
			f.Int64VarP(&s.Items, "items", "n", 1000, "`NUMBER` of items")
			f.Float64VarP(&s.Rate, "rate", "d", 0.01, "`SHARE` of the items that is forgotten")
			f.StringVarP(&s.Queue, "queue", "q", "spam-thrift", "`NAME` of the queue")
			f.IntVarP(&s.Threads, "consumers", "t", 1, "`NUMBER` of consumers")
			f.BoolVarP(&s.Verbose, "verbose", "v", false, "print each open and each confirm")
			return func() (scenario.Scenario, error) { return s, nil }
		},
	}.command()
}
