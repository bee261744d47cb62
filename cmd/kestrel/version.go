package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/netloop"
)

const versionPage = `Usage:
    kestrel version

Prints the version, and what it was built with and from.

Example:
    $ kestrel version
    kestrel …
    go…
    revision …
`

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version, and what it was built with and from",
		Long:  versionPage,
		Args:  cli.NoArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionText())
		},
	}
}

// versionText is what `kestrel version` prints.
func versionText() string {
	return fmt.Sprintf("kestrel %s\n%s %s/%s\nrevision %s\n",
		netloop.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, cli.Revision())
}
