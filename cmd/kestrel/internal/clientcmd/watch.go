package clientcmd

import (
	"fmt"
	"time"

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
	if w.interval < 10*time.Millisecond {
		return misused("--interval is a time of 10ms or more, and not %v", w.interval)
	}
	last := sample.Take(s.ctx, s.client)
	if err := last.Err(); err != nil {
		return err
	}
	if !s.json {
		fmt.Fprintf(s.out, "%-8s %10s%10s%12s%12s%11s%9s%9s  %s\n", "TIME", "IN/s", "OUT/s", "ITEMS", "BYTES", "AGE", "WAITING", "OPEN", "QUEUE")
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
			fmt.Fprintf(s.err, "kestrel: %s\n", cli.OneLine(err.Error()))
		}
		for _, q := range now.Queues {
			if matches(q.Name, patterns) {
				s.line(now, last, q)
			}
		}
		if err := s.out.Flush(); err != nil {
			return err
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
	fmt.Fprintf(s.out, "%s %10s%10s%12s%12s%11s%9s%9s  %s\n", now.At.Format("15:04:05"), figures.Thousands(int64(rates.In)),
		figures.Thousands(int64(rates.Out)), figures.Thousands(q.Items), figures.Bytes(q.Bytes), cli.Age(q.Age),
		figures.Thousands(q.Waiters), figures.Thousands(q.OpenReads), cli.OneLine(q.Name))
}
