package cli

import "runtime/debug"

// Revision names what the running program was built from.
func Revision() string {
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
