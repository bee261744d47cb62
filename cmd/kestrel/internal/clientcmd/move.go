package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
)

const (
	// collectItems and collectBatches bound what move and drain have open at the same time.
	collectItems   = 1000
	collectBatches = 64
)

// collected is items that are open together, in their order.
type collected struct {
	batches []*client.Batch
	n       int
}

// collect opens up to most items, so many at once: of more than one at once, their expiry and key are not known. It
// returns none at the end of the queue.
func (s *session) collect(queue string, most, atOnce int64) (*collected, error) {
	c := new(collected)
	for c.n < collectItems && int64(c.n) < most && len(c.batches) < collectBatches {
		b, err := s.client.OpenBatch(s.ctx, queue, int(min(most-int64(c.n), collectItems-int64(c.n), atOnce)), 0)
		if errors.Is(err, client.ErrEmpty) {
			break
		}
		if err != nil {
			c.abort(context.WithoutCancel(s.ctx))
			return nil, err
		}
		c.batches = append(c.batches, b)
		c.n += len(b.Items)
	}
	return c, nil
}

// abort gives all items back: the last batch first, so that their order is what it was.
func (c *collected) abort(ctx context.Context) {
	for i := len(c.batches) - 1; i >= 0; i-- {
		c.batches[i].Abort(ctx) // fails if the server has it back already, or will have
	}
}

// confirm confirms all items, all batches at once, so that they share syncs. It goes on where one fails.
func (c *collected) confirm(ctx context.Context) error {
	failed := make([]error, len(c.batches))
	var confirming sync.WaitGroup
	for i, b := range c.batches {
		confirming.Go(func() { failed[i] = b.Confirm(ctx) })
	}
	confirming.Wait()
	return errors.Join(failed...)
}

type moveFlags struct {
	to    string
	count int64
}

func newMove() *cobra.Command {
	return command{
		usage: "move FROM TO [flags]",
		short: "move items from one queue to the end of another",
		about: `Moves the items that are in queue FROM when it begins to the end of queue TO, in their order. TO may be on other
servers. An item leaves FROM only when TO has stored it, so none is lost. If something fails, items that are on
their way may be in both. Items keep their flags and their expiry, up to a second longer. They keep their key if TO is on
one server, and has no item with that key. One that expires after 18 January 2038 stays for good. They lose the count of
their deliveries, and the name of the queue that gave them up. Servers before version 3 report neither expiry nor key, so their items lose both.`,
		examples: `$ kestrel put work_dead one two three
3 items put into "work_dead"
$ kestrel move work_dead work
3 items moved from "work_dead" to "work"
$ kestrel get work --all
one
two
three
`,
		args: args{2, 2, "the queue to take from, and the queue to put to"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			m := new(moveFlags)
			f.StringVar(&m.to, "to-server", "", "`ADDRESS` of the servers of queue TO (default: the same)")
			f.Int64VarP(&m.count, "count", "n", 0, "`NUMBER` of items at most")
			return m.run
		},
	}.cobra()
}

func (m *moveFlags) run(s *session, args []string) error {
	from, to := args[0], args[1]
	if m.count < 0 {
		return misused("--count is a number above zero, and not %d", m.count)
	}
	if from == to && m.to == "" {
		return misused("%q cannot move to itself: say --to-server if it is on another server", from)
	}
	target := s.client
	if m.to != "" {
		c, err := s.place.dial(s.ctx, m.to, s.within)
		if err != nil {
			return misused("--to-server: %v", err)
		}
		defer c.Close()
		if err := s.reach(c); err != nil {
			return err
		}
		target = c
	}
	total, err := s.itemsOf(from, m.count)
	if err != nil {
		return err
	}
	return s.moveAll(target, from, to, total, 0)
}

// itemsOf is how many items a queue has, up to most; of most 0, all of them.
func (s *session) itemsOf(queue string, most int64) (n int64, err error) {
	taken := sample.Take(s.ctx, s.client)
	if err := taken.Err(); err != nil {
		return 0, err
	}
	s.place.answered = true
	q, ok := taken.Find(queue)
	if !ok {
		return 0, cli.Failed("there is no queue %q; 'kestrel ls' lists them all", queue)
	}
	if most > 0 {
		return min(q.Items, most), nil
	}
	return q.Items, nil
}

