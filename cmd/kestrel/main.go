// Command kestrel is a durable message-queue server that speaks Kestrel's protocols.
//
// The options are described once, in the tables of schema.go: flags, the configuration file, the
// help pages, docs/CONFIGURATION.md and what a reload may change are all made from them.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. A process that a second signal ends has 128 plus the number of the signal.
const (
	exitOK     = 0
	exitFailed = 1 // the server could not start, or not stop cleanly
	exitUsage  = 2 // the command line or the configuration is wrong; nothing was started
	exitTorn   = 3 // of `journal verify` and `repair`: the journal is torn at its end
	exitDamage = 4 // of `journal verify`, `repair` and `inspect`: the journal is damaged
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the command line args and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteC()
	var failed *failure
	var wrong *configError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &failed):
		fmt.Fprintf(stderr, "kestrel: %s\n", oneLine(failed.Error()))
		return failed.code
	case errors.As(err, &wrong):
		wrong.print(stderr)
		return exitUsage
	}
	words := strings.Join(strings.Fields(err.Error()), " ")
	fmt.Fprintf(stderr, "kestrel: %s\nTry '%s --help'.\n", words, ran.CommandPath())
	return exitUsage
}

// noArguments refuses arguments that are not flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("'%s' takes no arguments, have %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// newRoot returns the command that all others belong to.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "kestrel",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpTemplate("{{.Long | trimTrailingWhitespaces}}\n")
	root.SetUsageTemplate("Try '{{.CommandPath}} --help'.\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newServe(), newJournal(), newLoad(), newConfigTopic(), newVersion())
	root.Long = rootHelp(root)
	return root
}
