//go:build lab

package main

import "testing"

// One cycle for each policy, and one for all together.
func TestCut(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			cycles := len(policies()) + 1
			if long() {
				cycles = 100
			}
			tr := tryBriefly(t, "cut-"+kind, cycles)
			if c := &tr.counts; c.puts.Load() == 0 || c.items.Load() == 0 {
				t.Errorf("the trial did nothing: %s", tr.summary())
			}
		})
	}
}

func TestCutSpill(t *testing.T) {
	cycles := 2
	if long() {
		cycles = 100
	}
	tryBriefly(t, "cut-spill", cycles)
}
