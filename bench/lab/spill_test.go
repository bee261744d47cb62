//go:build lab

package main

import (
	"testing"
)

func TestSpill(t *testing.T) {
	cycles := 3
	if long() {
		cycles = 100
	}
	tr := tryBriefly(t, "spill", cycles)
	if c := &tr.counts; c.puts.Load() == 0 || c.removals.Load() == 0 || c.runs.Load() == 0 {
		t.Errorf("the trial did nothing: %s", tr.summary())
	}
}

func TestShort(t *testing.T) {
	cycles := 1
	if long() {
		cycles = 20
	}
	tryBriefly(t, "short", cycles)
}
