package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndRevokeOnFailingDisk takes a right from a user of a server that cannot write. The reload says that it did
// not do all, and the right is gone all the same.
func TestEndToEndRevokeOnFailingDisk(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "server")
	file := clitest.WriteConfig(t, secureConfig(t, dir, "put work"))
	p := clitest.Serve(t, "--config", file, "--sync-journal", "always")
	addr := ""
	for addr == "" {
		if got := p.Logged("listening"); got["tls"] == true {
			addr = got["address"].(string)
		}
	}
	c, replies, _ := dialSecure(t, addr)
	const put = "set work 0 0 1\r\nx\r\n"
	if got := say(t, c, replies, put); got != "STORED" {
		t.Fatal(got)
	}
	none := unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY} // no file may grow, nor be written
	if err := unix.Prlimit(p.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &none, nil); err != nil {
		t.Fatal("limits of a child cannot be set: ", err)
	}
	if got := say(t, c, replies, put); got == "STORED" {
		t.Fatal("an item is stored on a disk that takes nothing")
	}
	if err := os.WriteFile(file, []byte(secureConfig(t, dir, "get work")), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration reloaded in part: reload again when the disk works")
	const want = "CLIENT_ERROR not allowed: put on work"
	got := ""
	for late := time.Now().Add(clitest.Patience); got != want && time.Now().Before(late); {
		got = say(t, c, replies, put)
	}
	if got != want {
		t.Errorf("a put after the reload: %s, want %s", got, want)
	}
}
