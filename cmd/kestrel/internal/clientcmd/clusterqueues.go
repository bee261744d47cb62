package clientcmd

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// share is what one server holds of a queue, in JSON.
type share struct {
	Server    string `json:"server"`
	Items     int64  `json:"items"`
	Bytes     int64  `json:"bytes"`
	OpenReads int64  `json:"open_reads"`
	AgeMillis int64  `json:"age_ms"`
}

// spread is a queue on all servers.
type spread struct {
	sample.Queue
	shares []share // of the servers that have it
}

// spreads returns the queues that match patterns, and why servers did not answer. It has printed nothing.
func (s *session) spreads(patterns []string) ([]spread, error) {
	if err := checkPatterns(patterns); err != nil {
		return nil, err
	}
	taken := sample.Take(s.ctx, s.client)
	by := make(map[string][]share)
	for _, server := range taken.Servers {
		for _, q := range server.Queues {
			by[q.Name] = append(by[q.Name], shareOf(server.Server, q))
		}
	}
	var all []spread
	for _, q := range taken.Queues {
		if matches(q.Name, patterns) {
			all = append(all, spread{q, by[q.Name]})
		}
	}
	return all, s.unanswered(taken.Servers)
}

func shareOf(server string, q client.QueueStats) share {
	return share{server, q.Items, q.Bytes, q.OpenReads, q.Age.Milliseconds()}
}

func newClusterItems() *cobra.Command {
	return command{
		group: "cluster",
		usage: "items [PATTERN...] [flags]",
		short: "what queues hold on all servers, and where most of it is",
		about: `Lists the queues whose names match one of the patterns, or all, those with most items first. It shows
items, open items and bytes on all servers, and which server holds most. --bytes sorts by bytes. JSON has what each server holds.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ kestrel put mails hello
1 item put into "mails"
$ kestrel cluster items
QUEUE  ITEMS  OPEN  BYTES  SERVERS  MOST  ON
work       2     0   10 B        1     2  127.0.0.1:…
mails      1     0    5 B        1     1  127.0.0.1:…
`,
		args: args{0, -1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			byBytes := f.Bool("bytes", false, "sort by bytes")
			return func(s *session, patterns []string) error {
				all, away := s.spreads(patterns)
				size := func(q *spread) int64 {
					if *byBytes {
						return q.Bytes
					}
					return q.Items
				}
				slices.SortStableFunc(all, func(a, b spread) int { return cmp.Compare(size(&b), size(&a)) })
				type view struct {
					queueView
					On []share `json:"on"`
				}
				views := []view{}
				rows := [][]string{{"QUEUE", "ITEMS", "OPEN", "BYTES", "SERVERS", "MOST", "ON"}}
				for _, q := range all {
					views = append(views, view{viewOf(q.Queue), q.shares})
					most := slices.MaxFunc(q.shares, func(a, b share) int { return cmp.Compare(a.Items, b.Items) })
					rows = append(rows, []string{cli.OneLine(q.Name), figures.Thousands(q.Items), figures.Thousands(q.OpenReads),
						figures.Bytes(q.Bytes), fmt.Sprint(len(q.shares)), figures.Thousands(most.Items), most.Server})
				}
				return s.listed(views, rows, away)
			}
		},
	}.cobra()
}

// listed prints a list as JSON or as a table, and returns what was away meanwhile.
func (s *session) listed(views any, rows [][]string, away error) error {
	if _, wrong := away.(*usageError); wrong {
		return away
	}
	if s.json {
		s.print(views)
	} else {
		s.table(rows)
	}
	return away
}

func newClusterAge() *cobra.Command {
	return command{
		group: "cluster",
		usage: "age [PATTERN...] [flags]",
		short: "how far the consumers of queues are behind, and where",
		about: `Lists queues, those whose consumers are furthest behind first: the highest AGE of all servers and where that is, and
the lowest. AGE is how long ago the item that was taken last was put. While nobody has taken any, it is the age of the item at
the head. A wide gap between the two means that consumers leave one server alone.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel cluster age
QUEUE  OLDEST  YOUNGEST  ITEMS  ON
work   …             …       1  127.0.0.1:…
`,
		args: args{0, -1, ""},
		define: func(*pflag.FlagSet) func(s *session, args []string) error {
			return func(s *session, patterns []string) error {
				all, away := s.spreads(patterns)
				type view struct {
					Queue    string `json:"queue"`
					Oldest   int64  `json:"oldest_ms"`
					On       string `json:"on"`
					Youngest int64  `json:"youngest_ms"`
					Items    int64  `json:"items"`
				}
				views := []view{}
				rows := [][]string{{"QUEUE", "OLDEST", "YOUNGEST", "ITEMS", "ON"}}
				for _, q := range all {
					byAge := func(a, b share) int { return cmp.Compare(a.AgeMillis, b.AgeMillis) }
					old, young := slices.MaxFunc(q.shares, byAge), slices.MinFunc(q.shares, byAge)
					views = append(views, view{q.Name, old.AgeMillis, old.Server, young.AgeMillis, q.Items})
				}
				slices.SortStableFunc(views, func(a, b view) int { return cmp.Compare(b.Oldest, a.Oldest) })
				for _, v := range views {
					rows = append(rows, []string{cli.OneLine(v.Queue), ageOf(v.Oldest), ageOf(v.Youngest),
						figures.Thousands(v.Items), v.On})
				}
				return s.listed(views, rows, away)
			}
		},
	}.cobra()
}

