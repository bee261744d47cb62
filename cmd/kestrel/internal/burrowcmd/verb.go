package burrowcmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// verb is one operation.
type verb struct {
	name    string
	args    string // "QUEUE ID"
	count   int    // of them
	short   string
	has     flags
	detail  string // by default; "" if there is none
	example string
	do      func(c *call) error
}

// flags says which flags a verb has.
type flags uint8

const (
	hasNames      flags = 1 << iota // --limit, --marker
	hasMatch                        // and --all, --wait
	hasAttributes                   // --ttl, --hide
	hasDetail
	hasBody
)

// call is one run of a verb.
type call struct {
	ctx     context.Context
	back    backend.Backend
	args    []string
	in      io.Reader
	out     *bufio.Writer
	json    bool
	shown   backend.Detail
	account string

	ttl, hide, wait int64 // seconds; ttl and hide are below zero if they are not given
	limit           int
	marker, detail  string
	hidden          bool
	body            string
	hasBody         bool
	output          string
}

// longest is how many seconds a flag may say.
const longest = 999999999

// cobra returns the command of a verb.
func (v verb) cobra() *cobra.Command {
	cmd := &cobra.Command{Use: strings.TrimSpace(v.name + " " + v.args), Short: v.short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) != v.count {
			needs := cmpOr(v.args, "no arguments")
			if len(args) > v.count {
				needs = fmt.Sprintf("%s and no more, have %q", needs, args[v.count])
			}
			return fmt.Errorf("'%s' needs %s", cmd.CommandPath(), needs)
		}
		return nil
	}}
	c, p := new(call), new(place)
	own, shared := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags, shared.SortFlags, cmd.Flags().SortFlags = false, false, false
	v.define(own, c)
	shared.StringVarP(&c.account, "account", "a", "", "`ACCOUNT` that this is about (default that of the URL, or default)")
	p.define(shared, "server")
	shared.StringVar(&c.output, "output", "text", "`FORM` of what is printed: text or json")
	cmd.Flags().AddFlagSet(own)
	cmd.Flags().AddFlagSet(shared)
	cmd.Flags().Bool("help", false, "print this")
	about := v.short + "."
	if v.deletes() {
		about += " What is printed is deleted by then, also if standard output turns out to be full."
	}
	page := fmt.Sprintf("Usage:\n    kestrel burrow %s [flags]\n\n%s\n", cmd.Use, cli.Wrap(about, "", 80))
	if own.HasFlags() {
		page += "\nFlags:\n" + flagged(own)
	}
	cmd.Long = page + "\n  Where the messages are, and the output\n" + flagged(shared) + "\nExample:\n" + indented(v.example) + exitPage
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.args, c.in, c.hasBody = args, cmd.InOrStdin(), cmd.Flags().Changed("body")
		return v.run(c, p, cmd.OutOrStdout())
	}
	return cmd
}

// deletes reports whether the verb deletes messages.
func (v verb) deletes() bool { return strings.HasPrefix(v.name, "delete_") }

func cmpOr(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// define adds the flags of a verb.
func (v verb) define(f *pflag.FlagSet, c *call) {
	c.ttl, c.hide = -1, -1
	if v.has&hasBody != 0 {
		f.StringVar(&c.body, "body", "", "`TEXT` of the message (default: standard input)")
	}
	if v.has&hasAttributes != 0 {
		f.Int64VarP(&c.ttl, "ttl", "t", -1, "`SECONDS` the message lives; 0 is for ever")
		f.Int64VarP(&c.hide, "hide", "H", -1, "`SECONDS` the message is hidden; 0 is visible")
		f.Lookup("ttl").DefValue, f.Lookup("hide").DefValue = "", ""
	}
	if v.has&(hasNames|hasMatch) != 0 {
		f.IntVarP(&c.limit, "limit", "l", 0, "`NUMBER` of them at most")
		f.StringVarP(&c.marker, "marker", "m", "", "`NAME` of the one behind which they begin")
		f.Lookup("marker").DefValue = "0"
	}
	if v.has&hasMatch != 0 {
		f.BoolVarP(&c.hidden, "all", "A", false, "hidden messages too")
		f.Int64VarP(&c.wait, "wait", "w", 0, "`SECONDS` to wait for one if there is none")
	}
	if v.has&hasDetail != 0 {
		f.StringVarP(&c.detail, "detail", "d", v.detail, "how much of each is printed: `none`, id, attributes, body or all")
	}
}

// details are those of the flag.
var details = map[string]backend.Detail{
	"": backend.None, "none": backend.None, "id": backend.IDs, "attributes": backend.Times, "body": backend.Bodies, "all": backend.All,
}

// check returns what is wrong with the flags.
func (c *call) check() error {
	for _, n := range []struct {
		flag  string
		value int64
		least int64
	}{{"ttl", c.ttl, -1}, {"hide", c.hide, -1}, {"wait", c.wait, 0}, {"limit", int64(c.limit), 0}} {
		if n.value < n.least || n.value > longest {
			return misused(fmt.Sprintf("--%s is a number from 0 to %d, and not %d", n.flag, longest, n.value))
		}
	}
	shown, ok := details[c.detail]
	if !ok {
		return misused(fmt.Sprintf("--detail is none, id, attributes, body or all, and not %q", c.detail))
	}
	if c.output != "text" && c.output != "json" {
		return misused(fmt.Sprintf("--output is text or json, and not %q", c.output))
	}
	c.shown, c.json = shown, c.output == "json"
	return nil
}

// run does what the verb is about.
func (v verb) run(c *call, p *place, out io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.shown != backend.None || v.has&hasNames != 0 {
		if err := cli.CheckOutput(out); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b, err := p.open(c.account)
	if err != nil {
		return err
	}
	c.ctx, c.back, c.out = ctx, b, bufio.NewWriter(out)
	err = v.do(c)
	if e := c.out.Flush(); err == nil && e != nil {
		text := "write what was found to standard output: %v"
		if v.deletes() {
			text = "write what was deleted to standard output: %v; it is deleted all the same"
		}
		err = cli.Failed(text, e)
	}
	if e := b.Close(); err == nil && e != nil {
		err = cli.Failed("close the messages: %v", e)
	}
	return explain(err)
}

func (c *call) queue() backend.Queue { return backend.Queue{Name: c.args[0]} }

func (c *call) key() backend.Key { return backend.Key{Queue: c.queue(), ID: c.args[1]} }

func (c *call) names() backend.Names { return backend.Names{Marker: c.marker, Limit: c.limit} }

func (c *call) match() backend.Match {
	return backend.Match{Marker: c.marker, Limit: c.limit, Hidden: c.hidden, Detail: c.shown, Wait: time.Duration(c.wait) * time.Second}
}

func (c *call) attributes() (a backend.Attributes) {
	a.TTL, a.Hide = seconds(c.ttl, backend.Forever), seconds(c.hide, backend.Visible)
	return a
}

// seconds returns n seconds; zero if there are none, and 0 if they are not given.
func seconds(n int64, zero time.Duration) time.Duration {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return zero
	}
	return time.Duration(n) * time.Second
}
