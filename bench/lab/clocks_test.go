//go:build lab

package main

import "testing"

func TestClocks(t *testing.T) {
	cycles := 4
	if long() {
		cycles = 60
	}
	tr := tryBriefly(t, "clocks", cycles)
	if c := &tr.counts; c.puts.Load() == 0 || c.removals.Load() == 0 || c.items.Load() == 0 {
		t.Errorf("the trial did nothing: %s", tr.summary())
	}
}
