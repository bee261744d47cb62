package clientcmd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndSignalWhileOpening tests that a signal ends a put that waits for the writer of a named pipe.
func TestEndToEndSignalWhileOpening(t *testing.T) {
	p := clitest.Serve(t)
	cmd := clitest.Command(t, "put", "work", "--file", "pipe", "--server", p.Addr)
	pipe := filepath.Join(cmd.Dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when it is opened to be read
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	cmd.Process.Signal(syscall.SIGTERM)
	err = cmd.Wait()
	const want = "kestrel: read an item from pipe: terminated signal received; a signal ended this\n"
	if end, ok := err.(*exec.ExitError); !kill.Stop() || !ok || end.ExitCode() != cli.ExitFailed || out.String() != want {
		t.Errorf("ends with %v, and prints\n%swant\n%s", err, &out, want)
	}
}

// TestEndToEndSignalWhileReading tests that a signal ends a command that waits for its standard input.
func TestEndToEndSignalWhileReading(t *testing.T) {
	p := clitest.Serve(t)
	for command, want := range map[string]string{
		"put work": "kestrel: read standard input: terminated signal received; a signal ended this\n",
		"shell":    "kestrel: line 1 was not run: terminated signal received; a signal ended this\n",
	} {
		cmd := clitest.Command(t, append(strings.Fields(command), "--server", p.Addr)...)
		if code, out := clitest.SignalWhileFed(t, cmd, syscall.SIGTERM); code != cli.ExitFailed || out != want {
			t.Errorf("%s: exits with %d, and prints\n%swant\n%s", command, code, out, want)
		}
	}
}
