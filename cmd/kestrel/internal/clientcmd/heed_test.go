package clientcmd

import (
	"bytes"
	"io"
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
	part := strings.Repeat("x", 1<<20) // of a line: it does not fit into a pipe, so who has written it knows that it is read
	for command, want := range map[string]string{
		"put work": "kestrel: read standard input: terminated signal received; a signal ended this\n",
		"shell":    "kestrel: line 1 was not run: terminated signal received; a signal ended this\n",
	} {
		cmd := clitest.Command(t, append(strings.Fields(command), "--server", p.Addr)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
		if _, err := io.WriteString(in, part); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		err = cmd.Wait()
		if !kill.Stop() {
			t.Errorf("%s: has not ended %v after the signal", command, clitest.Patience)
		}
		if end, ok := err.(*exec.ExitError); !ok || end.ExitCode() != cli.ExitFailed || out.String() != want {
			t.Errorf("%s: ends with %v, and prints\n%swant\n%s", command, err, &out, want)
		}
	}
}
