package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NewRoot returns a command that others can be added to, and that prints pages as they are written.
func NewRoot() *cobra.Command {
	root := &cobra.Command{Use: "kestrel", SilenceUsage: true, SilenceErrors: true}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpTemplate("{{.Long | trimTrailingWhitespaces}}\n")
	root.SetUsageTemplate("Try '{{.CommandPath}} --help'.\n")
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// usageReport is an error that takes more than a line. The program exits with exitUsage.
type usageReport interface {
	error
	// Print writes it, with line ends.
	Print(w io.Writer)
}

// execute runs the command line args of root and returns the exit code.
func Run(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteC()
	var failed *Failure
	var long usageReport
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &failed):
		fmt.Fprintf(stderr, "kestrel: %s\n", OneLine(failed.Error()))
		return failed.Code
	case errors.As(err, &long):
		long.Print(stderr)
		return ExitUsage
	}
	words := strings.Join(strings.Fields(err.Error()), " ")
	words = strings.Replace(words, " Did you mean this? ", "; did you mean: ", 1)
	fmt.Fprintf(stderr, "kestrel: %s\nTry '%s --help'.\n", words, ran.CommandPath())
	return ExitUsage
}

// commandGroup returns a command that does nothing but hold others.
func Group(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		},
	}
}

// NoArguments refuses arguments that are not flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("'%s' takes no arguments, have %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// WriteFlags lists flags, each with what it means and its default.
func WriteFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		b.WriteString("    ")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "-%s, ", f.Shorthand)
		}
		b.WriteString("--" + f.Name)
		if f.Value.Type() != "bool" {
			b.WriteString(" " + kind)
			if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "[]" {
				fmt.Fprintf(b, " (default %s)", f.DefValue)
			}
		}
		b.WriteString("\n" + Wrap(usage, "        ", 80) + "\n")
	})
}
