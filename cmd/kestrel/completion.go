package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/netloop"
)

const completionPage = `Usage:
    kestrel completion bash|zsh|fish

Prints a script with which a shell completes kestrel's commands, their flags,
and names of queues. The names are those of the server that --server, a profile
or $KESTREL_SERVER names.

The first line of the example is for this shell, the others for all later ones.
The script of zsh goes to _kestrel in a directory of $fpath.

Example:
    $ source <(kestrel completion bash)
    $ mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions
    $ kestrel completion bash > ~/.local/share/bash-completion/completions/kestrel
    $ kestrel completion zsh > _kestrel
    $ kestrel completion fish > ~/.config/fish/completions/kestrel.fish
`

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion",
		Short: "print completions for bash, zsh or fish",
		Long:  completionPage,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("'kestrel completion' needs the name of a shell: bash, zsh or fish")
			}
			switch out := cmd.OutOrStdout(); args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			}
			return fmt.Errorf("there are completions for bash, zsh and fish, and not for %q", args[0])
		},
	}
}

const manPage = `Usage:
    kestrel man DIR

Writes a man page for each command into a directory: what 'kestrel COMMAND
--help' prints.

Example:
    $ mkdir man1
    $ kestrel man man1
    $ ls man1/kestrel-serve.1
    man1/kestrel-serve.1
`

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "write man pages",
		Long:  manPage,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("'kestrel man' needs a directory to write to")
			}
			return writeMan(cmd.Root(), args[0])
		},
	}
}

// writeMan writes the man pages of all commands. The same program writes the same bytes.
func writeMan(root *cobra.Command, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cli.Failed("write man pages: there is no directory %s", filepath.Clean(dir))
	}
	root.DisableAutoGenTag = true
	root.Short = "durable message-queue server, and its clients"
	useSynopsis(root)
	useManText(root)
	hideFlags(root) // the pages list them
	built := cli.RevisionTime()
	header := &doc.GenManHeader{Section: "1", Source: "kestrel " + netloop.Version, Manual: "kestrel", Date: &built}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return cli.Failed("write man pages: %v", err)
	}
	return nil
}

// hideFlags keeps the flags of all commands out of what is made from the tree.
func hideFlags(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	for _, child := range cmd.Commands() {
		hideFlags(child)
	}
}
