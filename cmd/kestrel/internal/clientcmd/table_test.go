package clientcmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// TestFit makes tables as wide as a terminal: spare columns go, then names are cut. Some of a name stays however narrow
// the terminal is.
func TestFit(t *testing.T) {
	clients := [][]string{
		{"NO", "PEER", "PROTOCOL", "AGE", "IDLE", "REQUESTS", "UNREAD", "HOLDS", "OLDEST", "WAITS"},
		{"17", "10.0.0.17:54321", "memcache", "1h02m", "12.5s", "1,234,567", "10.2 KiB", "images:1 thumbnails:2", "59.9s", "work"},
	}
	queues := [][]string{{"QUEUE", "ITEMS"}, {strings.Repeat("é", 30), "1"}, {"短い名前", "12"}}
	for _, tt := range []struct {
		rows   [][]string
		width  int
		titles string
		name   string // what the first row has, cut if it must be
	}{
		{queues, 100, "QUEUE ITEMS", strings.Repeat("é", 30)},
		{queues, 37, "QUEUE ITEMS", strings.Repeat("é", 30)},
		{queues, 30, "QUEUE ITEMS", strings.Repeat("é", 22) + "…"},
		{queues, 10, "QUEUE ITEMS", strings.Repeat("é", leastName-1) + "…"},
		{clients, 120, "NO PEER PROTOCOL AGE IDLE REQUESTS UNREAD HOLDS OLDEST WAITS", "images:1 thumbnails:2"},
		{clients, 80, "NO PEER PROTOCOL AGE IDLE HOLDS OLDEST WAITS", "images:1 thumbnails…"},
		{clients, 40, "NO PEER HOLDS OLDEST", "images:1 t…"},
	} {
		before := slices.Clone(tt.rows[1])
		got := fit(tt.rows, tt.width)
		if titles := strings.Join(got[0], " "); titles != tt.titles {
			t.Errorf("%d columns: titles %q, want %q", tt.width, titles, tt.titles)
		}
		if !slices.Contains(got[1], tt.name) {
			t.Errorf("%d columns: %q, want the name %q", tt.width, got[1], tt.name)
		}
		if sum := total(widthsOf(got)); sum > tt.width && tt.width > 30 {
			t.Errorf("%d columns: a row has %d", tt.width, sum)
		}
		if !slices.Equal(tt.rows[1], before) {
			t.Errorf("%d columns: fit has changed the rows of the caller", tt.width)
		}
	}
	if w := ansi.StringWidth("短い名前"); w != 8 {
		t.Errorf("a wide name has %d columns, want 8", w)
	}
}
