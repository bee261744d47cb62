package clientcmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/segment"
)

type drainFlags struct {
	to   string
	null bool
	any  bool
	yes  bool
}

func newDrain() *cobra.Command {
	return command{
		usage: "drain QUEUE --to FILE [flags]",
		short: "empty a queue into a file",
		about: `Takes items from a queue until there is none, and writes each with a line end to a new file. An item leaves its queue
only when the file with it is on the disk. Whatever fails, the item is in the queue, in the file, or in both.
'kestrel put' reads such a file. If an item holds a line end, the file would not say where it ends: drain stops there,
and needs -0. It says what there is and asks first; without a terminal it needs --yes.`,
		examples: `$ kestrel put work one two three
3 items put into "work"
$ kestrel drain work --to work.txt --yes
3 items of "work" are in work.txt
$ kestrel put again < work.txt
3 items put into "again"
`,
		args: args{1, 1, "a queue"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			d := new(drainFlags)
			f.StringVar(&d.to, "to", "", "`FILE` to write; - is standard output")
			f.BoolVarP(&d.null, "null", "0", false, "write a NUL behind each item, and not a line end")
			f.BoolVar(&d.any, "any", false, "write also items that hold what ends them")
			f.BoolVarP(&d.yes, "yes", "y", false, yesUsage)
			return d.run
		},
	}.cobra()
}

func (d *drainFlags) run(s *session, args []string) error {
	queue := args[0]
	if d.to == "" {
		return misused("which file? Say --to FILE; 'kestrel flush' discards what a queue holds")
	}
	if d.to == "-" {
		if err := cli.CheckOutput(s.screen); err != nil {
			return err
		}
	}
	taken := sample.Take(s.ctx, s.client)
	if err := taken.Err(); err != nil {
		return err
	}
	q, ok := taken.Find(queue)
	if !ok {
		return cli.Failed("there is no queue %q; 'kestrel ls' lists them all", queue)
	}
	if err := s.confirm(fmt.Sprintf("%s: take all of it into %s?", describe(q), d.to), d.yes); err != nil {
		return err
	}
	var file *os.File
	to := io.Writer(s.out)
	if d.to != "-" {
		var err error
		if file, err = makeDurably(d.to, segment.OS{}.SyncDir); err != nil {
			return cli.Failed("make the file to drain into: %v", err)
		}
		defer file.Close()
		to = file
	}
	p := cli.NewProgress(s.err, "taken", cli.Items, q.Items)
	var err error
	var stored int64 // bytes of the file
	for err == nil {
		var c *collected
		if c, err = s.collect(queue, collectItems, collectItems); err != nil || c.n == 0 {
			break
		}
		if err = d.refuse(c); err == nil {
			if err = d.store(bufio.NewWriter(to), file, c); err != nil && file != nil {
				file.Truncate(stored) // a part of an item would look like one
			}
		}
		if err != nil {
			c.abort(context.WithoutCancel(s.ctx))
			err = cli.Failed("write to %s: %v; what was taken last is in %q again", nameOf(d.to, "standard output"), segment.Cause(err), queue)
			break
		}
		stored += d.length(c)
		if err = c.confirm(context.WithoutCancel(s.ctx)); err == nil {
			p.Add(int64(c.n))
		}
	}
	p.End()
	if err != nil && file != nil && stored == 0 {
		os.Remove(d.to) // nothing is in it, and it would be in the way of the next drain
	}
	d.report(s, queue, p.Done(), err == nil)
	return err
}

// report says how many items have been taken; nothing of none that should have been some.
func (d *drainFlags) report(s *session, queue string, taken int64, all bool) {
	are := "are"
	if taken == 1 {
		are = "is"
	}
	switch {
	case s.json && d.to != "-":
		s.print(struct {
			Queue string `json:"queue"`
			To    string `json:"to"`
			Taken int64  `json:"taken"`
		}{queue, d.to, taken})
	case taken == 0 && !all:
	case d.to == "-":
		fmt.Fprintf(s.err, "%s of %q %s on standard output\n", cli.Counted(taken, "item"), queue, are)
	default:
		fmt.Fprintf(s.out, "%s of %q %s in %s\n", cli.Counted(taken, "item"), queue, are, d.to)
	}
}

// makeDurably makes a new file, whose name is on the disk when it returns nil. Others may not read it, as they may not
// read the data directory that its items come from.
func makeDurably(path string, syncDir func(dir string) error) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		file.Close()
		os.Remove(path)
		return nil, err
	}
	return file, nil
}

// end is the byte behind each item.
func (d *drainFlags) end() byte {
	if d.null {
		return 0
	}
	return '\n'
}

// refuse returns an error if the file would not say where an item ends.
func (d *drainFlags) refuse(c *collected) error {
	for _, b := range c.batches {
		for _, item := range b.Items {
			switch {
			case d.any || bytes.IndexByte(item.Data, d.end()) < 0:
			case d.null:
				return errors.New("an item holds a NUL, so the file would not say where it ends: say --any if it need not")
			default:
				return errors.New("an item holds a line end, so the file would not say where it ends: say -0, or --any")
			}
		}
	}
	return nil
}

// store writes items, and waits until they are on the disk.
func (d *drainFlags) store(w *bufio.Writer, file *os.File, c *collected) error {
	end := d.end()
	for _, b := range c.batches {
		for _, item := range b.Items {
			w.Write(item.Data)
			w.WriteByte(end)
		}
	}
	if err := w.Flush(); err != nil || file == nil {
		return err
	}
	return file.Sync()
}

// length is how many bytes store writes.
func (d *drainFlags) length(c *collected) (n int64) {
	for _, b := range c.batches {
		for _, item := range b.Items {
			n += int64(len(item.Data)) + 1
		}
	}
	return n
}
