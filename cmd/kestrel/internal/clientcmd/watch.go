package clientcmd

import (
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

type watchFlags struct {
	interval time.Duration
	count    int
}

func newWatch() *cobra.Command {
	return command{
		usage: "watch [PATTERN...] [flags]",
		short: "print what happens to queues, line by line",
		about: `Prints a line every second for each queue that matches a pattern: the items put and gone in a second, and what the
queue holds. It goes on until a signal ends it, or --count does. 'kestrel top' shows the same
on a screen.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel watch work --interval 100ms --count 1
TIME           IN/s     OUT/s       ITEMS       BYTES        AGE  WAITING     OPEN  QUEUE
…                 0         0           1         5 B  …                0        0  work
`,
		args: args{0, -1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			w := new(watchFlags)
			f.DurationVar(&w.interval, "interval", time.Second, "time between the lines of a queue")
			f.IntVarP(&w.count, "count", "n", 0, "`NUMBER` of lines for each queue (default no limit)")
			return w.run
		},
	}.cobra()
}

func (w *watchFlags) run(s *session, patterns []string) error {
	if err := checkPatterns(patterns); err != nil {
		return err
	}
	if w.count < 0 {
		return misused("--count is a number above zero, and not %d", w.count)
	}
	if w.interval < 10*time.Millisecond {
		return misused("--interval is a time of 10ms or more, and not %v", w.interval)
	}
	last := sample.Take(s.ctx, s.client)
	if err := last.Err(); err != nil {
		if !last.Answered() || s.ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(s.err, "kestrel: %s\n", cli.ErrorLine(err))
	}
	if !s.json {
		s.cells(func(c watchColumn) string { return c.title }, "QUEUE")
		s.out.Flush()
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for n := 0; w.count == 0 || n < w.count; n++ {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return nil
		}
		now := sample.Take(s.ctx, s.client)
		if s.ctx.Err() != nil {
			return nil
		}
		if err := now.Err(); err != nil {
			fmt.Fprintf(s.err, "kestrel: %s\n", cli.ErrorLine(err))
		}
		for _, q := range now.Queues {
			if matches(q.Name, patterns) {
				s.line(now, last, q)
			}
		}
		if err := s.out.Flush(); err != nil {
			return cli.Failed("write what happens to standard output: %v", err)
		}
		last = now
	}
	return nil
}

// line prints what happened to a queue between two samples.
func (s *session) line(now, last sample.Sample, q sample.Queue) {
	rates := now.Since(last, q.Name)
	if s.json {
		s.print(struct {
			Time time.Time `json:"time"`
			In   float64   `json:"in_per_s"`
			Out  float64   `json:"out_per_s"`
			queueView
		}{now.At, rates.In, rates.Out, viewOf(q)})
		return
	}
	s.cells(func(c watchColumn) string { return c.text(now.At, rates, q) }, cli.OneLine(q.Name))
}

// watchColumn is a column of watch. Lines are printed one by one, so its width is fixed.
type watchColumn struct {
	title string
	width int // with the space before; negative: to the left
	least int // a narrower terminal goes without
	text  func(at time.Time, r sample.Rates, q sample.Queue) string
}

// watchColumns are those before the name, which has what is left.
var watchColumns = [...]watchColumn{
	{"TIME", -8, 45, func(at time.Time, _ sample.Rates, _ sample.Queue) string { return at.Format("15:04:05") }},
	{"IN/s", 11, 0, func(_ time.Time, r sample.Rates, _ sample.Queue) string { return figures.Thousands(int64(r.In)) }},
	{"OUT/s", 10, 55, func(_ time.Time, r sample.Rates, _ sample.Queue) string { return figures.Thousands(int64(r.Out)) }},
	{"ITEMS", 12, 0, func(_ time.Time, _ sample.Rates, q sample.Queue) string { return figures.Thousands(q.Items) }},
	{"BYTES", 12, 87, func(_ time.Time, _ sample.Rates, q sample.Queue) string { return figures.Bytes(q.Bytes) }},
	{"AGE", 11, 66, func(_ time.Time, _ sample.Rates, q sample.Queue) string { return cli.Age(q.Age) }},
	{"WAITING", 9, 96, func(_ time.Time, _ sample.Rates, q sample.Queue) string { return figures.Thousands(q.Waiters) }},
	{"OPEN", 9, 75, func(_ time.Time, _ sample.Rates, q sample.Queue) string { return figures.Thousands(q.OpenReads) }},
}

// cells prints a line of watch: the columns that the terminal has room for, and a name.
func (s *session) cells(text func(c watchColumn) string, name string) {
	width := s.screenWidth()
	left := width
	for _, c := range watchColumns {
		if width == 0 || width >= c.least {
			fmt.Fprintf(s.out, "%*s", c.width, text(c))
			left -= max(c.width, -c.width)
		}
	}
	if width > 0 {
		name = ansi.Truncate(name, max(left-2, leastName), "…")
	}
	fmt.Fprintf(s.out, "  %s\n", name)
}
