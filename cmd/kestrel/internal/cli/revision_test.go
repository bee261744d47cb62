package cli

import (
	"runtime/debug"
	"testing"
)

func TestRevision(t *testing.T) {
	set := func(pairs ...string) *debug.BuildInfo {
		info := new(debug.BuildInfo)
		for i := 0; i < len(pairs); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return info
	}
	released := set()
	released.Main.Version = "v3.1.0"
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{set(), "unknown"},
		{released, "v3.1.0"},
		{set("vcs.revision", "abc"), "abc"},
		{set("vcs.revision", "abc", "vcs.time", "2030-01-02", "vcs.modified", "true"),
			"abc of 2030-01-02, modified"},
	} {
		if got := revisionOf(tt.info); got != tt.want {
			t.Errorf("revisionOf(%v) = %q, want %q", tt.info, got, tt.want)
		}
	}
}
