package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// TestWriteTable prints a table in every width: no line is wider, as long as the least columns fit.
func TestWriteTable(t *testing.T) {
	rows := [][]string{
		{"items", "bytes", "next id", "queue"},
		{"5,000", "18,893", "5001", "work"},
		{"2", "10", "3", "a-queue-with-a-name-of-many-columns"},
	}
	spare := []string{"next id", "bytes"}
	for width := 20; width < 100; width++ {
		var out bytes.Buffer
		WriteTable(&out, rows, spare, width)
		for line := range strings.Lines(out.String()) {
			if got := ansi.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
				t.Errorf("on %d columns a line has %d: %s", width, got, line)
			}
		}
	}
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, "items   bytes  next id  queue\n5,000  18,893     5001  work\n    2      10        3  a-queue-with-a-name-of-many-columns\n"},
		{35, "items   bytes  next id  queue\n5,000  18,893     5001  work\n    2      10        3  a-queue-wi…\n"},
		{25, "items   bytes  queue\n5,000  18,893  work\n    2      10  a-queue-w…\n"},
		{20, "items  queue\n5,000  work\n    2  a-queue-with…\n"},
	} {
		var out bytes.Buffer
		if WriteTable(&out, rows, spare, tt.width); out.String() != tt.want {
			t.Errorf("on %d columns:\n%swant\n%s", tt.width, &out, tt.want)
		}
	}
}

// TestHang breaks a text below a label.
func TestHang(t *testing.T) {
	for _, tt := range []struct {
		width int
		want  string
	}{{0, "one two three four five"}, {18, "one two three\n    four five"}, {80, "one two three four five"}, {1, "one two\n    three four\n    five"}} {
		if got := Hang("one two three four five", 4, tt.width); got != tt.want {
			t.Errorf("Hang in %d columns = %q, want %q", tt.width, got, tt.want)
		}
	}
}
