package plancmd

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// TestPlanLine prints the longest line of a plan on terminals of every width: it fits, and no word is lost.
func TestPlanLine(t *testing.T) {
	const formula = "backlog / (gets − rate), with 590,000 gets a second: (0.8 × processors × servers − rate × put) / get on disk"
	for width := 32; width < 200; width++ {
		got := planLine("backlog", "360,000,000 items", formula, width)
		for line := range strings.Lines(got) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("on %d columns a line has %d: %s", width, w, line)
			}
		}
		if words := strings.Join(strings.Fields(got), " "); words != "backlog 360,000,000 items "+formula {
			t.Errorf("on %d columns: %s", width, got)
		}
	}
	if got, want := planLine("put", "10µs", formula, 0), "put          10µs              "+formula+"\n"; got != want {
		t.Errorf("in a pipe: %q, want %q", got, want)
	}
	if got, want := planLine("put", "10µs", "rate × outage, over all the servers", 40),
		"put          10µs\n  rate × outage, over all the servers\n"; got != want {
		t.Errorf("on 40 columns: %q, want %q", got, want)
	}
}
