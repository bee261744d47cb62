package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/netloop"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version, and what it was built with and from",
		Long:  "Usage:\n    kestrel version\n\nPrints the version, and what it was built with and from.",
		Args:  noArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionText())
		},
	}
}

// versionText is what `kestrel version` prints.
func versionText() string {
	return fmt.Sprintf("kestrel %s\n%s %s/%s\nrevision %s\n",
		netloop.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
}

// revision names what the running program was built from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return revisionOf(info)
}

// revisionOf is the revision in info, or the version of the module if the build recorded none.
func revisionOf(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := settings["vcs.revision"]
	switch {
	case text == "" && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	case text == "":
		return "unknown"
	}
	if at := settings["vcs.time"]; at != "" {
		text += " of " + at
	}
	if settings["vcs.modified"] == "true" {
		text += ", modified"
	}
	return text
}
