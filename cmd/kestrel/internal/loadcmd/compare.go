package loadcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

const loadComparePage = `Usage:
    kestrel load compare A.json B.json...

Prints what runs have reached side by side, with the ratio of each to the first.
Runs with the same --label are rounds of one side. Interleave the sides, as in
A B A B, so that a slow minute of the machine hits both. With one run a side,
the intervals of each run take the place of rounds.

A ratio is that of the medians. The range in brackets is its 95 % confidence
interval, found by resampling. A range with 1 in it may be chance.

Example:
    $ kestrel load flood --spawn -n 20000 --label old --output old1 > old1.txt
    $ kestrel load flood --spawn -n 20000 --label new --output new1 > new1.txt
    $ kestrel load compare old1.json new1.json
    …
`

func newLoadCompare() *cobra.Command {
	return &cobra.Command{
		Use: "compare FILE...", Short: "ratios of runs, with their spread", Long: loadComparePage,
		RunE: func(cmd *cobra.Command, files []string) error {
			runs, err := readRuns(files, 2)
			if err != nil {
				return err
			}
			if err := figures.Compare(cmd.OutOrStdout(), runs); err != nil {
				return cli.Failed("load compare: %s", err)
			}
			return nil
		},
	}
}

// readRuns reads at least so many runs. Unnamed ones are called by their files.
func readRuns(files []string, least int) ([]*figures.Run, error) {
	if len(files) < least {
		return nil, fmt.Errorf("which runs? Name at least %s that --output of a scenario has written",
			cli.Counted(least, "file"))
	}
	var runs []*figures.Run
	var errs []error
	for _, file := range files {
		r, err := figures.Read(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r.Label == "" {
			r.Label = file
		}
		runs = append(runs, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, cli.Failed("%s", err)
	}
	return runs, nil
}
