package cli

import (
	"runtime/debug"
	"time"
)

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

// RevisionTime is when what the running program was built from was committed; the start of 1970 if the
// build did not record it.
func RevisionTime() time.Time {
	at := time.Unix(0, 0).UTC()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if parsed, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				at = parsed
			}
		}
	}
	return at
}
