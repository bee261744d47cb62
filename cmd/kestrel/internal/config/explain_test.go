package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// TestExplainNewerRelease tests that what a newer release has written is not called damaged, and that
// the way back is said.
func TestExplainNewerRelease(t *testing.T) {
	c := Default()
	err := fmt.Errorf("open journal: journal/0000000001.seg: %w", segment.ErrUnknownVersion)
	got := Explain(err, c).Text
	for _, want := range []string{
		"the data directory " + c.Engine.Dir + " is not damaged", "a newer release of kestrel wrote it",
		"nothing was changed", "a copy of the directory from before the upgrade", "0000000001.seg: unknown format version"} {
		if !strings.Contains(got, want) {
			t.Errorf("Explain(%v) = %q, which does not say %q", err, got, want)
		}
	}
}
