package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

func newClusterDrain() *cobra.Command {
	return ofServers(command{
		group: "cluster",
		usage: "drain SERVER [flags]",
		short: "take a server out of use without losing an item",
		about: `Takes a server out of use. It gets the status ReadOnly, so that it leaves the write set and producers go to the other
servers; consumers go on to empty it. An item may be in line, delayed or open with a reader. Once no queue has any, the server
gets the status Quiescent, and the command says that it can be stopped. Nothing is lost on the way, and 'kestrel cluster status SERVER
--set Up' puts it back at any time.

--move does not wait for consumers: it moves items to the other servers, as 'kestrel move' does, with what that keeps.
Queues with fanout children are left to their consumers, since their items would reach the children again.

--for bounds the wait: if the server still holds something then, it stays as it is, and the exit status is 1. A server that
is the last to take puts is drained only with --yes, or if somebody agrees at the terminal.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel cluster drain $KESTREL_SERVER --yes --for 1s --interval 100ms; echo "exit status $?"
kestrel: 127.0.0.1:… still has 1 item in 1 queue, 0 of them open with readers; it stays read-only…
exit status 1
$ kestrel get work
hello
$ kestrel cluster drain $KESTREL_SERVER --yes
127.0.0.1:… is empty and quiescent: it can be stopped
`,
		args: args{1, 1, "a server"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			d := new(drainServer)
			f.BoolVar(&d.move, "move", false, "move its items to the other servers")
			f.DurationVar(&d.most, "for", 0, "how long to wait at most (default no limit)")
			f.DurationVar(&d.interval, "interval", time.Second, "time between two looks")
			f.BoolVarP(&d.yes, "yes", "y", false, "do not ask, if it is the last server that takes puts")
			return d.run
		},
	})
}

// drainServer takes a server out of use.
//
// The order of its steps is what keeps it from calling a server empty that is not. A status is enforced only after a
// grace period, and until then puts may come. But a server takes no stricter status while that period runs. So once
// it has taken Quiescent, ReadOnly was enforced before: what it holds from then on is all there is.
type drainServer struct {
	move     bool
	most     time.Duration // zero: no limit
	interval time.Duration
	yes      bool

	server string
	one    *session       // of the server
	others *client.Client // that take puts; nil without move
	moved  int64
}

// held is what a server holds in all its queues.
type held struct {
	items, open int64 // open are not among items
	queues      int   // that have any
	list        []client.QueueStats
}

func (d *drainServer) run(s *session, args []string) error {
	list, err := client.ParseAddress(args[0])
	switch {
	case err != nil:
		return misused("%v", err)
	case len(list) != 1:
		return misused("one server at a time, and not %q", args[0])
	case d.most < 0 || d.interval < 10*time.Millisecond:
		return misused("--for is a time above zero, and --interval 10ms or more")
	}
	d.server = list[0]
	if d.one, err = s.of(args); err != nil {
		return err
	}
	defer d.one.client.Close()
	if err := d.chooseOthers(s); err != nil {
		return err
	}
	if d.others != nil {
		defer d.others.Close()
	}
	began := time.Now()
	left, err := d.empty(s, began)
	if s.json {
		s.print(struct {
			Server  string  `json:"server"`
			Empty   bool    `json:"empty"`
			Items   int64   `json:"items"`
			Open    int64   `json:"open_reads"`
			Moved   int64   `json:"moved"`
			Seconds float64 `json:"seconds"`
		}{d.server, err == nil, left.items, left.open, d.moved, time.Since(began).Seconds()})
	}
	if err != nil {
		return err
	}
	if !s.json {
		if d.move {
			fmt.Fprintf(s.out, "%s moved to other servers\n", cli.Counted(d.moved, "item"))
		}
		fmt.Fprintf(s.out, "%s is empty and quiescent: it can be stopped\n", d.server)
	}
	return nil
}

// chooseOthers finds the servers that take puts beside the one, and asks if there is none.
func (d *drainServer) chooseOthers(s *session) error {
	status, _ := s.client.Status(s.ctx) // who is away takes no puts
	var up []string
	for _, server := range s.client.Members().Write {
		if server != d.server && strings.EqualFold(status[server], "Up") {
			up = append(up, server)
		}
	}
	switch {
	case len(up) == 0 && d.move:
		return misused("--move needs another server that is up: --server lists them")
	case len(up) == 0:
		return s.confirm(fmt.Sprintf("no other server of --server is up, so nobody will take puts: drain %s?", d.server), d.yes)
	case !d.move:
		return nil
	}
	var err error
	d.others, err = s.place.dial(s.ctx, s.place.addressOf(up), s.within)
	return err
}

