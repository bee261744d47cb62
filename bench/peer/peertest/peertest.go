package peertest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// TwoProcessors skips the test if processors 0 and 1 are not there. It binds the test to its
// thread, which servers live as long as, and has the process run where it did when the test ends.
func TwoProcessors(t *testing.T) {
	t.Helper()
	own, err := spawn.Processors(0)
	if err != nil || !slices.Contains(own, 0) || !slices.Contains(own, 1) {
		t.Skip("needs processors 0 and 1")
	}
	runtime.LockOSThread() // for good
	t.Cleanup(func() {
		if err := spawn.PinSelf(own); err != nil {
			t.Error(err)
		}
	})
}

// Build builds kestrel and returns the program.
func Build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kestrel")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", program,
		"github.com/kestrelmq/kestrel/cmd/kestrel")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building kestrel: %v\n%s", err, out)
	}
	return program
}

// Installed returns those of the named servers that are installed, and skips the test if none is.
func Installed(t *testing.T, names ...string) (installed []string) {
	t.Helper()
	for _, name := range names {
		s, ok := peer.Find(name)
		if !ok {
			t.Fatalf("no server is called %s", name)
		}
		if _, err := exec.LookPath(s.Program); err == nil {
			installed = append(installed, name)
		}
	}
	if len(installed) == 0 {
		t.Skipf("none of %v is installed", names)
	}
	return installed
}
