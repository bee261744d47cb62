package clientcmd

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	tea "charm.land/bubbletea/v2"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/top"
)

// pictureWidth is how wide `top --once` draws.
const pictureWidth = 100

type topFlags struct {
	interval time.Duration
	filter   string
	once     bool
	admin    string
}

func newTop() *cobra.Command {
	return command{
		usage: "top [flags]",
		short: "watch queues on a screen: rates, backlog, age, readers",
		about: `Shows all queues on the terminal. For each it shows the items put and gone in a second, what it holds, how far
consumers are behind, waiting readers, and open items. Keys sort and filter the queues, and look into one: ? lists the
keys. c shows who holds items of a queue or waits for it: the admin port of one server says so.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel top --once --interval 100ms
kestrel top  …
1 queue, 1 item, 5 B, in 0/s, out 0/s

QUEUE                                IN/s     OUT/s       ▼ITEMS      BYTES     AGE  WAITING    OPEN
work                                    0         0            1        5 B  …              0       0
`,
		args: args{0, 0, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			t := new(topFlags)
			f.DurationVar(&t.interval, "interval", time.Second, "time between looks")
			f.StringVar(&t.filter, "filter", "", "show only queues whose names contain `TEXT`")
			f.StringVar(&t.admin, "admin", "", adminUsage)
			f.BoolVar(&t.once, "once", false, "print one picture and end; needs no terminal")
			return t.run
		},
	}.cobra()
}

func (t *topFlags) run(s *session, _ []string) error {
	switch {
	case t.interval < 100*time.Millisecond || t.interval > time.Minute:
		return misused("--interval is a time from 100ms to 1m, and not %v", t.interval)
	case s.json:
		return misused("'kestrel top' is for people: 'kestrel watch --output json' is for programs")
	case !t.once && (!cli.IsTerminal(s.in) || !cli.IsTerminal(s.screen)):
		return misused("'kestrel top' needs a terminal; --once prints one picture without, and 'kestrel watch' lines")
	}
	take := func(ctx context.Context) sample.Sample { return sample.Take(ctx, s.client) }
	port := s.adminPort(cmp.Or(t.admin, os.Getenv(cli.AdminVariable), cli.DefaultAdmin))
	opts := top.Options{
		Interval: t.interval, Filter: t.filter, Address: strings.Join(s.client.Members().Read, ","),
		Connections: func(ctx context.Context, queue string) (top.Connections, error) {
			return port.connectionsOf(ctx, s.within, queue)
		},
	}
	if t.once {
		picture, err := top.Once(s.ctx, take, opts, cmp.Or(s.screenWidth(), pictureWidth))
		if picture == "" {
			return err
		}
		for line := range strings.Lines(picture + "\n") {
			s.out.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		return err
	}
	if first := take(s.ctx); first.Err() != nil && len(first.Queues) == 0 {
		return first.Err()
	}
	if err := top.Run(s.ctx, take, opts, tea.WithInput(s.in), tea.WithOutput(s.screen)); err != nil {
		return cli.Failed("draw on the terminal: %v", err)
	}
	return nil
}

// mostConnections is how many connections of a queue the screen gets.
const mostConnections = 100

// connectionsOf asks which connections hold items of a queue or wait for it, for the screen.
func (a adminPort) connectionsOf(ctx context.Context, within time.Duration, queue string) (c top.Connections, err error) {
	answer, err := a.connections(ctx, within,
		url.Values{"queue": {queue}, "order": {"oldest"}, "limit": {strconv.Itoa(mostConnections)}})
	if err != nil {
		return c, err
	}
	c.Matched = answer.matched
	millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, one := range answer.list {
		c.List = append(c.List, top.Connection{
			Number: one.Number, Peer: one.Peer, Protocol: one.Protocol, Age: millis(one.Age), Idle: millis(one.Idle),
			Requests: one.Requests, Holds: one.ByQueue[queue], Oldest: millis(one.OldestBy[queue]), Waits: one.Waiting == queue,
		})
	}
	return c, nil
}
