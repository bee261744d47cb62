package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

// serveFlag is a flag of `kestrel serve` that overrides a key of the configuration.
type serveFlag struct {
	name, key string
	kind      string
	help      string
	byDefault string
	group     string
}

// serveFlags returns the flags that the tables of options define, in their order.
func serveFlags() []serveFlag {
	c := config.Default()
	return append(flagsOf(config.ServerOptions(), c), flagsOf(config.QueueOptions(), &c.Engine.Settings.Default)...)
}

func flagsOf[T any](groups []config.Group[T], defaults *T) []serveFlag {
	var flags []serveFlag
	for _, g := range groups {
		for _, o := range g.Options {
			if o.Flag != "" {
				v := o.At(defaults)
				flags = append(flags, serveFlag{o.Flag, o.Key, v.Kind(), o.Help, unquoted(v), g.Title})
			}
		}
	}
	return flags
}

// newServe returns `kestrel serve`. Flags are strings here; the options they set check them,
// together with the file.
func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run a server until a signal or a client stops it",
		Long:  serveHelp(),
		Args:  cli.NoArguments,
	}
	file := cmd.Flags().String("config", "", "configuration file")
	values := make(map[string]*string)
	for _, f := range serveFlags() {
		values[f.name] = cmd.Flags().String(f.name, f.byDefault, f.help)
		if f.kind == config.KindBool {
			cmd.Flags().Lookup(f.name).NoOptDefVal = "true"
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("config") && *file == "" {
			return fmt.Errorf("flag --config needs the name of a file")
		}
		s := config.Source{File: *file}
		for _, f := range serveFlags() {
			if cmd.Flags().Changed(f.name) {
				s.Overrides = append(s.Overrides, config.Override{Key: f.key, Flag: f.name, Value: *values[f.name]})
			}
		}
		return serve(s, cmd.ErrOrStderr())
	}
	return cmd
}
