package main

import (
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndEchoComesBack ends the question for a password by a signal: the terminal echoes again.
func TestEndToEndEchoComesBack(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ended, said, echo := clitest.Signalled(t, clitest.Command(t, "user", "hash"), s)
		status := ended.Sys().(syscall.WaitStatus)
		if !echo || !status.Signaled() || status.Signal() != s {
			t.Errorf("%v: %v, echo %t, it says %q; want that the signal ends it, and that the echo is on", s, ended, echo, said)
		}
	}
}
