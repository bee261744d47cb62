package clientcmd

import (
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndShellSignalled ends a shell that waits for a line. The terminal is as it was. It has no size here, as that of
// a serial line: what the shell writes is in one line all the same.
func TestEndToEndShellSignalled(t *testing.T) {
	p := clitest.Serve(t)
	ended, said, echo := clitest.Signalled(t, clitest.Command(t, "shell", "--server", p.Addr), syscall.SIGTERM)
	if ended.ExitCode() != cli.ExitFailed || !echo || !strings.HasPrefix(said, prompt) ||
		!strings.HasSuffix(said, "kestrel: read a command: terminated signal received; a signal ended this\r\n") {
		t.Errorf("the shell ends with %v, echo %t, and says %q", ended, echo, said)
	}
}
