package main

import (
	"os"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }

// runIn runs a command line and tests its exit code.
func runIn(t testing.TB, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, commands(), wantCode, args...)
}
