//go:build lab

package main

import "testing"

func TestHostile(t *testing.T) {
	for _, c := range hostileCases() {
		t.Run(c.name, func(t *testing.T) {
			tr := newTestTrial(t, built.server(t), 1)
			if _, err := hostileRun(t.Context(), tr, c, tr.dir); err != nil {
				t.Fatal(err)
			}
			for _, broken := range tr.violations() {
				t.Error(broken)
			}
			if tr.counts.trials.Load() == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}
