// Command kestrel is a durable message-queue server that speaks Kestrel's protocols.
//
// This package wires: it turns a configuration into a running server, handles signals, and stops.
// The options are in internal/config, the other commands in packages of their own beside it.
package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/backupcmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/burrowcmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clientcmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/journalcmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/loadcmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/plancmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/usercmd"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the command line args and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := commands
	if len(args) > 0 && args[0] == "serve" {
		root = serveAlone
	}
	return cli.Run(root(), args, stdout, stderr)
}

// serveAlone returns a command that only serve belongs to. Making the others would delay the start of a server by
// some milliseconds.
func serveAlone() *cobra.Command {
	root := cli.NewRoot()
	root.AddCommand(newServe())
	return root
}

// commands returns the command that all others belong to.
func commands() *cobra.Command {
	root := cli.NewRoot()
	root.Version = versionText()
	root.AddCommand(newServe(), backupcmd.NewBackup(), backupcmd.NewRestore(), journalcmd.New(), loadcmd.New(), plancmd.New(), newConfigTopic(), usercmd.New(), burrowcmd.NewProxy(), newVersion(), newCompletion(), newMan())
	root.AddCommand(clientcmd.New()...)
	root.AddCommand(burrowcmd.NewBurrow())
	root.Long = rootHelp(root)
	return root
}
