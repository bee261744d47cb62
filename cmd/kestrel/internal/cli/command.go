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
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { // cobra's own also prints an error of the output
		fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(cmd.Long, " \n"))
	})
	root.SetUsageTemplate("Try '{{.CommandPath}} --help'.\n")
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// usageReport is an error that takes more than a line. The program exits with ExitUsage.
type usageReport interface {
	error
	// Print writes it, with line ends.
	Print(w io.Writer)
}

// Run runs the command line args of root and returns the exit code. It is no success if the output is incomplete.
func Run(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	out := &output{w: stdout}
	if IsTerminal(stdout) {
		root.SetOut(stdout) // commands ask it how wide it is
	} else {
		root.SetOut(out)
	}
	root.SetErr(stderr)
	refuseUnknownTopics(root)
	ran, err := root.ExecuteC()
	err = out.judge(err)
	var failed *Failure
	var long usageReport
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &failed):
		fmt.Fprintf(stderr, "kestrel: %s\n", ErrorLine(failed))
		return failed.Code
	case errors.As(err, &long):
		long.Print(stderr)
		return ExitUsage
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		err = wrongValue(value)
	}
	words, near, found := strings.Cut(err.Error(), "Did you mean this?") // cobra's
	words = strings.Join(strings.Fields(ErrorLine(errors.New(words))), " ")
	if found {
		words += "; did you mean: " + strings.Join(strings.Fields(near), " ")
	}
	if ran.Name() == "help" {
		ran = root
	}
	fmt.Fprintf(stderr, "kestrel: %s\nTry '%s --help'.\n", words, ran.CommandPath())
	return ExitUsage
}

// refuseUnknownTopics has `help` of what is no command be an error. cobra prints a line and succeeds.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help.Run == nil {
		return
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if _, _, err := root.Find(args); err != nil {
			return err
		}
		show(cmd, args)
		return nil
	}
}

// wrongValue says what a flag wants in place of the value that it has.
func wrongValue(e *pflag.InvalidValueError) error {
	want := ""
	switch e.GetFlag().Value.Type() {
	case "duration":
		want = "want a time such as 500ms, 30s or 2h"
	case "int", "int64":
		want = "want a whole number"
	case "uint32":
		want = "want a whole number from 0 to 4294967295"
	case "uint64":
		want = "want a whole number, 0 or more"
	case "float64":
		want = "want a number"
	case "bool":
		want = "want true or false"
	default:
		want = e.Unwrap().Error()
	}
	return fmt.Errorf("--%s %q: %s", e.GetFlag().Name, e.GetValue(), want)
}

// Group returns a command that does nothing but hold others.
func Group(name, short, long string) *cobra.Command {
	group := &cobra.Command{
		Use: name, Short: short, Long: long, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	// The flags behind a misspelt command are those of another one.
	group.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == group && cmd.Flags().NArg() > 0 {
			return unknownCommand(cmd, cmd.Flags().Arg(0))
		}
		return err
	})
	return group
}

// unknownCommand is the error of a group without a command of that name.
func unknownCommand(group *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, group.CommandPath())
	if near := group.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean: " + strings.Join(near, " ")
	}
	return errors.New(text)
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
