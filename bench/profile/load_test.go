package main

import (
	"slices"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// TestTables checks what the columns are called, and that no two are the same load.
func TestTables(t *testing.T) {
	var names []string
	for _, loads := range tables() {
		for _, l := range loads {
			if slices.Contains(names, l.String()) {
				t.Errorf("two columns are called %v", l)
			}
			names = append(names, l.String())
		}
	}
	for _, want := range []string{"GET c=16 P=1", "SET c=1000 P=32", "SET c=100 P=1 1024B always",
		"WAITERS c=500 P=1"} {
		if !slices.Contains(names, want) {
			t.Errorf("columns %q, want %q among them", names, want)
		}
	}
}

// TestGroups checks who puts and who waits.
func TestGroups(t *testing.T) {
	if g := set(16, 32).groups(time.Second); len(g) != 1 || g[0].Operation != loadtest.Set ||
		g[0].Duration != time.Second {
		t.Errorf("SET: %+v, want one group that puts for a second", g)
	}
	g := waiters(500).groups(time.Second)
	if len(g) != 2 || g[0].Connections != 1 || g[0].Rate != waitersRate || g[0].Duration != time.Second ||
		g[1].Connections != 500 || !g[1].Drain || g[1].Wait != longWait {
		t.Errorf("WAITERS: %+v, want one connection that puts and 500 that wait for all of it", g)
	}
}
