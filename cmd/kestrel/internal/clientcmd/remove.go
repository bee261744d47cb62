package clientcmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

const yesUsage = "do not ask"

func newFlush() *cobra.Command {
	return command{
		usage: "flush QUEUE... [flags]",
		short: "discard the items of queues",
		about: `Discards all items that are queued, on every server. Items that are open with a reader stay, and come back if it
fails. The command says what there is and asks first; without a terminal it needs --yes.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ kestrel flush work --yes
"work": 2 items (10 B) discarded
$ kestrel get work
kestrel: get from "work": there is no item
`,
		args:   args{1, -1, "a queue"},
		define: defineRemoval("flush", "discarded", (*session).flush),
	}.cobra()
}

func newDelete() *cobra.Command {
	return command{
		usage: "delete QUEUE... [flags]",
		short: "remove queues, with what is in them",
		about: `Removes queues on every server, with their items, those that are open included. The next put makes a queue anew,
with its counters at 0. The command says what there is and asks first; without a terminal it needs --yes.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ kestrel delete work --yes
"work": 2 items (10 B) deleted
$ kestrel stat work
kestrel: there is no queue "work"; 'kestrel ls' lists them all
`,
		args:   args{1, -1, "a queue"},
		define: defineRemoval("delete", "deleted", (*session).remove),
	}.cobra()
}

func (s *session) flush(queue string) error  { return s.client.Flush(s.ctx, queue) }
func (s *session) remove(queue string) error { return s.client.Delete(s.ctx, queue) }

// defineRemoval returns what defines a command that destroys the items of queues.
func defineRemoval(verb, done string, do func(s *session, queue string) error) func(f *pflag.FlagSet) func(*session, []string) error {
	return func(f *pflag.FlagSet) func(s *session, args []string) error {
		yes := f.BoolP("yes", "y", false, yesUsage)
		return func(s *session, names []string) error {
			taken := sample.Take(s.ctx, s.client)
			if err := taken.Err(); err != nil {
				return err
			}
			for _, name := range names {
				q, ok := taken.Find(name)
				if !ok {
					return cli.Failed("there is no queue %q; 'kestrel ls' lists them all", name)
				}
				if err := s.confirm(fmt.Sprintf("%s: %s it?", describe(q), verb), *yes); err != nil {
					return err
				}
				if err := do(s, name); err != nil {
					return err
				}
				if s.json {
					s.print(viewOf(q))
					continue
				}
				fmt.Fprintf(s.out, "%q: %s (%s) %s\n", name, cli.Counted(q.Items, "item"), figures.Bytes(q.Bytes), done)
			}
			return nil
		}
	}
}

// describe says what a queue holds.
func describe(q sample.Queue) string {
	text := fmt.Sprintf("%q has %s (%s)", q.Name, cli.Counted(q.Items, "item"), figures.Bytes(q.Bytes))
	if q.OpenReads > 0 {
		text += fmt.Sprintf(", and %s open with readers", figures.Thousands(q.OpenReads))
	}
	if len(q.Servers) > 1 {
		text += fmt.Sprintf(", on %d servers", len(q.Servers))
	}
	return text
}

// errDeclined says that somebody answered no.
var errDeclined = errors.New("nothing was done")

// confirm asks whether to go on, unless yes has been said. It returns an error if not.
func (s *session) confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !cli.IsTerminal(s.in) || !cli.IsTerminal(s.err) {
		return misused("%s There is no terminal to ask on: say --yes if that is meant", question)
	}
	s.out.Flush()
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(cli.Heed(s.ctx, s.in)).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}
