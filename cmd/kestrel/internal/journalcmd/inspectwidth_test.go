package journalcmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// TestItemLine prints an item on terminals of several widths: no line is wider, and none is lost.
func TestItemLine(t *testing.T) {
	const about = "mail 12: 100 bytes, added 2023-11-14T22:13:20Z, expires never, flags 0:"
	data := bytes.Repeat([]byte("mail "), 20)
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, about + ` "` + strings.Repeat("mail ", 12) + `"…`},
		{80, about + "\n    \"" + strings.Repeat("mail ", 12) + `"…`},
		{40, "mail 12: 100 bytes, added\n    2023-11-14T22:13:20Z, expires never,\n    flags 0:\n" +
			`    "mail mail mail mail mail mail mail…`},
	} {
		got := itemLine(about, data, tt.width)
		if got != tt.want {
			t.Errorf("on %d columns:\n%s\nwant\n%s", tt.width, got, tt.want)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if w := ansi.StringWidth(line); tt.width > 0 && w > tt.width {
				t.Errorf("on %d columns a line has %d: %s", tt.width, w, line)
			}
		}
	}
	if got := itemLine(about, []byte("a"), 90); got != about+` "a"` {
		t.Errorf("an item that fits a line is %s", got)
	}
}

// TestInspectionFits prints a data directory with long names and large figures on terminals of 40 and 80 columns.
func TestInspectionFits(t *testing.T) {
	in := &inspection{
		Segments: []inspectedSegment{{1234, 1 << 40, 1<<40 + 1<<26, 1 << 26}},
		Queues:   []inspectedQueue{{Name: strings.Repeat("a-long-name-", 8), Items: 360e6, Bytes: 1 << 40, NextID: 360e6, Oldest: 1}},
	}
	for _, width := range []int{40, 80} {
		var out bytes.Buffer
		cli.WriteTable(&out, in.segmentRows(), []string{"bytes on disk", "from"}, width)
		cli.WriteTable(&out, in.queueRows(1000), []string{"next id", "created", "oldest", "bytes"}, width)
		for line := range strings.Lines(out.String()) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("on %d columns a line has %d: %s", width, w, line)
			}
		}
		for _, want := range []string{"0000001234", "360,000,000", "a-long-na"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("on %d columns there is no %q:\n%s", width, want, &out)
			}
		}
	}
}
