package journalcmd

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
)

const exportPage = `Usage:
    kestrel journal export QUEUE... --output DIR --data-dir DATA [--config FILE]
    kestrel journal export --all --output DIR --data-dir DATA [--config FILE]

Writes the items of queues as journal files that the original Kestrel, 1.0 and
later, starts with. Each queue has a file, with the items in their order and the
times they were added and expire. A supplement~~… beside it has what the
original does not know: flags, keys, delays and leases. It also has counts of
deliveries, and the queues that dead letters come from. 'kestrel journal import'
reads both. The original reads the first alone, and takes a delayed or leased
item for any other.

The export only reads DATA. No server may run on it, and no import may be
unfinished there. It refuses a queue that already has a file in DIR. Each file
appears whole or not at all. An export that was killed may leave a
file export~~…, which the next export to DIR removes.

Flags:
    --all
        every queue
    --output DIR
        where the files go; made if it is missing
    --config FILE, --data-dir DATA
        the data directory

Example:
    $ kestrel journal export work --output old --data-dir data
    old/work: 2 items, 10 bytes

Exit status: 0 if everything is exported and durable; 1 if not; 2 if the flags
or the configuration are wrong.
`

func newJournalExport() *cobra.Command {
	ex := new(exporter)
	cmd := &cobra.Command{
		Use: "export QUEUE...", Short: "write queues as the original's journal files",
		Long: exportPage,
	}
	data := dataFlags(cmd)
	all := cmd.Flags().Bool("all", false, "every queue")
	cmd.Flags().StringVar(&ex.dir, "output", "", "where the files go")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case ex.dir == "":
			return fmt.Errorf("where to? Say --output DIR")
		case *all != (len(args) == 0):
			return fmt.Errorf("which queues? Name them, or say --all")
		}
		ex.out, ex.warn = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return data.read(ex.warn, func(c *config.Config, s *engine.Snapshot) error { return ex.run(c, s, args) })
	}
	return cmd
}

// temporaryPrefix is how the names of files begin that are not whole yet. Neither server reads a file with ~~ in its name.
// A queue's own name may leave no room for more. The original calls a file export~~NUMBER that it writes for a queue
// called export.
const temporaryPrefix = "export~~"

// exporter is one export.
type exporter struct {
	dir       string
	out, warn io.Writer
	progress  *cli.Progress
}

// run exports the queues called names, or all if there are no names.
func (ex *exporter) run(c *config.Config, s *engine.Snapshot, names []string) error {
	if err := CheckImported(c.Engine.Dir); err != nil {
		return err // a part of a queue would look like the queue
	}
	found := make(map[string]bool)
	for _, q := range s.Queues {
		found[q.Name] = true
	}
	if len(names) == 0 {
		for _, q := range s.Queues {
			names = append(names, q.Name)
		}
	}
	for _, name := range names {
		if !found[name] {
			return cli.Failed("there is no queue %q in %s; nothing was exported", name, c.Engine.Dir)
		}
	}
	named := make(map[string]bool)
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := named[name]
		named[name] = true
		return again
	})
	if err := (segment.OS{}).MkdirAll(ex.dir); err != nil {
		return cli.Failed("nothing was exported: %s", err)
	}
	if err := ex.checkFree(names); err != nil {
		return err
	}
	removeLeftovers(ex.dir, temporaryPrefix)
	ex.progress = cli.TerminalProgress(ex.warn, "exported", cli.Items, itemsOf(s, names))
	for _, name := range names {
		if err := ex.queue(s, name); err != nil {
			return cli.Failed("the export is not complete: queue %q: %s", name, err)
		}
	}
	return nil
}

// checkFree returns a *failure if there are files of the queues already: two would be one queue. A supplement may be
// the only copy of what it has.
func (ex *exporter) checkFree(names []string) error {
	entries, err := os.ReadDir(ex.dir)
	if err != nil {
		return cli.Failed("nothing was exported: %s", err)
	}
	taken := make(map[string]string)
	for _, entry := range entries {
		queue, _, _ := strings.Cut(entry.Name(), ".")
		taken[queue] = entry.Name()
	}
	for _, name := range names {
		if file := cmp.Or(taken[name], taken[supplementName(name)]); file != "" {
			return cli.Failed("nothing was exported: %s is there already: choose another directory with"+
				" --output", filepath.Join(ex.dir, file))
		}
	}
	return nil
}

// queue exports one queue. The supplement is there first: the queue's file says that all is.
func (ex *exporter) queue(s *engine.Snapshot, name string) error {
	var items, bytes int64
	path := filepath.Join(ex.dir, name)
	supplement := filepath.Join(ex.dir, supplementName(name))
	temporary := filepath.Join(ex.dir, fmt.Sprintf("%s%d~%d", temporaryPrefix, os.Getpid(), engine.Now()))
	var rich uint64
	err := writeDurably(path, temporary, func(w io.Writer) error {
		return writeDurably(supplement, temporary+".supplement", func(beside io.Writer) error {
			out, more := bufio.NewWriterSize(w, 1<<20), newSupplement(beside)
			var buf []byte
			var failed error
			err := s.EachStanding(name, func(it engine.Item, stands engine.Standing) bool {
				buf = oldjournal.Append(buf[:0], &oldjournal.Record{
					Op: oldjournal.OpAddX, Added: int64(it.Added), Expiry: int64(it.Expiry), Data: it.Data,
				})
				items++
				ex.progress.Add(1)
				bytes += int64(len(it.Data))
				if _, failed = out.Write(buf); failed == nil {
					failed = more.add(&it, stands, buf)
				}
				return failed == nil
			})
			rich = more.rich
			return errors.Join(err, failed, more.end(), out.Flush())
		}, segment.OS{}.SyncDir)
	}, segment.OS{}.SyncDir)
	ex.progress.End()
	if err != nil {
		os.Remove(supplement) // the queue's file is not there
		return err
	}
	fmt.Fprintf(ex.out, "%s: %s, %s\n", cli.OneLine(path), cli.Counted(items, "item"), cli.Counted(bytes, "byte"))
	if rich > 0 {
		fmt.Fprintf(ex.warn, "%s: %s with what the original does not have: it is in %s\n",
			cli.OneLine(name), cli.Counted(int64(rich), "item"), supplement)
	}
	return nil
}
