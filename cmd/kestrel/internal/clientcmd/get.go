package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// openAtOnce is how many items are opened together at most.
const openAtOnce = 100

type getFlags struct {
	count    int
	all      bool
	wait     time.Duration
	null     bool
	exec     string
	parallel int
	grace    time.Duration
}

func newGet() *cobra.Command {
	return command{
		usage: "get QUEUE [flags]",
		short: "take items from a queue, or run a command for each",
		about: `Takes items from a queue and prints each with a line end. An item is gone from its queue once it has been
written to standard output: if that fails, it is delivered again.

With --exec a shell runs COMMAND for each item. The item is its standard input. Exit status 0 confirms the item. Any
other gives it back after a while, and then it is delivered again. That is a worker in one line: it goes on until a
signal ends it, or --count or --wait do. It then waits for the commands that run.`,
		examples: `$ kestrel put work one two three
3 items put into "work"
$ kestrel get work
one
$ kestrel get work --exec 'tr a-z A-Z; echo' --wait 1s
TWO
THREE
2 items done
$ kestrel get work
kestrel: get from "work": there is no item
`,
		args: args{1, 1, "a queue"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			g := new(getFlags)
			f.IntVarP(&g.count, "count", "n", 0, "`NUMBER` of items at most (default 1, with --exec no limit)")
			f.BoolVar(&g.all, "all", false, "all items, until there is none")
			f.DurationVar(&g.wait, "wait", 0, "how long to wait for an item when there is none (with --exec: default for ever)")
			f.BoolVarP(&g.null, "null", "0", false, "print a NUL behind each item, and not a line end")
			f.StringVar(&g.exec, "exec", "", "run `COMMAND` for each item")
			f.IntVarP(&g.parallel, "parallel", "P", 1, "`NUMBER` of commands at the same time")
			f.DurationVar(&g.grace, "grace", 30*time.Second, "how long commands may go on after a signal")
			return func(s *session, args []string) error {
				if f.Changed("exec") && g.exec == "" {
					return misused("--exec needs a command") // of a variable that is not set: it would print items, and take them
				}
				return g.run(s, args)
			}
		},
	}.cobra()
}

func (g *getFlags) run(s *session, args []string) error {
	switch {
	case g.count < 0:
		return misused("--count is a number above zero, and not %d", g.count)
	case g.wait < 0:
		return misused("--wait is a time, and not %v", g.wait)
	case g.all && g.count > 0:
		return misused("--all and --count exclude each other")
	case g.parallel < 1:
		return misused("--parallel is a number above zero, and not %d", g.parallel)
	case g.exec == "" && g.parallel > 1:
		return misused("--parallel is about the commands of --exec")
	case g.exec != "" && (g.null || s.json):
		return misused("with --exec, the commands print and not kestrel: --null and --output json say nothing")
	}
	if g.exec != "" {
		return g.work(s, args[0])
	}
	if err := cli.CheckOutput(s.screen); err != nil {
		return err
	}
	most := g.count
	if most == 0 && !g.all {
		most = 1
	}
	got := 0
	for most == 0 || got < most {
		n := openAtOnce
		if most > 0 {
			n = min(n, most-got)
		}
		b, err := s.client.OpenBatch(s.ctx, args[0], n, g.wait)
		if errors.Is(err, client.ErrEmpty) && got > 0 {
			return nil
		}
		if err != nil {
			return wordAs("get from", err)
		}
		if err := s.pass(b, g.null); err != nil {
			return err
		}
		got += len(b.Items)
	}
	return nil
}

// pass prints the items of a batch, and confirms them once they are written.
func (s *session) pass(b *client.Batch, null bool) error {
	for _, item := range b.Items {
		switch {
		case s.json:
			s.print(itemView(b.Queue, b.Server, item))
		case null:
			s.out.Write(item.Data)
			s.out.WriteByte(0)
		default:
			s.out.Write(item.Data)
			s.out.WriteByte('\n')
		}
	}
	s.place.answered = true
	if err := s.out.Flush(); err != nil {
		b.Abort(context.WithoutCancel(s.ctx))
		return fmt.Errorf("write items to standard output: %w; the items are in the queue again", err)
	}
	return b.Confirm(context.WithoutCancel(s.ctx)) // what is written is done, signal or not
}

// viewed is an item in JSON: its data as text, or in base64 if it is not UTF-8.
type viewed struct {
	Queue  string  `json:"queue"`
	Server string  `json:"server,omitempty"`
	Flags  uint32  `json:"flags"`
	Data   *string `json:"data,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

func itemView(queue, server string, item client.Item) viewed {
	v := viewed{Queue: queue, Server: server, Flags: item.Flags}
	if utf8.Valid(item.Data) {
		text := string(item.Data)
		v.Data = &text
	} else {
		v.Base64 = item.Data
	}
	return v
}

// wordAs says what a command was about, which is an open or a list to the package.
func wordAs(op string, err error) error {
	var e *client.Error
	if errors.As(err, &e) {
		return &client.Error{Op: op, Queue: e.Queue, Server: e.Server, Err: e.Err}
	}
	return err
}
