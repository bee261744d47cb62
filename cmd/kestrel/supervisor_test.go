package main

import (
	"net"
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

// activated returns the command of a server that inherits ln as systemd would pass it.
func activated(t *testing.T, ln *net.TCPListener, args ...string) *exec.Cmd {
	t.Helper()
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	cmd := clitest.Command(t, args...)
	// LISTEN_PID is the process itself: the shell writes its number and becomes the server.
	script := `export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" "$@"`
	cmd.Args = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Env = os.Environ()
	cmd.ExtraFiles = []*os.File{file} // descriptor 3
	return cmd
}

// listenLocal returns a listening socket and its port.
func listenLocal(t *testing.T) (ln *net.TCPListener, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener), portOf(l.Addr().String())
}

// TestEndToEndSystemd runs a server as systemd does: it inherits its socket, and reports what it does.
func TestEndToEndSystemd(t *testing.T) {
	dir, err := os.MkdirTemp("", "kestrel-notify-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	states, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer states.Close()
	states.SetReadDeadline(time.Now().Add(clitest.Patience))
	wantState := func(want string) {
		t.Helper()
		b := make([]byte, 1000)
		n, err := states.Read(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Fatalf("systemd was notified of %q, %v; want %q", b[:n], err, want)
		}
	}

	ln, port := listenLocal(t)
	early, err := net.Dial("tcp", ln.Addr().String()) // before the server exists
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	early.SetDeadline(time.Now().Add(clitest.Patience))
	cmd := activated(t, ln, clitest.ServeArgs("--memcache-port", port)...)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
	p := clitest.Start(t, cmd)
	if p.Addr != ln.Addr().String() {
		t.Errorf("listens on %s, not on the socket from systemd, %s", p.Addr, ln.Addr())
	}
	wantState("STATUS=reading the journal")
	wantState("READY=1\nSTATUS=serving")
	if _, err := early.Write([]byte("version\r\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 7)
	if _, err := early.Read(b); err != nil || string(b) != "VERSION" {
		t.Errorf("a client from before the start reads %q, %v", b, err)
	}

	p.Signal(syscall.SIGHUP)
	wantState("RELOADING=1\nMONOTONIC_USEC=")
	wantState("READY=1")
	p.Signal(syscall.SIGTERM)
	wantState("STOPPING=1\nSTATUS=stopping: SIGTERM")
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code = %d", code)
	}
}

// TestEndToEndSystemdWrongSocket has systemd pass a socket that the configuration does not know.
func TestEndToEndSystemdWrongSocket(t *testing.T) {
	ln, _ := listenLocal(t)
	out, err := activated(t, ln, clitest.ServeArgs()...).CombinedOutput()
	if want := "systemd passed a socket for " + ln.Addr().String(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("a socket that nobody wants: %v, %s; want %q", err, out, want)
	}
}
