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
	keeper, terminal := Terminal(t)
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

// Terminal returns a terminal, and its other end, which somebody sits at. The test closes both.
func Terminal(t *testing.T) (keeper, terminal *os.File) {
	t.Helper()
	keeper, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		if os.Getenv("KESTREL_CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err) // no terminals here, as in a bare container
	}
	t.Cleanup(func() { keeper.Close() })
	if err := unix.IoctlSetPointerInt(int(keeper.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keeper.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keeper, terminal
}

// Signalled sends a signal to a command on a terminal, once it has turned off the echo. It returns how the command ended,
// what it said, and whether the terminal has its echo again.
func Signalled(t *testing.T, cmd *exec.Cmd, s os.Signal) (ended *os.ProcessState, said string, echo bool) {
	t.Helper()
	keeper, terminal := Terminal(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	echoes := func() bool {
		mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return mode.Lflag&unix.ECHO != 0
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(Patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	for end := time.Now().Add(Patience); echoes(); {
		if time.Now().After(end) {
			t.Fatal("the echo stays on")
		}
	}
	cmd.Process.Signal(s)
	cmd.Wait()
	echo = echoes()
	terminal.Close()
	out, _ := io.ReadAll(keeper) // ends with an error, as terminals do
	return cmd.ProcessState, string(out), echo
}

// ProgressLine matches a line of progress as a terminal gets it, which goes on with what text matches.
func ProgressLine(text string) *regexp.Regexp {
	return regexp.MustCompile(`\r\x1b\[K\[[#.]{20}\] +\d+%  ` + text)
}
