//go:build lab

package main

import (
	"context"
	"os"
	"sync"
	"testing"
)

// builder builds the server once for all tests.
type builder struct {
	once    sync.Once
	program string
	err     error
}

var built builder

func (b *builder) server(t *testing.T) string {
	t.Helper()
	b.once.Do(func() { b.program, cleanUp, b.err = buildHere(context.Background()) })
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.program
}

// long reports whether the long runs are asked for.
func long() bool { return os.Getenv("KESTREL_LONG") != "" }

// tryBriefly does an experiment a few times, and reports what it breaks.
func tryBriefly(t *testing.T, name string, cycles int) *trial {
	t.Helper()
	for _, e := range experiments() {
		if e.name != name {
			continue
		}
		tr := newTestTrial(t, built.server(t), cycles)
		if err := e.run(t.Context(), tr); err != nil {
			t.Fatalf("seed %d: %v", tr.seed, err)
		}
		for _, broken := range tr.violations() {
			t.Errorf("seed %d: %s", tr.seed, broken)
		}
		if why := tr.skipReason(); why != "" {
			t.Skip(why)
		}
		t.Logf("seed %d: %s", tr.seed, tr.summary())
		return tr
	}
	t.Fatalf("there is no experiment %q", name)
	return nil
}
