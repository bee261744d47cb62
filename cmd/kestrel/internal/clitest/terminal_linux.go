package clitest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// OnTerminal runs a command that ends by itself. Those of its standard streams that are nil are a terminal. It returns the
// exit code and all that went to the terminal, lines that are drawn over included.
func OnTerminal(t *testing.T, cmd *exec.Cmd) (code int, said string) {
	t.Helper()
	keeper, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		if os.Getenv("KESTREL_CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err) // no terminals here, as in a bare container
	}
	defer keeper.Close()
	if err := unix.IoctlSetPointerInt(int(keeper.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keeper.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if cmd.Stdin == nil {
		cmd.Stdin = terminal
	}
	if cmd.Stdout == nil {
		cmd.Stdout = terminal
	}
	if cmd.Stderr == nil {
		cmd.Stderr = terminal
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close() // reading ends when the command has closed it too
	kill := time.AfterFunc(Patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	var out bytes.Buffer
	io.Copy(&out, keeper) // ends with an error, as terminals do
	cmd.Wait()            // its error is the exit code
	return cmd.ProcessState.ExitCode(), out.String()
}

// ProgressLine matches a line of progress as a terminal gets it, which goes on with what text matches.
func ProgressLine(text string) *regexp.Regexp {
	return regexp.MustCompile(`\r\x1b\[K\[[#.]{20}\] +\d+%  ` + text)
}
