//go:build lab

package main

import "testing"

func TestLimits(t *testing.T) {
	for _, c := range limitCases() {
		t.Run(c.name, func(t *testing.T) {
			tr := newTestTrial(t, built.server(t), 1)
			if err := c.run(t.Context(), tr, tr.dir); err != nil {
				t.Fatal(err)
			}
			for _, broken := range tr.violations() {
				t.Error(broken)
			}
			if why := tr.skipReason(); why != "" {
				t.Skip(why)
			}
		})
	}
}