// empty waits until the server holds nothing, and has it take no request any more. It returns what the server holds.
func (d *drainServer) empty(s *session, began time.Time) (left held, err error) {
	ctx := s.ctx
	if d.most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.most)
		defer cancel()
	}
	if left, err = d.look(s.ctx); err != nil {
		return left, err
	}
	if err := d.wish(s.ctx, "ReadOnly"); err != nil {
		return left, err
	}
	p := cli.NewProgress(s.err, "gone", cli.Items, left.items+left.open)
	defer p.End()
	tick := time.NewTicker(d.interval)
	defer tick.Stop()
	for {
		if left.items+left.open == 0 {
			done, err := d.shut(s.ctx)
			if done || err != nil {
				return left, err
			}
		}
		if d.move {
			if err := d.moveAll(ctx, s, left); err != nil && ctx.Err() == nil {
				return left, fmt.Errorf("%w; %s stays read-only", err, d.server)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left, cli.Failed("%s still has %s in %s, %s of them open with readers; it stays read-only and its consumers may go on: "+
				"drain it again to wait on, or 'kestrel cluster status %s --set Up' puts it back", d.server,
				cli.Counted(left.items+left.open, "item"), cli.Counted(left.queues, "queue"), figures.Thousands(left.open), d.server)
		}
		if left, err = d.look(s.ctx); err != nil {
			return left, err
		}
		p.Expect(left.items + left.open)
		p.Add(p.Total() - left.items - left.open - p.Done())
	}
}

// wish has the server take a status, unless it has it. That the server does not take it now is no error.
func (d *drainServer) wish(ctx context.Context, status string) error {
	if now, err := d.status(ctx); err != nil || strings.EqualFold(now, status) {
		return err
	}
	return d.one.client.SetStatus(ctx, status)
}

func (d *drainServer) status(ctx context.Context) (string, error) {
	by, err := d.one.client.Status(ctx)
	return by[d.server], err
}

// shut has the server become quiescent, and reports whether it has and is still empty. If it is not, it is made
// read-only again.
func (d *drainServer) shut(ctx context.Context) (done bool, err error) {
	now, err := d.status(ctx)
	if err != nil {
		return false, err
	}
	if strings.EqualFold(now, "Up") || strings.EqualFold(now, "WriteAvoid") {
		return false, d.wish(ctx, "ReadOnly") // somebody else's change was under way
	}
	if err := d.wish(ctx, "Quiescent"); err != nil {
		return false, err
	}
	if now, err = d.status(ctx); err != nil || !strings.EqualFold(now, "Quiescent") {
		return false, err // its grace period still runs
	}
	left, err := d.look(ctx)
	if err != nil {
		return false, err
	}
	if left.items+left.open == 0 {
		return true, nil
	}
	return false, d.wish(ctx, "ReadOnly")
}

// look returns what the server holds.
func (d *drainServer) look(ctx context.Context) (h held, err error) {
	stats := d.one.client.Stats(ctx)
	if err := stats[0].Err; err != nil {
		return h, err
	}
	for _, q := range stats[0].Queues {
		if q.Items+q.OpenReads > 0 {
			h.items += q.Items
			h.open += q.OpenReads
			h.queues++
			h.list = append(h.list, q)
		}
	}
	return h, nil
}

// moveAll moves what can be taken of what the server holds to the other servers, until ctx ends.
func (d *drainServer) moveAll(ctx context.Context, s *session, left held) error {
	fanouts := fanoutsOf(append(d.others.Stats(s.ctx), client.ServerStats{Queues: left.list}))
	from := *d.one
	from.ctx = ctx
	for _, q := range left.list {
		if slices.Contains(fanouts, q.Name) || q.Items == 0 {
			continue
		}
		for {
			c, err := from.collect(q.Name, collectItems, 1)
			if errors.Is(err, client.ErrRefused) {
				break // somebody gives it another status
			}
			if err != nil {
				return err
			}
			if c.n == 0 {
				break
			}
			if _, err := s.moveOn(d.others, q.Name, c); err != nil {
				return err
			}
			d.moved += int64(c.n)
		}
	}
	return nil
}

// fanoutsOf returns the queues that have fanout children anywhere.
func fanoutsOf(all []client.ServerStats) (names []string) {
	for _, server := range all {
		for _, q := range server.Queues {
			if len(q.Children) > 0 {
				names = append(names, q.Name)
			}
		}
	}
	return names
}