func newClusterStale() *cobra.Command {
	return command{
		group: "cluster",
		usage: "stale [PATTERN...] [flags]",
		short: "queues that nothing happens to",
		about: `Looks --rounds times, and lists the queues that nothing happened to meanwhile on any server: nothing was put, taken,
opened, confirmed or discarded. Those with items have lost their consumers; those without are of no use any more.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel cluster stale --rounds 2 --interval 100ms
QUEUE  ITEMS  OPEN  BYTES   AGE  SERVERS
work       1     0    5 B  …           1
`,
		args: args{0, -1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			rounds := f.Int("rounds", 5, "look `N` times")
			interval := f.Duration("interval", 5*time.Second, "time between two looks")
			return func(s *session, patterns []string) error {
				if *rounds < 2 || *interval < 10*time.Millisecond {
					return misused("--rounds is 2 or more and --interval 10ms or more")
				}
				return s.stale(patterns, *rounds, *interval)
			}
		},
	}.cobra()
}

// happened is what changes when something happens to a queue.
type happened struct{ items, bytes, puts, opened, returned, open, flushes, discarded int64 }

func happenedTo(q sample.Queue) happened {
	return happened{q.Items, q.Bytes, q.Puts, q.Opened, q.Returned, q.OpenReads, q.Flushes, q.Discarded + q.Expired}
}

// stale looks some times, and prints the queues that stay as they were at first. A queue is judged by the looks in
// which all servers answered that answered at first.
func (s *session) stale(patterns []string, rounds int, interval time.Duration) error {
	all, away := s.spreads(patterns)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for round := 1; round < rounds && len(all) > 0; round++ {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return cli.Failed("a signal ended this after %s", cli.Counted(round, "look"))
		}
		now, awayNow := s.spreads(patterns)
		away = cmpError(away, awayNow)
		kept := make(map[string]sample.Queue)
		for _, q := range now {
			kept[q.Name] = q.Queue
		}
		all = slices.DeleteFunc(all, func(q spread) bool {
			later, ok := kept[q.Name]
			return !ok || happenedTo(later) != happenedTo(q.Queue)
		})
	}
	views := []queueView{}
	rows := [][]string{{"QUEUE", "ITEMS", "OPEN", "BYTES", "AGE", "SERVERS"}}
	for _, q := range all {
		views = append(views, viewOf(q.Queue))
		rows = append(rows, []string{cli.OneLine(q.Name), figures.Thousands(q.Items), figures.Thousands(q.OpenReads),
			figures.Bytes(q.Bytes), cli.Age(q.Age), fmt.Sprint(len(q.Servers))})
	}
	return s.listed(views, rows, away)
}

func newClusterFlush() *cobra.Command {
	return command{
		group: "cluster",
		usage: "flush QUEUE... [flags]",
		short: "discard the items of queues on every server",
		about: `Discards all items that are queued, on every server that answers, and says for each what that was. Items that are
open with a reader stay. A server that is away keeps its items: then the exit status is 1. The command says what there is and asks
first; without a terminal it needs --yes.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ kestrel cluster flush work --yes
QUEUE  DISCARDED  BYTES  ON
work           2   10 B  127.0.0.1:…
`,
		args: args{1, -1, "a queue"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			yes := f.BoolP("yes", "y", false, yesUsage)
			return func(s *session, names []string) error { return s.flushEverywhere(names, *yes) }
		},
	}.cobra()
}

// flushEverywhere flushes queues on the servers that answer.
func (s *session) flushEverywhere(names []string, yes bool) error {
	taken := sample.Take(s.ctx, s.client)
	away := s.unanswered(taken.Servers)
	type view struct {
		Queue     string `json:"queue"`
		Server    string `json:"server"`
		Discarded int64  `json:"discarded"`
		Bytes     int64  `json:"bytes"`
	}
	views := []view{}
	rows := [][]string{{"QUEUE", "DISCARDED", "BYTES", "ON"}}
	for _, name := range names {
		q, ok := taken.Find(name)
		if !ok {
			return cmpError(away, cli.Failed("there is no queue %q; 'kestrel cluster items' lists them all", name))
		}
		if err := s.confirm(describe(q)+": flush it?", yes); err != nil {
			return err
		}
		sub, err := s.of(q.Servers)
		if err != nil {
			return err
		}
		err = sub.client.Flush(s.ctx, name)
		sub.client.Close()
		if err != nil {
			return err
		}
		for _, server := range taken.Servers {
			at := slices.IndexFunc(server.Queues, func(one client.QueueStats) bool { return one.Name == name })
			if at < 0 {
				continue
			}
			one := server.Queues[at]
			views = append(views, view{name, server.Server, one.Items, one.Bytes})
			rows = append(rows, []string{cli.OneLine(name), figures.Thousands(one.Items), figures.Bytes(one.Bytes), server.Server})
		}
	}
	return s.listed(views, rows, away)
}
