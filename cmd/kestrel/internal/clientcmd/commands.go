package clientcmd

import "github.com/spf13/cobra"

// New returns the commands.
func New() []*cobra.Command {
	return append(withoutShell(), newShell())
}

// withoutShell returns the commands that a shell has, too.
func withoutShell() []*cobra.Command {
	return []*cobra.Command{newPut(), newGet(), newPeek(), newLs(), newStat(), newTop(), newClients(), newSniff(), newWatch(),
		newMove(), newRedrive(), newDrain(), newFlush(), newDelete(), newCluster()}
}