// moveAll moves up to total items, and says how many it has moved. It moves about rate items a second at most;
// 0 sets no limit.
func (s *session) moveAll(target *client.Client, from, to string, total, rate int64) error {
	p := cli.NewProgress(s.err, "moved", cli.Items, total)
	var err error
	for p.Done() < total && err == nil {
		most := total - p.Done()
		if rate > 0 {
			most = min(most, max(rate/10, 1)) // a tenth of a second
		}
		var c *collected
		if c, err = s.collect(from, most, 1); err != nil || c.n == 0 {
			break
		}
		var moved int
		moved, err = s.moveOn(target, to, c)
		p.Add(int64(moved))
		if rate > 0 && err == nil && p.Done() < total {
			select {
			case <-time.After(time.Duration(c.n) * time.Second / time.Duration(rate)):
			case <-s.ctx.Done():
				err = context.Cause(s.ctx)
			}
		}
	}
	p.End()
	if s.json {
		s.print(struct {
			From  string `json:"from"`
			To    string `json:"to"`
			Moved int64  `json:"moved"`
		}{from, to, p.Done()})
	} else {
		fmt.Fprintf(s.out, "%s moved from %q to %q\n", cli.Counted(p.Done(), "item"), from, to)
	}
	return err
}

// moveOn stores what is open in another queue, and confirms it. A signal does not end it halfway. If not all can be
// stored, the rest goes back. It returns how many items have moved.
func (s *session) moveOn(target *client.Client, to string, c *collected) (moved int, err error) {
	m := mover{ctx: context.WithoutCancel(s.ctx), target: target, to: to, now: time.Now()}
	for _, b := range c.batches {
		for _, item := range b.Items {
			if err = m.add(item); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = m.put()
	}
	stored, rest := c.split(m.stored)
	rest.abort(m.ctx)
	if unknown := stored.confirm(m.ctx); unknown != nil {
		return 0, cmp.Or(err, unknown)
	}
	return stored.n, err
}

// split parts batches of which all items are stored from the others. What became of an item that stored does not say
// is not known.
func (c *collected) split(stored []bool) (all, rest *collected) {
	all, rest = new(collected), new(collected)
	for _, b := range c.batches {
		n := min(len(b.Items), len(stored))
		to := all
		if n < len(b.Items) || slices.Contains(stored[:n], false) {
			to = rest
		}
		to.batches = append(to.batches, b)
		to.n += len(b.Items)
		stored = stored[n:]
	}
	return all, rest
}

// mover puts items in their order, those that follow each other with the same options at once.
type mover struct {
	ctx    context.Context
	target *client.Client
	to     string
	now    time.Time
	opts   client.PutOptions
	data   [][]byte
	stored []bool // for each item that put has put
}

// add takes an item, and puts those before it unless it can go with them.
func (m *mover) add(item client.Item) error {
	opts := client.PutOptions{Flags: item.Flags}
	if !item.Expires.IsZero() && item.Expires.Before(lastDay()) { // or it stays for good
		opts.TTL = max((item.Expires.Sub(m.now) + time.Second - 1).Truncate(time.Second), time.Second)
	}
	if len(m.target.Members().Write) == 1 {
		opts.Key, opts.New = item.Key, item.Key != ""
	}
	if opts != m.opts || opts.Key != "" {
		if err := m.put(); err != nil {
			return err
		}
		m.opts = opts
	}
	m.data = append(m.data, item.Data)
	return nil
}

// lastDay is a day before the latest expiry that an item can be put with: the time of its put is not known yet.
func lastDay() time.Time { return time.Unix(client.LatestExpiry, 0).AddDate(0, 0, -1) }

// put puts what add has taken. If another item has the key, the one that moves goes without: none replaces another.
func (m *mover) put() error {
	if len(m.data) == 0 {
		return nil
	}
	err := m.target.PutAll(m.ctx, m.to, m.data, m.opts)
	if m.opts.Key != "" && errors.Is(err, client.ErrNotStored) {
		m.opts.Key, m.opts.New = "", false
		err = m.target.PutAll(m.ctx, m.to, m.data, m.opts)
	}
	var batch *client.BatchError
	each := errors.As(err, &batch)
	for i := range m.data {
		m.stored = append(m.stored, err == nil || each && batch.Items[i] == nil)
	}
	m.data = m.data[:0]
	if each {
		return batch.Unwrap()
	}
	return err
}
