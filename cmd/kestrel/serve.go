package main

import (
	"fmt"

	"github.com/spf13/cobra"
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
	c := defaultConfig()
	return append(flagsOf(serverOptions(), c), flagsOf(queueOptions(), &c.engine.Settings.Default)...)
}

func flagsOf[T any](groups []group[T], defaults *T) []serveFlag {
	var flags []serveFlag
	for _, g := range groups {
		for _, o := range g.options {
			if o.flag != "" {
				v := o.at(defaults)
				flags = append(flags, serveFlag{o.flag, o.key, v.kind(), o.help, unquoted(v), g.title})
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
		Short: "run a server until it is told to stop",
		Long:  serveHelp(),
		Args:  noArguments,
	}
	file := cmd.Flags().String("config", "", "configuration file")
	values := make(map[string]*string)
	for _, f := range serveFlags() {
		values[f.name] = cmd.Flags().String(f.name, f.byDefault, f.help)
		if f.kind == (boolValue{}).kind() {
			cmd.Flags().Lookup(f.name).NoOptDefVal = "true"
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("config") && *file == "" {
			return fmt.Errorf("flag --config needs the name of a file")
		}
		s := source{file: *file}
		for _, f := range serveFlags() {
			if cmd.Flags().Changed(f.name) {
				s.overrides = append(s.overrides, override{f.key, f.name, *values[f.name]})
			}
		}
		return serve(s, cmd.ErrOrStderr())
	}
	return cmd
}
