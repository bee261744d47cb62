package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newConfigTopic returns the help topic `kestrel help config`, and the commands that belong to it.
func newConfigTopic() *cobra.Command {
	cmd := commandGroup("config", "what the configuration file may hold; check or import one",
		configHelp())
	cmd.AddCommand(newConfigCheck(), newConfigImport())
	return cmd
}

const configPage = `Usage:
    kestrel config check FILE     say what is wrong with a configuration file
    kestrel config import FILE    translate one of the original Kestrel

The configuration file of 'kestrel serve --config FILE' is TOML. Any key may be
left out.

    data_dir = "/var/lib/kestrel"    # keys of the server come first

    [default]                        # what holds for every queue
    max_memory_size = "64MiB"

    [queues.work]                    # except for this one
    max_items = 1_000_000

    [queues."work+audit"]            # a fanout child: else like work
    max_age = "1h"

    [aliases.all]                    # a put to all is a put to both
    destination_queues = ["work", "mail"]

A name with other characters than letters, digits, _ and - needs quotes.

    size       1048576, "64KiB", "16MiB", "1GiB"; "10MB" is 10^7
    duration   "100ms", "30s", "1h30m", "7d", or 0; at least 1ms
    "none"     not set, also where [default] or the parent has something

A reload applies changes of what is marked *; other changes need a restart.
`

// configHelp is what `kestrel help config` prints.
func configHelp() string {
	var b strings.Builder
	b.WriteString(configPage)
	c := defaultConfig()
	b.WriteString("\nAt the top of the file\n")
	writeKeys(&b, serverOptions(), c)
	b.WriteString("\nUnder [default] and [queues.NAME]\n")
	writeKeys(&b, queueOptions(), &c.engine.Settings.Default)
	b.WriteString("\nUnder [aliases.NAME]\n")
	writeKeys(&b, aliasOptions(), new([]string))
	return b.String()
}

func writeKeys[T any](b *strings.Builder, groups []group[T], defaults *T) {
	for _, g := range groups {
		if len(groups) > 1 {
			fmt.Fprintf(b, "\n  %s\n", g.title)
		}
		for _, o := range g.options {
			v, mark := o.at(defaults), " "
			if o.live {
				mark = "*"
			}
			fmt.Fprintf(b, "  %s %-33s %-22s %s\n        %s\n", mark, o.key, v.kind(), v, o.describe())
		}
	}
}

// describe is what the option means, or why it means nothing.
func (o option[T]) describe() string {
	if o.idle != "" {
		return "no effect: " + o.idle
	}
	return o.help
}

// configTables is the tables of docs/CONFIGURATION.md.
func configTables() string {
	var b strings.Builder
	c := defaultConfig()
	writeTables(&b, "At the top of the file", serverOptions(), c)
	writeTables(&b, "Under `[default]` and `[queues.NAME]`", queueOptions(),
		&c.engine.Settings.Default)
	writeTables(&b, "Under `[aliases.NAME]`", aliasOptions(), new([]string))
	return b.String()
}

func writeTables[T any](b *strings.Builder, where string, groups []group[T], defaults *T) {
	fmt.Fprintf(b, "### %s\n", where)
	for _, g := range groups {
		fmt.Fprintf(b, "\n**%s**\n\n| key | type | default | meaning | flag | once called |\n"+
			"| --- | --- | --- | --- | --- | --- |\n", g.title)
		for _, o := range g.options {
			v, key, flag := o.at(defaults), code(o.key), ""
			kind := strings.ReplaceAll(v.kind(), "|", " \\| ")
			if o.live {
				key += " *"
			}
			if o.flag != "" {
				flag = code("--" + o.flag)
			}
			var was []string
			for _, name := range o.was {
				was = append(was, code(name))
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", key, kind, code(v.String()),
				o.describe(), flag, strings.Join(was, ", "))
		}
	}
	b.WriteByte('\n')
}

func code(s string) string { return "`" + s + "`" }
