package journalcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/engine"
)

const verifyPage = `Usage:
    kestrel journal verify --data-dir DATA [--config FILE]

Reads every byte that a server would read when it starts on DATA, checks it, and
says whether the server would start. It changes nothing; no server may run on
DATA. Of a backlog it reads what a server reads at its start; 'kestrel journal
repair' without --apply reads all of it.

Flags:
    --config FILE, --data-dir DATA
        the data directory

Example:
    $ kestrel journal verify --data-dir data
    sound: … segments, … bytes, 1 queue, 2 items

Exit status:
    0  sound: a server starts
    1  could not be checked: it is missing, in use, or cannot be read; or a
       newer release wrote it; or an import into it is not finished, and no
       server starts before it is
    2  the flags or the configuration are wrong
    3  torn at the end, as a power cut leaves it: a server starts, cuts the end
       off and keeps a copy of it
    4  damaged: no server starts, and the path and offset of the first damage
       are shown; or a server starts and withholds the queues that are named
`

func newJournalVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify", Short: "say whether a server would start on a data directory",
		Long: verifyPage, Args: cli.NoArguments,
	}
	data := dataFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return data.read(cmd.ErrOrStderr(), func(c *config.Config, s *engine.Snapshot) error {
			return verify(c, s, cmd.OutOrStdout())
		})
	}
	return cmd
}

// verify says what a server would say of a journal that is not damaged.
func verify(c *config.Config, s *engine.Snapshot, out io.Writer) error {
	in, err := inspectionOf(c, s)
	if err != nil {
		return err
	}
	if err := CheckImported(c.Engine.Dir); err != nil {
		return err
	}
	var items int64
	for _, q := range in.Queues {
		items += q.Items
	}
	what := fmt.Sprintf("%s, %s, %s, %s", cli.Counted(len(in.Segments), "segment"),
		cli.Counted(in.JournalBytes, "byte"), cli.Counted(len(in.Queues), "queue"), cli.Counted(items, "item"))
	if t := in.Torn; t != nil {
		return &cli.Failure{Code: cli.ExitTorn, Text: fmt.Sprintf("torn at the end: %s, offset %d: %s: a server starts,"+
			" cuts it off there and keeps a copy; in front of it are %s", t.Path, t.Offset, t.Reason,
			what)}
	}
	fmt.Fprintf(out, "sound: %s\n", what)
	return nil
}

// explainWithheld says which queues a server would not serve, and why; nil if it would serve all.
func explainWithheld(s *engine.Snapshot) error {
	if len(s.Withheld) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "damaged: a server starts, but withholds %s; 'kestrel journal repair' says what is lost,"+
		" and with --apply saves the rest", cli.Counted(len(s.Withheld), "queue"))
	for _, q := range s.Withheld {
		fmt.Fprintf(&text, "\n  %s: %s", cli.OneLine(q.Name), q.Reason)
	}
	return &cli.Failure{Code: cli.ExitDamage, Text: text.String()}
}
