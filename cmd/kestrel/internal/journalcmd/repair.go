package journalcmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
)

const repairPage = `Usage:
    kestrel journal repair --data-dir DATA [--config FILE] [--apply]

Reads all of DATA, backlogs included. It says what is damaged, which items are
lost by that, and what a repair would leave. Without --apply it changes nothing.
No server may run on DATA.

With --apply it writes what is left to a new journal and new files of backlogs.
They take the place of the damaged ones in one step. Before that it copies the
old journal, and every backlog file that it replaces, to DATA/damaged.N. The
copies take as much room again. Move them back to undo the repair.

If the records of removals are lost, their items may be delivered once more. A
queue whose name is lost becomes recovered-N. repair does not read a failing
disk: first copy what it still gives to another one.

Flags:
    --apply
        repair; without it nothing is changed
    --config FILE, --data-dir DATA
        the data directory

Example:
    $ kestrel journal repair --data-dir data
    sound, backlogs included: 1 queue, 2 items, 10 bytes

Exit status:
    0  nothing is damaged, or with --apply: repaired, and a server starts
    1  could not be done: it is missing, in use, or cannot be read or written;
       or an import into it is not finished; or it is beyond repair
    2  the flags or the configuration are wrong
    3  torn at the end, as a power cut leaves it: a server starts without a
       repair
    4  damaged; nothing was changed
`

func newJournalRepair() *cobra.Command {
	cmd := &cobra.Command{
		Use: "repair", Short: "say what a damaged data directory has lost, and save the rest",
		Long: repairPage, Args: cli.NoArguments,
	}
	data := dataFlags(cmd)
	apply := cmd.Flags().Bool("apply", false, "repair")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := data.load()
		if err != nil {
			return err
		}
		if err := CheckImported(c.Engine.Dir); err != nil {
			return err
		}
		d, err := examineOn(cmd.ErrOrStderr(), c)
		if err != nil {
			return explainRepair(err, c)
		}
		defer d.Close()
		return repair(c, d, *apply, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// examineOn is engine.Examine, and shows on a terminal how far it is.
func examineOn(said io.Writer, c *config.Config) (*engine.Damage, error) {
	c.Engine.Progress = new(engine.Progress)
	defer cli.Watch(said, "examined", cli.Bytes, c.Engine.Progress.Bytes)()
	return engine.Examine(c.Engine)
}

// repairOn is d.Repair, and shows on a terminal how far the copies are that it keeps.
func repairOn(said io.Writer, c *config.Config, d *engine.Damage) error {
	p := c.Engine.Progress
	examined, expected := p.Bytes()
	defer cli.Watch(said, "copied", cli.Bytes, func() (done, total int64) {
		done, total = p.Bytes()
		return done - examined, total - expected
	})()
	return d.Repair()
}

// explainRepair says why a directory cannot be examined.
func explainRepair(err error, c *config.Config) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failed("there is no journal in %s", c.Engine.Dir)
	case errors.Is(err, segment.ErrUnknownVersion), config.JournalIsMissing(err):
		return config.Explain(err, c)
	case errors.Is(err, segment.ErrCorrupt):
		return cli.Failed("beyond repair: the files are undamaged, but their records contradict each other: %s", err)
	case errors.Is(err, engine.ErrLocked), errors.Is(err, fs.ErrPermission):
		return config.Explain(err, c)
	}
	return cli.Failed("%s", err)
}

// repair reports the damage, and with apply mends it.
func repair(c *config.Config, d *engine.Damage, apply bool, out, said io.Writer) error {
	printKept(out, c.Engine.Dir)
	if d.Sound() {
		fmt.Fprintf(out, "sound, backlogs included: %s\n", leaves(d))
		return nil
	}
	printDamage(out, d)
	if !apply {
		if d.Tear != nil && len(d.Gaps) == 0 {
			return &cli.Failure{Code: cli.ExitTorn, Text: "torn at the end, nothing was changed: a server that starts cuts" +
				" it off and keeps a copy, as --apply does"}
		}
		return &cli.Failure{Code: cli.ExitDamage, Text: "damaged, nothing was changed: --apply repairs it, and keeps a copy" +
			" of what it replaces"}
	}
	if err := repairOn(said, c, d); err != nil {
		return cli.Failed("%s", err)
	}
	if err := d.Close(); err != nil {
		return cli.Failed("%s", err)
	}
	if err := checkRepaired(c, d, said); err != nil {
		return err
	}
	fmt.Fprintf(out, "repaired; what was there before is in %s\n", d.Saved)
	return nil
}

