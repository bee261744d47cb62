package ports

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func listenTCP(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

func open(t *testing.T, spec Spec) *Port {
	t.Helper()
	p, err := Open(spec, listenTCP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestCheckAddress(t *testing.T) {
	for _, good := range []string{"127.0.0.1:22133", "[::]:0", "[::1]:65535", "localhost:1", "unix:/run/kestrel.sock"} {
		if err := CheckAddress(good); err != nil {
			t.Errorf("CheckAddress(%q) = %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                                  "write host:port",
		"127.0.0.1":                         "write host:port",
		"::1:22133":                         "write host:port",
		":22133":                            "the host is missing",
		"127.0.0.1:http":                    "a number from 0 to 65535",
		"127.0.0.1:65536":                   "a number from 0 to 65535",
		"a b:1":                             "no address or name",
		"unix:kestrel.sock":                 "absolute path",
		"unix:/" + strings.Repeat("x", 200): "takes 103",
	} {
		if err := CheckAddress(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckAddress(%q) = %v, want %q in it", bad, err, want)
		}
	}
}

func TestParseNetwork(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "127.0.0.1": "127.0.0.1/32", "::ffff:10.0.0.1": "10.0.0.1/32", "fd00::/8": "fd00::/8",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:0.0.0.0/96": "0.0.0.0/0", "::/0": "::/0",
	} {
		if got, err := ParseNetwork(in); err != nil || got.String() != want {
			t.Errorf("ParseNetwork(%q) = %v, %v, want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/90", "::ffff:10.0.0.1/104", "example.com", "fe80::1%eth0"} {
		if got, err := ParseNetwork(bad); err == nil {
			t.Errorf("ParseNetwork(%q) = %v, want an error", bad, got)
		}
	}
}

// TestAllowFrom tests that a peer from elsewhere is closed without an answer, and counted; and that Admit
// changes that for the next one.
func TestAllowFrom(t *testing.T) {
	p := open(t, Spec{Address: "127.0.0.1:0", AllowFrom: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	accepted, turnedAway := make(chan net.Conn), make(chan net.Addr, 1)
	go func() {
		for {
			c, err := p.AcceptFrom(func(peer net.Addr) { turnedAway <- peer })
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial()
	if peer := <-turnedAway; peer.String() != c.LocalAddr().String() {
		t.Errorf("turned away %v, want %v", peer, c.LocalAddr())
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a peer that is not admitted read %d bytes, %v", n, err)
	}
	if got := p.Counts().Refused; got != 1 {
		t.Errorf("refused %d, want 1", got)
	}
	p.Admit([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 0)
	dial()
	(<-accepted).Close()
}

func TestLimit(t *testing.T) {
	p := open(t, Spec{Address: "127.0.0.1:0", MaxConnections: 1})
	if !p.Enter() || p.Enter() {
		t.Error("a port of one connection takes none, or two")
	}
	if got := p.Counts(); got.Open != 1 || got.Over != 1 {
		t.Errorf("counts %+v, want 1 open and 1 over", got)
	}
	p.Leave()
	if !p.Enter() {
		t.Error("a connection that has left keeps its place")
	}
}

// TestUnixSocket tests mode and group, that a socket left behind is replaced, and that nothing else is.
func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Spec{Address: "unix:" + path}, listenTCP); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket that somebody answers on: %v, want EADDRINUSE", err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	old.Close()
	p := open(t, Spec{Address: "unix:" + path, Mode: 0o660, Group: "0"})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v; want 0660", info.Mode(), err)
	}
	if gid := info.Sys().(*syscall.Stat_t).Gid; os.Getuid() == 0 && gid != 0 {
		t.Errorf("group %d, want 0", gid)
	}
	if p.Name() != "unix:"+path || p.IsOpenToOthers() {
		t.Errorf("the port is called %s, open to others: %v", p.Name(), p.IsOpenToOthers())
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Spec{Address: "unix:" + file}, listenTCP); err == nil {
		t.Error("a socket took the place of a file")
	}
	if got, _ := os.ReadFile(file); string(got) != "precious" {
		t.Errorf("the file holds %q", got)
	}
	if _, err := Open(Spec{Address: "unix:" + path + "2", Group: "no-such-group"}, listenTCP); err == nil {
		t.Error("a group that there is not was taken")
	}
	if _, err := os.Stat(path + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket that was refused is there: %v", err)
	}
}
