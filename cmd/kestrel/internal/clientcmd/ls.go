package clientcmd

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// queueView is a queue in JSON.
type queueView struct {
	Queue        string   `json:"queue"`
	Servers      []string `json:"servers"`
	Items        int64    `json:"items"`
	Bytes        int64    `json:"bytes"`
	AgeMillis    int64    `json:"age_ms"`
	Waiters      int64    `json:"waiters"`
	OpenReads    int64    `json:"open_reads"`
	Delayed      int64    `json:"delayed"`
	Leased       int64    `json:"leased"`
	Puts         int64    `json:"puts"`
	Opened       int64    `json:"opened"`
	Returned     int64    `json:"returned"`
	DeadLettered int64    `json:"dead_lettered"`
	Redelivered  int64    `json:"redelivered"`
	Expired      int64    `json:"expired"`
	Discarded    int64    `json:"discarded"`
	Flushes      int64    `json:"flushes"`
	MemoryBytes  int64    `json:"memory_bytes"`
	DiskBytes    int64    `json:"disk_bytes"`
	Children     []string `json:"children,omitempty"`
}

func viewOf(q sample.Queue) queueView {
	return queueView{Queue: q.Name, Servers: q.Servers, Items: q.Items, Bytes: q.Bytes, AgeMillis: q.Age.Milliseconds(),
		Waiters: q.Waiters, OpenReads: q.OpenReads, Delayed: q.Delayed, Leased: q.Leased,
		DeadLettered: q.DeadLettered, Redelivered: q.Redelivered, Puts: q.Puts, Opened: q.Opened, Returned: q.Returned,
		Expired: q.Expired, Discarded: q.Discarded, Flushes: q.Flushes, MemoryBytes: q.MemoryBytes,
		DiskBytes: q.DiskBytes, Children: q.Children}
}

func newLs() *cobra.Command {
	return command{
		usage: "ls [PATTERN...] [flags]",
		short: "list queues, with what they hold",
		about: `Lists the queues whose names match one of the patterns, or all. AGE is how long ago the item that was taken last
was put: how far consumers are behind. WAITING counts readers that wait. OPEN counts items that a reader has not
confirmed yet, and LEASED those under a lease. DELAYED counts items that are hidden until they are due; ITEMS counts
these too. The command adds up the figures of several servers, and shows the highest AGE.

In a pattern * stands for any characters, ? for one.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ kestrel put work+audit hello
1 item put into "work+audit"
$ kestrel ls 'work*'
QUEUE       ITEMS  BYTES  AGE  WAITING  OPEN  LEASED  DELAYED
work            2   10 B  …          0     0       0        0
work+audit      1    5 B  …          0     0       0        0
`,
		args: args{0, -1, ""},
		define: func(*pflag.FlagSet) func(s *session, args []string) error {
			return func(s *session, patterns []string) error {
				if err := checkPatterns(patterns); err != nil {
					return err
				}
				taken := sample.Take(s.ctx, s.client)
				if err := taken.Err(); err != nil && len(taken.Queues) == 0 {
					return err
				}
				s.list(slices.DeleteFunc(taken.Queues, func(q sample.Queue) bool { return !matches(q.Name, patterns) }))
				return taken.Err()
			}
		},
	}.cobra()
}

// checkPatterns returns a mistake in the command line if one of patterns is none.
func checkPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return misused("%q is no pattern: %v", pattern, err)
		}
	}
	return nil
}

func matches(name string, patterns []string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return len(patterns) == 0
}

func (s *session) list(all []sample.Queue) {
	if s.json {
		views := []queueView{}
		for _, q := range all {
			views = append(views, viewOf(q))
		}
		s.print(views)
		return
	}
	rows := [][]string{{"QUEUE", "ITEMS", "BYTES", "AGE", "WAITING", "OPEN", "LEASED", "DELAYED"}}
	for _, q := range all {
		rows = append(rows, []string{cli.OneLine(q.Name), figures.Thousands(q.Items), figures.Bytes(q.Bytes), cli.Age(q.Age),
			figures.Thousands(q.Waiters), figures.Thousands(q.OpenReads), figures.Thousands(q.Leased),
			figures.Thousands(q.Delayed)})
	}
	s.table(rows)
}

