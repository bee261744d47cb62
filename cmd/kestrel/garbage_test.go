package main

import "testing"

// TestQuiet tests that memory is given back once after work, when the work is over.
func TestQuiet(t *testing.T) {
	const mib = 1 << 20
	var q quiet
	allocated := uint64(0)
	for i, step := range []struct {
		allocates uint64 // until the next look
		want      bool
	}{
		{0, false}, // nothing to give back
		{10 * mib, false},
		{100 * mib, false}, // busy
		{mib / 2, true},
		{0, false}, // done
		{mib / 2, false},
		{15 * mib, false}, // not worth it yet
		{0, false},
		{15 * mib, false},
		{mib - 1, true},
	} {
		allocated += step.allocates
		if got := q.due(allocated); got != step.want {
			t.Errorf("look %d, after %d bytes more: due = %v, want %v", i, step.allocates, got, step.want)
		}
	}
}
