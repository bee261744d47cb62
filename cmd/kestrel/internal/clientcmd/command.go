package clientcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
)

// command describes one command. Define adds its own flags and returns what it does.
type command struct {
	group    string // that the command belongs to; "" for most
	usage    string // "put QUEUE [ITEM...] [flags]"
	short    string
	about    string // paragraphs
	examples string // a transcript: lines of "$ kestrel …", and what they print
	args     args
	define   func(f *pflag.FlagSet) func(s *session, args []string) error
}

// args says how many arguments a command takes.
type args struct {
	least, most int    // most is -1 for any number
	what        string // that they are: "a queue"
}

// cobra returns the command.
func (c command) cobra() *cobra.Command {
	cmd := &cobra.Command{Use: c.usage, Short: c.short, Annotations: map[string]string{kindKey: ""}}
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if len(given) < c.args.least {
			return fmt.Errorf("'%s' needs %s", cmd.CommandPath(), c.args.what)
		}
		if c.args.most >= 0 && len(given) > c.args.most {
			return fmt.Errorf("'%s' does not know what to do with %q", cmd.CommandPath(), given[c.args.most])
		}
		return nil
	}
	f := cmd.Flags()
	f.SortFlags = false
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	run := c.define(own)
	f.AddFlagSet(own)
	p := new(place)
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	shared.SortFlags = false
	p.define(shared)
	f.AddFlagSet(shared)
	f.Bool("help", false, "print this")
	cmd.Long = c.page(own, shared)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.run(cmd, args, run) }
	cmd.ValidArgsFunction = p.complete
	return cmd
}

// completeWithin is how long a server may take to name its queues for a completion.
const completeWithin = 2 * time.Second

// complete returns the names of queues, for a shell that completes a command line.
func (p *place) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	if p.resolve() != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	c, err := p.dial(ctx, p.server, completeWithin)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer c.Close()
	var names []string
	for _, q := range sample.Take(ctx, c).Queues {
		names = append(names, q.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// kindKey is the annotation of commands that are clients.
const kindKey = "client"

// IsClient reports whether cmd is one of this package.
func IsClient(cmd *cobra.Command) bool {
	_, ok := cmd.Annotations[kindKey]
	return ok
}

const exitPage = `
Exit status: 0 if all was done; 1 if the server could not be reached or failed;
2 if the command line is wrong; 5 if there was no item; 6 if a queue refused an
item; 7 if it is not known whether something was done; 8 if commands of
'get --exec' failed.
`

// page returns the help page.
func (c command) page(own, shared *pflag.FlagSet) string {
	var b strings.Builder
	usage := strings.TrimPrefix(c.group+" "+c.usage, " ")
	fmt.Fprintf(&b, "Usage:\n    kestrel %s\n\n%s\n", usage, cli.Wrap(c.about, "", 80))
	if own.HasFlags() {
		b.WriteString("\nFlags:\n")
		cli.WriteFlags(&b, own)
	}
	b.WriteString("\n  The servers, and the output\n")
	cli.WriteFlags(&b, shared)
	b.WriteString("\nExample:\n")
	for line := range strings.Lines(c.examples) {
		if line != "\n" {
			line = "    " + line
		}
		b.WriteString(line)
	}
	b.WriteString(exitPage)
	return b.String()
}

// session is one run of a command.
type session struct {
	ctx    context.Context // ends with the first signal
	client *client.Client
	json   bool
	in     io.Reader
	within time.Duration // how long a server may take
	place  *place
	out    *bufio.Writer // flushed at the end
	screen io.Writer     // what out writes to
	err    io.Writer
}

// dial returns a client of an address. It waits for a server that knows the others, ZooKeeper, for as
// long as for any.
func (p *place) dial(ctx context.Context, address string, timeout time.Duration) (*client.Client, error) {
	opts, err := p.options(timeout)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := client.Dial(ctx, address, opts)
	if u, bad := url.Parse(address); bad == nil && u.Scheme == "zk" && errors.Is(err, context.DeadlineExceeded) {
		return nil, cli.Failed("ZooKeeper did not say within %v which servers there are: is it running at %s?", timeout, u.Redacted())
	}
	return c, err
}

// run runs a command with a client of the place.
func (p *place) run(cmd *cobra.Command, args []string, do func(s *session, args []string) error) error {
	if err := p.resolve(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := p.dial(ctx, p.server, p.timeout)
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	defer c.Close()
	s := &session{ctx: ctx, client: c, json: p.output == "json", within: p.timeout, place: p, in: cmd.InOrStdin(),
		out: bufio.NewWriter(cmd.OutOrStdout()), screen: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
	err = do(s, args)
	if e := s.out.Flush(); err == nil && e != nil {
		err = cli.Failed("write what was found to standard output: %v", e)
	}
	return p.explain(err)
}

// reach tests that the servers of c can be reached. Of several some may be away: then it says so, and
// returns nil.
func (s *session) reach(c *client.Client) error {
	all, last := s.away(c)
	if all {
		return last
	}
	if last != nil {
		fmt.Fprintf(s.err, "kestrel: %s\n", cli.ErrorLine(last))
	}
	return nil
}

// away reports whether all servers of c are away, and why the last that is away is.
func (s *session) away(c *client.Client) (all bool, last error) {
	n := 0
	for _, server := range c.Stats(s.ctx) {
		if server.Err != nil && !isForbidden(server.Err) { // who may not ask for statistics has an answer
			n++
			last = server.Err
		}
	}
	m := c.Members()
	return n == max(len(m.Read), len(m.Write)), last
}
