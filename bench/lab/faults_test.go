//go:build lab

package main

import "testing"

func TestOrder(t *testing.T) {
	puts := 800
	if long() {
		puts = 10_000
	}
	tr := tryBriefly(t, "order", puts)
	if got := tr.counts.trials.Load(); got < int64(puts) {
		t.Errorf("%d replies were judged, want %d at least", got, puts)
	}
}

func TestFaults(t *testing.T) {
	faults := 5
	if long() {
		faults = len(sysFaults())
	}
	tr := tryBriefly(t, "faults", faults)
	if tr.counts.refusals.Load() == 0 {
		t.Error("nothing was refused")
	}
}
