package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/scalaconfig"
)

// newConfigTopic returns the help topic `kestrel help config`, and the commands that belong to it.
func newConfigTopic() *cobra.Command {
	cmd := cli.Group("config", "what the configuration file may hold; check or import one",
		config.Help())
	cmd.AddCommand(newConfigCheck(), newConfigImport())
	return cmd
}

const checkPage = `Usage:
    kestrel config check FILE

Reads a configuration file as 'kestrel serve --config FILE' does, and says what
is wrong with it, by line. It starts and changes nothing.

Example:
    $ kestrel config check kestrel.toml
    kestrel.toml can be used: options for 1 queue, 0 aliases

Exit status: 0 if a server would start with the file; 2 if not.
`

func newConfigCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE", Short: "say what is wrong with a configuration file", Long: checkPage,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("'%s' takes one file, have %d", cmd.CommandPath(), len(args))
		}
		c, err := config.Source{File: args[0]}.Load()
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		for _, w := range c.Warnings {
			fmt.Fprintf(out, "warning: %s\n", w)
		}
		for _, key := range c.Idle {
			o, _ := config.Find(config.All(config.QueueOptions()), key)
			fmt.Fprintf(out, "warning: %s has no effect: %s\n", key, o.Idle)
		}
		settings := &c.Engine.Settings
		fmt.Fprintf(out, "%s can be used: options for %s, %s\n", args[0],
			cli.Counted(len(settings.Queues), "queue"), aliasCount(len(settings.Aliases)))
		return nil
	}
	return cmd
}

func aliasCount(n int) string {
	if n == 1 {
		return "1 alias"
	}
	return fmt.Sprintf("%d aliases", n)
}

const configImportPage = `Usage:
    kestrel config import FILE > kestrel.toml

Translates a configuration file of the original Kestrel 2.x, such as
config/production.scala, to TOML on standard output. On standard error it
lists, by line, what it cannot translate, and what is different here.

It reads assignments, QueueBuilder and AliasBuilder, sizes and durations such as
16.megabytes and 30.seconds. FILE is a program: what else it may compute is
not run.

Example:
    $ kestrel config import production.scala > imported.toml
    note: …
    $ kestrel config check imported.toml
    imported.toml can be used: options for 1 queue, 0 aliases

Exit status: 0 if all of it is translated; 1 if not: what is, is on standard
output all the same; 2 if the command line is wrong.
`

func newConfigImport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import FILE", Short: "translate a configuration file of the original",
		Long: configImportPage,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("'%s' takes one file, have %d", cmd.CommandPath(), len(args))
		}
		return importConfig(args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// importConfig translates a file.
func importConfig(file string, stdout, stderr io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return cli.Failed("%s", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1))
	if err != nil {
		return cli.Failed("%s", err)
	}
	t := scalaconfig.Translate(file, string(src))
	fmt.Fprint(stdout, t)
	for _, n := range t.Notes {
		fmt.Fprintf(stderr, "note: %s\n", n)
	}
	wrong, ok := t.Problems.OrNil().(*config.Error)
	if !ok {
		return nil
	}
	for _, p := range wrong.Problems {
		fmt.Fprintln(stderr, p)
	}
	return cli.Failed("%s of %s could not be translated; what could is on standard output",
		cli.Counted(len(wrong.Problems)+wrong.More, "thing"), file)
}
