//go:build lab

package main

import "testing"

func TestSoak(t *testing.T) {
	seconds := 2
	if long() {
		seconds = 60
	}
	tr := tryBriefly(t, "soak", seconds)
	if tr.counts.puts.Load() == 0 {
		t.Error("nothing was put")
	}
}
