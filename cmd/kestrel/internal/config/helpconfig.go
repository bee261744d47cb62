package config

import (
	"fmt"
	"strings"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

const configPage = `Usage:
    kestrel config check FILE     report every mistake in a configuration file
    kestrel config import FILE    translate a file of the original Kestrel

The configuration file of 'kestrel serve --config FILE' is TOML. Any key may be
left out.

    data_dir = "/var/lib/kestrel"    # keys of the server come first

    [default]                        # options of every queue
    max_memory_size = "64MiB"

    [queues.work]                    # except for this one
    max_items = 1_000_000

    [queues."work+audit"]            # a fanout child: the rest as for work
    max_age = "1h"

    [aliases.all]                    # a put to all is a put to both
    destination_queues = ["work", "mail"]

A name with characters other than letters, digits, _ and - needs quotes.

    size       1048576, "64KiB", "16MiB", "1GiB"; "10MB" is 10^7
    duration   "100ms", "30s", "1h30m", "7d", or 0; at least 1ms
    "none"     not set, even if [default] or the parent sets it

A reload applies changes of keys marked *; other changes need a restart.
`

// Help is what `kestrel help config` prints.
func Help() string {
	var b strings.Builder
	b.WriteString(configPage)
	c := Default()
	b.WriteString("\nAt the top of the file\n")
	writeKeys(&b, ServerOptions(), c)
	b.WriteString("\nUnder [default] and [queues.NAME]\n")
	writeKeys(&b, QueueOptions(), &c.Engine.Settings.Default)
	b.WriteString("\nUnder [aliases.NAME]\n")
	writeKeys(&b, AliasOptions(), new([]string))
	b.WriteString("\nUnder [[listener]]\n")
	l := defaultListener()
	writeKeys(&b, ListenerOptions(), &l)
	b.WriteString("\nUnder [tls.NAME]\n")
	files := defaultFiles()
	writeKeys(&b, TLSOptions(), &files)
	b.WriteString("\nUnder [users.NAME]\n")
	writeKeys(&b, UserOptions(), new(access.User))
	b.WriteString("\nUnder [accounts.NAME]\n")
	writeKeys(&b, AccountOptions(), new(netloop.AccountQuota))
	b.WriteString("\nUnder [discovery]\n")
	writeKeys(&b, DiscoveryOptions(), &c.Discovery)
	b.WriteString("\nUnder [discovery.zookeeper]\n")
	writeKeys(&b, ZooKeeperOptions(), &c.Discovery)
	return b.String()
}

func writeKeys[T any](b *strings.Builder, groups []Group[T], defaults *T) {
	for _, g := range groups {
		if len(groups) > 1 {
			fmt.Fprintf(b, "\n  %s\n", g.Title)
		}
		for _, o := range g.Options {
			v, mark := o.At(defaults), " "
			if o.Live {
				mark = "*"
			}
			fmt.Fprintf(b, "  %s %-33s %-22s %s\n        %s\n", mark, o.Key, v.Kind(), v, o.describe())
		}
	}
}

// describe is what the option means, or why it means nothing.
func (o Option[T]) describe() string {
	if o.Idle != "" {
		return "no effect: " + o.Idle
	}
	return o.Help
}

// Tables is the tables of docs/CONFIGURATION.md.
func Tables() string {
	var b strings.Builder
	c := Default()
	writeTables(&b, "At the top of the file", ServerOptions(), c)
	writeTables(&b, "Under `[default]` and `[queues.NAME]`", QueueOptions(),
		&c.Engine.Settings.Default)
	writeTables(&b, "Under `[aliases.NAME]`", AliasOptions(), new([]string))
	l := defaultListener()
	writeTables(&b, "Under `[[listener]]`", ListenerOptions(), &l)
	files := defaultFiles()
	writeTables(&b, "Under `[tls.NAME]`", TLSOptions(), &files)
	writeTables(&b, "Under `[users.NAME]`", UserOptions(), new(access.User))
	writeTables(&b, "Under `[accounts.NAME]`", AccountOptions(), new(netloop.AccountQuota))
	writeTables(&b, "Under `[discovery]`", DiscoveryOptions(), &c.Discovery)
	writeTables(&b, "Under `[discovery.zookeeper]`", ZooKeeperOptions(), &c.Discovery)
	return b.String()
}

func writeTables[T any](b *strings.Builder, where string, groups []Group[T], defaults *T) {
	fmt.Fprintf(b, "### %s\n", where)
	for _, g := range groups {
		fmt.Fprintf(b, "\n**%s**\n\n| key | type | default | meaning | flag | once called |\n"+
			"| --- | --- | --- | --- | --- | --- |\n", g.Title)
		for _, o := range g.Options {
			v, key, flag := o.At(defaults), code(o.Key), ""
			kind := strings.ReplaceAll(v.Kind(), "|", " \\| ")
			if o.Live {
				key += " *"
			}
			if o.Flag != "" {
				flag = code("--" + o.Flag)
			}
			var was []string
			for _, name := range o.Was {
				was = append(was, code(name))
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", key, kind, code(v.String()),
				o.describe(), flag, strings.Join(was, ", "))
		}
	}
	b.WriteByte('\n')
}

func code(s string) string { return "`" + s + "`" }