func newStat() *cobra.Command {
	return command{
		usage: "stat [QUEUE...] [flags]",
		short: "show the figures of servers, or of queues",
		about: `Without QUEUE: what each server says of itself. With QUEUE: all figures of these queues, those of several
servers added up. Counters begin at 0 with the server's process.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ kestrel stat work
work
  items         2
  bytes         10 B
  age           …
  waiting       0
  open          0
  leased        0
  delayed       0
  redelivered   0
  dead letters  0
  puts          2
  opened        0
  returned      0
  expired       0
  discarded     0
  flushes       0
  memory        10 B
  disk          …
  servers       …
`,
		args: args{0, -1, ""},
		define: func(*pflag.FlagSet) func(s *session, args []string) error {
			return func(s *session, names []string) error {
				if len(names) == 0 {
					return s.showServers()
				}
				return s.showQueues(names)
			}
		},
	}.cobra()
}

func (s *session) showQueues(names []string) error {
	taken := sample.Take(s.ctx, s.client)
	failed := taken.Err()
	if !taken.Answered() {
		return failed
	}
	var views []queueView
	for _, name := range names {
		q, ok := taken.Find(name)
		if !ok {
			if failed != nil {
				return fmt.Errorf("no server that answers has a queue %q: %w", name, failed)
			}
			return cli.Failed("there is no queue %q; 'kestrel ls' lists them all", name)
		}
		views = append(views, viewOf(q))
		if s.json {
			continue
		}
		fmt.Fprintln(s.out, cli.OneLine(q.Name))
		for _, line := range [][2]string{
			{"items", figures.Thousands(q.Items)}, {"bytes", figures.Bytes(q.Bytes)}, {"age", cli.Age(q.Age)},
			{"waiting", figures.Thousands(q.Waiters)}, {"open", figures.Thousands(q.OpenReads)},
			{"leased", figures.Thousands(q.Leased)}, {"delayed", figures.Thousands(q.Delayed)},
			{"redelivered", figures.Thousands(q.Redelivered)}, {"dead letters", figures.Thousands(q.DeadLettered)},
			{"puts", figures.Thousands(q.Puts)}, {"opened", figures.Thousands(q.Opened)},
			{"returned", figures.Thousands(q.Returned)}, {"expired", figures.Thousands(q.Expired)},
			{"discarded", figures.Thousands(q.Discarded)}, {"flushes", figures.Thousands(q.Flushes)},
			{"memory", figures.Bytes(q.MemoryBytes)}, {"disk", figures.Bytes(q.DiskBytes)},
			{"children", strings.Join(q.Children, ", ")}, {"servers", strings.Join(q.Servers, ", ")},
		} {
			if line[1] != "" {
				fmt.Fprintf(s.out, "  %-12s  %s\n", line[0], line[1])
			}
		}
	}
	if s.json {
		s.print(views)
	}
	return failed
}

// serverView is a server in JSON.
type serverView struct {
	Server      string `json:"server"`
	Error       string `json:"error,omitempty"`
	Status      string `json:"status,omitempty"`
	Version     string `json:"version,omitempty"`
	UptimeSecs  int64  `json:"uptime_s"`
	Connections int64  `json:"connections"`
	Queues      int    `json:"queues"`
	Items       int64  `json:"items"`
	Bytes       int64  `json:"bytes"`
	Puts        int64  `json:"puts"`
	Gets        int64  `json:"gets"`
}

func viewOfServer(server client.ServerStats, status string) serverView {
	v := serverView{Server: server.Server, Status: status, Version: server.Version,
		UptimeSecs: int64(server.Uptime.Seconds()), Connections: server.Connections, Queues: len(server.Queues),
		Items: server.Items, Bytes: server.Bytes, Puts: server.Puts, Gets: server.Gets}
	if server.Err != nil {
		v.Error = server.Err.Error()
	}
	return v
}

func (s *session) showServers() error {
	status, _ := s.client.Status(s.ctx) // some have none
	var failed error
	views := []serverView{}
	rows := [][]string{{"SERVER", "STATUS", "VERSION", "UPTIME", "CONNECTIONS", "QUEUES", "ITEMS", "BYTES", "PUTS", "GETS"}}
	for _, server := range s.client.Stats(s.ctx) {
		v := viewOfServer(server, status[server.Server])
		failed = errors.Join(failed, server.Err)
		views = append(views, v)
		if server.Err == nil {
			rows = append(rows, []string{v.Server, cli.OrNone(v.Status), cli.OrNone(v.Version), cli.Age(server.Uptime),
				figures.Thousands(v.Connections), figures.Thousands(int64(v.Queues)), figures.Thousands(v.Items), figures.Bytes(v.Bytes),
				figures.Thousands(v.Puts), figures.Thousands(v.Gets)})
		}
	}
	if s.json {
		s.print(views)
	} else if len(rows) > 1 {
		s.table(rows)
	}
	return failed
}
