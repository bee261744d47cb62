package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndListeners uses a Unix socket, and a port that admits nobody before a reload.
func TestEndToEndListeners(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "k.sock")
	listeners := func(from string) string {
		return fmt.Sprintf("[[listener]]\nprotocol = \"text\"\naddress = \"unix:%s\"\nmode = \"0640\"\n"+
			"[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:0\"\nallow_from = [%q]\n", socket, from)
	}
	file := clitest.WriteConfig(t, listeners("10.0.0.0/8"))
	p := clitest.Serve(t, "--config", file)
	if got := p.Logged("listening"); got["protocol"] != "text" || got["address"] != "unix:"+socket {
		t.Errorf("the first listener is logged as %v", got)
	}
	guarded := p.Logged("listening")["address"].(string)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("socket: %v, %v", info, err)
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, "put work:\nhello\n\nget work\n")
	replies := bufio.NewReader(c)
	for _, want := range []string{"+1\n", ":hello\n"} {
		if got, err := replies.ReadString('\n'); got != want {
			t.Fatalf("over the socket: %q, %v; want %q", got, err, want)
		}
	}
	ask := func(addr string) error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, "version\r\n")
		_, err = bufio.NewReader(c).ReadString('\n')
		return err
	}
	if err := ask(guarded); err == nil {
		t.Error("a peer that is not in allow_from got an answer")
	}
	if got := p.Logged("connection refused: its address is not in allow_from"); got["listener"] != guarded {
		t.Errorf("the refusal is logged as %v", got)
	}
	if err := os.WriteFile(file, []byte(listeners("127.0.0.0/8")), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration reloaded")
	if err := ask(guarded); err != nil {
		t.Errorf("a peer that a reload admits: %v", err)
	}
	p.Signal(syscall.SIGTERM)
	p.ExitCode()
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// TestEndToEndListenersRefused tests what a start says about listeners that cannot be opened: which, why, and what to do.
func TestEndToEndListenersRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ listener, want string }{
		{"address = \"unix:" + file + "\"", "cannot listen on the socket " + file + ": a file is there that is no socket:" +
			" remove it, or choose another address of [[listener]]"},
		{"address = \"unix:" + dir + "/no/socket\"", "cannot listen on the socket " + dir + "/no/socket: no such file or directory:" +
			" make its directory, or choose another address of [[listener]]"},
		{"address = \"unix:" + dir + "/socket\"\ngroup = \"no-such-group\"", "cannot listen on the socket " + dir + "/socket:" +
			" this machine has no group \"no-such-group\": change group or address of [[listener]]"},
	} {
		config := clitest.WriteConfig(t, "[[listener]]\nprotocol = \"memcache\"\n"+tt.listener+"\n")
		code, _, errs := clitest.RunToEnd(t, "serve", "--log-level", "error", "--config", config)
		if code != cli.ExitFailed || errs != "kestrel: "+tt.want+"\n" {
			t.Errorf("%s: %d, %s\nwant kestrel: %s", tt.listener, code, errs, tt.want)
		}
	}
}
