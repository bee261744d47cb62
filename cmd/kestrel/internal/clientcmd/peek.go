package clientcmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

type peekFlags struct {
	id, from uint64
	key      string
	limit    int
	hidden   bool
	lists    bool // --from is given
}

func newPeek() *cobra.Command {
	return command{
		usage: "peek QUEUE [flags]",
		short: "show items of a queue, and leave them there",
		about: `Prints the item at the head of a queue, of the first server that has one, and leaves it there. With --id or
--key it is the item with that id or key, wherever it is.

With --from it lists items, in the order of their ids, from an id on. It shows how often each was delivered, and when
its delay or lease is over. --hidden adds those that are delayed, leased or open. The ids of a queue rise
with each put, and an item keeps its own.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel peek work
hello
$ kestrel peek work --output json
{"queue":"work","flags":0,"data":"hello"}
$ kestrel put work --key K --delay 1h later
1 item put into "work"
$ kestrel peek work --key K
later
$ kestrel peek work --from 1 --hidden
ID  KEY  DELIVERIES  DUE  BYTES  DATA
1              0  -      5 B  hello
2   K          0  …  5 B  later
`,
		args: args{1, 1, "a queue"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			p := new(peekFlags)
			f.Uint64Var(&p.id, "id", 0, "`ID` of the item to show")
			f.StringVar(&p.key, "key", "", "`KEY` of the item to show")
			f.Uint64Var(&p.from, "from", 0, "list items from this `ID` on; 0 is the first")
			f.IntVar(&p.limit, "limit", 100, "`NUMBER` of items to list of each server")
			f.BoolVar(&p.hidden, "hidden", false, "list also what is delayed, leased or open")
			return func(s *session, args []string) error {
				p.lists = f.Changed("from")
				if err := p.check(f); err != nil {
					return err
				}
				return p.run(s, args[0])
			}
		},
	}.cobra()
}

// check returns why the flags do not go together.
func (p *peekFlags) check(f *pflag.FlagSet) error {
	switch {
	case p.id != 0 && p.key != "", p.lists && (p.id != 0 || p.key != ""):
		return misused("--id, --key and --from exclude each other")
	case f.Changed("id") && p.id == 0:
		return misused("--id is a number above zero")
	case f.Changed("key") && p.key == "":
		return misused("--key is not empty")
	case !p.lists && (p.hidden || f.Changed("limit")):
		return misused("--limit and --hidden are about the list of --from")
	case p.limit < 1 || p.limit > 10_000:
		return misused("--limit is a number from 1 to 10000, and not %d", p.limit)
	}
	return nil
}

func (p *peekFlags) run(s *session, queue string) error {
	switch {
	case p.lists:
		return p.list(s, queue)
	case p.id != 0 || p.key != "":
		found, err := s.client.Look(s.ctx, queue, p.id, p.key)
		if err != nil {
			return s.absent(queue, err)
		}
		if s.json {
			s.print(listedView(queue, found))
			return nil
		}
		return s.printItem(found.Item)
	}
	// A list does not make a queue that is not there, as a peek does; servers before version 3 have none.
	found, err := s.client.Browse(s.ctx, queue, client.BrowseOptions{Limit: 1})
	switch {
	case len(found) > 0 || errors.Is(err, client.ErrTooOld):
	case err != nil:
		return wordAs("peek at", err)
	default:
		return s.absent(queue, &client.Error{Op: "peek at", Queue: queue, Err: client.ErrEmpty})
	}
	item, err := s.client.Peek(s.ctx, queue)
	if err != nil {
		return s.absent(queue, err)
	}
	if s.json {
		s.print(itemView(queue, "", item))
		return nil
	}
	return s.printItem(item)
}

// absent says more of an error that says that there is no item: there is no such queue, or its items are not in line.
func (s *session) absent(queue string, err error) error {
	if !errors.Is(err, client.ErrEmpty) {
		return err
	}
	taken := sample.Take(s.ctx, s.client)
	if taken.Err() != nil {
		return err // a user without the right stats may peek
	}
	q, ok := taken.Find(queue)
	if !ok {
		return &cli.Failure{Code: cli.ExitEmpty, Text: fmt.Sprintf("there is no queue %q; 'kestrel ls' lists them all", queue)}
	}
	if n := q.Delayed + q.Leased + q.OpenReads; n > 0 {
		return fmt.Errorf("%w in line, and %s delayed, leased or open: --from 0 --hidden lists them", err, figures.Thousands(n))
	}
	return err
}

// printItem prints an item and a line end.
func (s *session) printItem(item client.Item) error {
	s.out.Write(item.Data)
	_, err := io.WriteString(s.out, "\n")
	return err
}

// list prints a table of items, or a line of JSON for each.
func (p *peekFlags) list(s *session, queue string) error {
	found, err := s.client.Browse(s.ctx, queue, client.BrowseOptions{From: p.from, Limit: p.limit, Hidden: p.hidden})
	if err == nil && len(found) == 0 {
		return s.absent(queue, &client.Error{Op: "list", Queue: queue, Err: client.ErrEmpty})
	}
	if s.json {
		for _, item := range found {
			s.print(listedView(queue, item))
		}
		return err
	}
	rows := [][]string{{"ID", "KEY", "DELIVERIES", "DUE", "BYTES", "DATA"}}
	for _, item := range found {
		due := "-"
		if !item.Due.IsZero() {
			due = item.Due.Format(time.DateTime)
		}
		rows = append(rows, []string{
			strconv.FormatUint(item.ID, 10), cli.OneLine(item.Key), figures.Thousands(int64(item.Deliveries)), due,
			figures.Bytes(int64(len(item.Data))), shorten(cli.OneLine(string(item.Data))),
		})
	}
	if len(found) > 0 {
		s.tableLeft(rows, "KEY", "DATA")
	}
	return err
}

// listedData is how many characters of an item a list shows.
const listedData = 60

// shorten cuts a line of a list.
func shorten(line string) string {
	if runes := []rune(line); len(runes) > listedData {
		return string(runes[:listedData-1]) + "…"
	}
	return line
}

// listed is an item of a list in JSON.
type listed struct {
	viewed
	ID         uint64 `json:"id"`
	Key        string `json:"key,omitempty"`
	Deliveries int    `json:"deliveries"`
	Added      int64  `json:"added_ms"`
	Expires    int64  `json:"expires_ms,omitempty"`
	Due        int64  `json:"due_ms,omitempty"`
	Origin     string `json:"origin,omitempty"`
	Why        string `json:"why,omitempty"`
}

func listedView(queue string, l client.Listed) listed {
	millis := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return listed{viewed: itemView(queue, l.Server, l.Item), ID: l.ID, Key: l.Key, Deliveries: l.Deliveries,
		Added: millis(l.Added), Expires: millis(l.Expires), Due: millis(l.Due), Origin: l.Origin, Why: l.Why}
}
