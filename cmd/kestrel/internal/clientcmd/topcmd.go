package clientcmd

import (
	"context"
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
}

func newTop() *cobra.Command {
	return command{
		usage: "top [flags]",
		short: "watch queues on a screen: rates, backlog, age, readers",
		about: `Shows all queues on the terminal. For each it shows the items put and gone in a second, what it holds, how far
consumers are behind, waiting readers, and open items. Keys sort and filter the queues, and look into one: ? lists the
keys.`,
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
	opts := top.Options{Interval: t.interval, Filter: t.filter, Address: strings.Join(s.client.Members().Read, ",")}
	if t.once {
		picture, err := top.Once(s.ctx, take, opts, pictureWidth)
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
