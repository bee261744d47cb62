//go:build lab

package main

import "testing"

func TestDamage(t *testing.T) {
	damages := damagesPerRound
	if long() {
		damages = 1000
	}
	tr := tryBriefly(t, "damage", damages)
	if tr.counts.refusals.Load() == 0 || tr.counts.items.Load() == 0 {
		t.Errorf("nothing was refused, or nothing served: %s", tr.summary())
	}
}