// printKept names what earlier repairs have put aside: nothing else ever removes it.
func printKept(out io.Writer, dataDir string) {
	entries, _ := os.ReadDir(dataDir) // it has just been read
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "damaged.") && entry.IsDir() {
			fmt.Fprintf(out, "kept by an earlier repair: %s: remove it when nobody needs it any more\n",
				filepath.Join(dataDir, entry.Name()))
		}
	}
}

// checkRepaired looks at a repaired directory as a server that starts would.
func checkRepaired(c *config.Config, d *engine.Damage, said io.Writer) error {
	s, err := inspectOn(said, c)
	if err != nil {
		return cli.Failed("repaired, but the result cannot be read; what was there before is in %s: %s", d.Saved, err)
	}
	defer s.Close()
	same := s.Tear == nil && len(s.Withheld) == 0 && len(s.Queues) == len(d.Queues)
	for i := 0; same && i < len(s.Queues); i++ {
		q := s.Queues[i]
		if q.Delayed > 0 { // of many delayed items that are gone a start estimates the bytes
			q.Bytes = d.Queues[i].Bytes
		}
		same = d.Queues[i] == engine.SalvagedQueue{
			Name: q.Name, Items: q.Items, Bytes: q.Bytes, NextID: q.NextID,
		}
	}
	if !same {
		return cli.Failed("repaired, but the result differs from what was announced; what was there before is in %s",
			d.Saved)
	}
	return nil
}

// printDamage says what is damaged, what is lost, and what is left.
func printDamage(out io.Writer, d *engine.Damage) {
	if t := d.Tear; t != nil {
		fmt.Fprintf(out, "torn: %s, offset %d: %s: what follows was never known to be on disk\n",
			t.Path, t.Offset, t.Reason)
	}
	unknown := false
	for _, g := range d.Gaps {
		fmt.Fprintf(out, "damaged: %s, offset %d: %s%s\n", g.Path, g.Offset, gapSize(g), g.Reason)
		unknown = unknown || g.Batches && !g.Run
	}
	for _, l := range d.Losses {
		fmt.Fprintf(out, "lost: %s\n", lossText(l))
	}
	for _, u := range d.Stray {
		what := "nothing in it can be read"
		switch {
		case u.Removed > 0:
			what = fmt.Sprintf("it lists %s, which may be delivered once more", cli.Counted(u.Removed, "removed item"))
		case u.Items > 0:
			what = fmt.Sprintf("%s of %s, ids %d to %d", cli.Counted(u.Items, "item"),
				cli.Counted(u.Bytes, "byte"), u.FirstID, u.LastID)
		}
		fmt.Fprintf(out, "lost unless it was used up, or a killed repair left it: %s, whose queue no record names: %s\n",
			u.Path, what)
	}
	for _, name := range d.Renamed {
		fmt.Fprintf(out, "renamed: a queue whose name is lost becomes %q\n", name)
	}
	for _, name := range d.Dropped {
		fmt.Fprintf(out, "dropped: an older queue %q, which must have been deleted\n", name)
	}
	if unknown {
		fmt.Fprint(out, "not known: what was put last where the journal is damaged or missing, to queues of which\n"+
			"  no later record is left; older items that the journal had there again; and what was removed\n"+
			"  there, which is delivered once more\n")
	}
	fmt.Fprintf(out, "left: %s\n", leaves(d))
	for _, q := range d.Queues {
		fmt.Fprintf(out, "  %s: %s, %s\n", cli.OneLine(q.Name), cli.Counted(q.Items, "item"),
			cli.Counted(q.Bytes, "byte"))
	}
}

func gapSize(g segment.Gap) string {
	if g.Size == 0 {
		return ""
	}
	return cli.Counted(g.Size, "byte") + ": "
}

func lossText(l engine.Loss) string {
	items := cli.Counted(l.Items, "item")
	switch {
	case l.Items < 0:
		items = "perhaps items"
	case l.AtMost:
		items = "up to " + items
	}
	if l.Bytes >= 0 {
		items += " of " + cli.Counted(l.Bytes, "byte")
	}
	text := fmt.Sprintf("queue %q: %s, ids %d to %d", l.Queue, items, l.FirstID, l.LastID)
	if l.Path != "" {
		return fmt.Sprintf("%s, in %s at offset %d", text, l.Path, l.Offset)
	}
	return text + ", in the journal"
}

// leaves counts what can be had.
func leaves(d *engine.Damage) string {
	var items, bytes int64
	for _, q := range d.Queues {
		items, bytes = items+q.Items, bytes+q.Bytes
	}
	return fmt.Sprintf("%s, %s, %s", cli.Counted(len(d.Queues), "queue"), cli.Counted(items, "item"),
		cli.Counted(bytes, "byte"))
}
