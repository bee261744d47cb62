package clitest

import (
	"os"
	"os/exec"
	"testing"
)

// Tool returns the path of a program that a test needs. Where it is missing the test is skipped; with KESTREL_CI it
// fails, since .ci/run installs all of them by these names.
func Tool(t testing.TB, name string) string {
	t.Helper()
	program, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("KESTREL_CI") != "":
		t.Fatalf("%s is not installed (KESTREL_CI is set)", name)
	default:
		t.Skipf("%s is not installed (Debian has a package of that name)", name)
	}
	return program
}
