package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clientcmd"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

const rootPage = `Kestrel is a durable message-queue server: named queues that survive a crash,
in one process with one data directory.

Usage:
    kestrel serve [--config FILE] [flags]
    kestrel journal import|export|inspect|verify|repair --data-dir DATA …
    kestrel backup --output DIR
    kestrel restore DIR --data-dir DATA
    kestrel load SCENARIO [--server HOST:PORT | --spawn] [flags]
    kestrel config check|import FILE
    kestrel user hash|token
    kestrel proxy --backend URL [--listen HOST:PORT]
    kestrel burrow VERB [QUEUE [ID]] [--server URL]
    kestrel put|get|peek|ls|stat|top|… [--server HOST:PORT]
    kestrel version
    kestrel help COMMAND

The server:
%s
Its clients:
%s
A server that keeps its queues in ./kestrel-data, and a client:

    $ kestrel serve &
    $ kestrel put work hello
    1 item put into "work"
    $ kestrel get work
    hello
`

// rootHelp is what `kestrel --help` prints.
func rootHelp(root *cobra.Command) string {
	var server, clients strings.Builder
	for _, cmd := range root.Commands() {
		list := &server
		if clientcmd.IsClient(cmd) || cmd.Name() == "burrow" {
			list = &clients
		}
		fmt.Fprintf(list, "    %-10s  %s\n", cmd.Name(), cmd.Short)
	}
	return fmt.Sprintf(rootPage, server.String(), clients.String())
}

const servePage = `Usage:
    kestrel serve [--config FILE] [flags]

Runs a server until SIGTERM, SIGINT or a client's SHUTDOWN stops it; a second
signal ends it at once. SIGHUP, or a client's RELOAD, reads the configuration
file again, with its certificates. It applies the keys that have a * in
'kestrel help config'. The server needs no file: every key has a default.

Flags override the file:
    --config FILE
        TOML; 'kestrel help config' lists its keys
%s
Durations are written 100ms, 30s, 1h30m or 7d.

The first server below keeps queues in ./kestrel-data, with clients on
127.0.0.1:22133. The second has all options from a file. The third takes puts
faster, and a power cut may lose those of the last 100ms. The fourth takes any
free port; the log line "listening" names it:

Example:
    $ kestrel serve
    $ kestrel serve --config kestrel.toml
    $ kestrel serve --data-dir queues --sync-journal 100ms
    $ kestrel serve --memcache-port auto --thrift-port none --text-port none

Exit status: 0 after a clean stop; 1 if the server could not start, or could not
sync at the end; 2 if the flags or the file are wrong and nothing was started.
`

// serveHelp is what `kestrel serve --help` prints.
func serveHelp() string {
	var b strings.Builder
	title := ""
	for _, f := range serveFlags() {
		if f.group != title {
			title = f.group
			fmt.Fprintf(&b, "\n  %s\n", title)
		}
		fmt.Fprintf(&b, "    --%s %s (default %s)\n        %s\n",
			f.name, f.kind, f.byDefault, f.help)
	}
	return fmt.Sprintf(servePage, b.String())
}

// unquoted is v as a command line has it.
func unquoted(v config.Value) string { return strings.Trim(v.String(), `"`) }
