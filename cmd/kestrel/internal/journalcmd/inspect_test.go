package journalcmd

import (
	"strings"
	"testing"
)

// TestInspectionPrint has commas in counts, and none in ids and places of the journal.
func TestInspectionPrint(t *testing.T) {
	in := inspection{
		DataDir: "data", Segments: []inspectedSegment{{1, 5_000_000, 6_000_000, 1_000_000}},
		Queues: []inspectedQueue{{Name: "work", Items: 12_345, Bytes: 6_789_012, NextID: 45_678}},
	}
	var out strings.Builder
	in.print(&out, 0)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"0000000001 5000000 6000000 1,000,000", "12,345 6,789,012 45678 ", "12,345 6,789,012 in 1 queue",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the inspection lacks %q:\n%s", want, &out)
		}
	}
}
