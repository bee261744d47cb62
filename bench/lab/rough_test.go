//go:build lab

package main

import "testing"

func TestRough(t *testing.T) {
	cycles := 6
	if long() {
		cycles = 100
	}
	tr := tryBriefly(t, "rough", cycles)
	if c := &tr.counts; c.puts.Load() == 0 || c.removals.Load() == 0 || c.items.Load() == 0 {
		t.Errorf("the trial did nothing: %s", tr.summary())
	}
}
