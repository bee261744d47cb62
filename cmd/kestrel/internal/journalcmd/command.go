package journalcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

const journalPage = `Usage:
    kestrel journal import DIR --data-dir DATA
    kestrel journal export QUEUE... --output DIR --data-dir DATA
    kestrel journal inspect [QUEUE...] --data-dir DATA
    kestrel journal verify --data-dir DATA
    kestrel journal repair --data-dir DATA [--apply]

Works on the files of a server that is not running. DATA is its data directory;
--config FILE says the same as it does to 'kestrel serve', data_dir included.

Commands:
    import   take over the queues of the original Kestrel
    export   write queues as the original's journal files
    inspect  show what a data directory holds, and change nothing
    verify   say whether a server would start on it, and change nothing
    repair   say what damage has cost; with --apply, save the rest

'kestrel journal COMMAND --help' says more.
`

// New returns `kestrel journal` and what belongs to it.
func New() *cobra.Command {
	cmd := cli.Group("journal", "look at, check, repair, import and export journals", journalPage)
	cmd.AddCommand(newJournalImport(), newJournalExport(), newJournalInspect(), newJournalVerify(),
		newJournalRepair())
	return cmd
}

// dataPlace is where a command finds its data directory.
type dataPlace struct{ config, dir string }

// dataFlags gives cmd the flags that say which data directory it works on.
func dataFlags(cmd *cobra.Command) *dataPlace {
	p := new(dataPlace)
	cmd.Flags().StringVar(&p.config, "config", "", "configuration file of the server")
	cmd.Flags().StringVar(&p.dir, "data-dir", "", "data directory")
	return p
}

// load returns the configuration that says where the data directory is.
func (p *dataPlace) load() (*config.Config, error) {
	if p.config == "" && p.dir == "" {
		return nil, fmt.Errorf("which data directory? Say --data-dir DIR, or --config FILE")
	}
	s := config.Source{File: p.config}
	if p.dir != "" {
		s.Overrides = []config.Override{{Key: "data_dir", Flag: "data-dir", Value: p.dir}}
	}
	return s.Load()
}
