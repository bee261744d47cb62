package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/journalcmd"
	"github.com/kestrelmq/kestrel/netloop"
)

func TestEndToEndVersion(t *testing.T) {
	code, out, errs := clitest.RunToEnd(t, "version")
	if code != cli.ExitOK || errs != "" || !strings.HasPrefix(out, "kestrel "+netloop.Version+"\ngo1.") ||
		strings.Count(out, "\n") != 3 {
		t.Errorf("kestrel version = %d, %q, %q", code, out, errs)
	}
	if _, again, _ := clitest.RunToEnd(t, "--version"); again != out {
		t.Errorf("kestrel --version = %q, kestrel version = %q", again, out)
	}
}

func TestEndToEndUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"sevre", `kestrel: unknown command "sevre" for "kestrel"; did you mean: serve` +
			"\nTry 'kestrel --help'.\n"},
		{"serve --no-such-flag", "kestrel: unknown flag: --no-such-flag\nTry 'kestrel serve --help'.\n"},
		{"serve now", "kestrel: 'kestrel serve' takes no arguments, have \"now\"\n" +
			"Try 'kestrel serve --help'.\n"},
		{"serve --config=", "kestrel: flag --config needs the name of a file\n" +
			"Try 'kestrel serve --help'.\n"},
	} {
		code, out, errs := clitest.RunToEnd(t, strings.Fields(tt.args)...)
		if code != cli.ExitUsage || errs != tt.want {
			t.Errorf("kestrel %s = %d, %q, %q; want 2, %q", tt.args, code, out, errs, tt.want)
		}
	}
	code, out, errs := clitest.RunToEnd(t, "serve", "--help")
	if code != cli.ExitOK || errs != "" || out != strings.TrimRight(serveHelp(), "\n")+"\n" {
		t.Errorf("kestrel serve --help = %d, %q, %q", code, out, errs)
	}
}

func TestEndToEndBadConfig(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := clitest.WriteConfig(t, "data_dir = \""+dir+"\"\nmemcache_prot = 1\n"+
		"[queues.work]\nmax_size = \"lots\"\n")
	code, out, errs := clitest.RunToEnd(t, "serve", "--config", file, "--loops", "many")
	want := `--loops: want a whole number from 0 to 1024, or "auto", have "many"` + "\n" +
		file + ":2: memcache_prot: unknown key; did you mean memcache_port?\n" +
		file + `:4: queues.work.max_size: want a size such as 1048576 or "16MiB", or "none", ` +
		`have "lots"` + "\n" +
		"kestrel: 3 problems with the configuration; nothing was started." +
		" 'kestrel help config' lists every key.\n"
	if code != cli.ExitUsage || out != "" || errs != want {
		t.Errorf("bad configuration: %d, %q\n got %s\nwant %s", code, out, errs, want)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// TestEndToEnd uses a server, stops it, and finds what it kept.
func TestEndToEnd(t *testing.T) {
	dir := t.TempDir()
	p := clitest.Serve(t, "--data-dir", dir)
	c := p.Dial()
	c.Ask("set work 0 0 5\nhello\n", "STORED\n")
	c.Ask("set work 0 0 5\nworld\n", "STORED\n")
	c.Ask("get work\n", "VALUE work 0 5\nhello\nEND\n")
	p.Signal(syscall.SIGTERM)
	if got := p.Logged("stopping")["reason"]; got != "SIGTERM" {
		t.Errorf("stops because of %v", got)
	}
	p.Logged("stopped: everything is synced")
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code after SIGTERM = %d", code)
	}

	p = clitest.Serve(t, "--data-dir", dir)
	p.Dial().Ask("get work\nget work\n", "VALUE work 0 5\nworld\nEND\nEND\n")
	p.Dial().Send("shutdown\n")
	if got := p.Logged("stopping")["reason"]; got != "a client asked for it" {
		t.Errorf("stops because of %v", got)
	}
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code after SHUTDOWN = %d", code)
	}
}

// TestEndToEndDefaults starts a server with no option but its port.
func TestEndToEndDefaults(t *testing.T) {
	p := clitest.Serve(t)
	if host, _, _ := net.SplitHostPort(p.Addr); host != "127.0.0.1" {
		t.Errorf("listens on %s", p.Addr)
	}
	if _, err := os.Stat(filepath.Join(p.Cmd.Dir, "kestrel-data", "LOCK")); err != nil {
		t.Errorf("data directory: %v", err)
	}
	p.Signal(os.Interrupt)
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code after SIGINT = %d", code)
	}
}

// TestEndToEndKill kills a server with SIGKILL, again and again, and counts what is left.
func TestEndToEndKill(t *testing.T) {
	cycles := 3
	if os.Getenv("KESTREL_LONG") != "" {
		cycles = 50
	}
	dir := t.TempDir()
	for cycle := range cycles {
		policy := []string{"always", "never", "50ms"}[cycle%3]
		p := clitest.Serve(t, "--data-dir", dir, "--sync-journal", policy)
		c := p.Dial()
		if cycle > 0 { // the second item of the cycle before, which was not confirmed
			item := fmt.Sprint("item ", cycle-1, "b")
			c.Ask("get work\n", fmt.Sprintf("VALUE work 0 %d\n%s\nEND\n", len(item), item))
		}
		c.Ask("get work\n", "END\n")
		for _, half := range []string{"a", "b"} {
			item := fmt.Sprint("item ", cycle, half)
			c.Ask(fmt.Sprintf("set work 0 0 %d\n%s\n", len(item), item), "STORED\n")
		}
		size := len(fmt.Sprint("item ", cycle, "a"))
		c.Ask("get work/open\nget work/close/open\n",
			fmt.Sprintf("VALUE work 0 %d\nitem %da\nEND\n", size, cycle)+
				fmt.Sprintf("VALUE work 0 %d\nitem %db\nEND\n", size, cycle))
		p.Signal(os.Kill)
		if code := p.ExitCode(); code != -1 {
			t.Fatalf("exit code after SIGKILL = %d", code)
		}
	}
}

// TestEndToEndLogReaderDies has the program die that reads the log, as tee or a container's pipe may. The server goes on.
func TestEndToEndLogReaderDies(t *testing.T) {
	p := clitest.Serve(t)
	p.Deaf()
	c := p.Dial()
	for range 3 {
		c.Ask("reload\n", "Reloaded config.\n") // it has logged that by then
	}
	c.Ask("set work 0 0 1\na\n", "STORED\n")
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code after SIGTERM = %d", code)
	}
}

func TestEndToEndSecondSignal(t *testing.T) {
	p := clitest.Serve(t)
	c := p.Dial()
	c.Ask("version\nset work 0 0 10\n12345", "VERSION "+netloop.Version+"\n")
	p.Dial().Ask("version\n", "VERSION "+netloop.Version+"\n")
	p.Signal(syscall.SIGTERM)
	p.Logged("stopping") // and the server waits for the rest of the item
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code after a second SIGTERM = %d", code)
	}
}

// TestEndToEndCannotStart tests that a start which fails says in one line why and what to do.
func TestEndToEndCannotStart(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	file := clitest.WriteConfig(t, "")
	running := clitest.Serve(t)
	locked := filepath.Join(running.Cmd.Dir, "kestrel-data")
	for _, tt := range []struct{ name, args, want string }{
		{"locked", "--data-dir " + locked, "the data directory " + locked +
			" is in use by another server (process " + strconv.Itoa(running.Cmd.Process.Pid) + "): let that one end, or choose" +
			" another directory with --data-dir"},
		{"port in use", "--memcache-port " + port, "address 127.0.0.1:" + port +
			" is in use: stop the program that listens there, or choose another port with --memcache-port"},
		{"not this machine", "--listen 192.0.2.1 --memcache-port auto", "cannot listen on " +
			"192.0.2.1:0: bind: cannot assign requested address: choose an address of this" +
			" machine with --listen or [[listener]]"},
		{"no directory", "--data-dir " + file + "/data", "the data directory " + file + "/data" +
			" cannot be used: mkdir " + file + ": not a directory: let this user read and write there, or choose" +
			" another directory with --data-dir"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"serve", "--log-level", "error"}, strings.Fields(tt.args)...)
			code, out, errs := clitest.RunToEnd(t, args...)
			if want := "kestrel: " + tt.want + "\n"; code != cli.ExitFailed || out != "" || errs != want {
				t.Errorf("exit code %d\n got %s\nwant %s", code, errs, want)
			}
		})
	}
}

// TestEndToEndDamage damages the journal in its middle, and later at its end.
func TestEndToEndDamage(t *testing.T) {
	dir := t.TempDir()
	p := clitest.Serve(t, "--data-dir", dir)
	for _, item := range []string{"one", "two", "six"} {
		p.Dial().Ask("set work 0 0 3\n"+item+"\n", "STORED\n")
	}
	p.Signal(os.Kill)
	p.ExitCode()
	segment := filepath.Join(dir, "journal", "0000000001.seg")
	whole := readFile(t, segment)

	damaged := flip(t, whole, "one")
	if err := os.WriteFile(segment, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := clitest.RunToEnd(t, "serve", "--data-dir", dir, "--memcache-port", "auto",
		"--log-level", "error")
	want := "kestrel: the journal is damaged, and nothing was changed: " + segment + ": "
	if code != cli.ExitFailed || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, want) ||
		!strings.Contains(errs, ": 'kestrel journal repair' says what is lost and can save the rest; "+
			"or put a good copy of "+filepath.Dir(segment)+" in its place") {
		t.Errorf("damaged journal: exit code %d, %s", code, errs)
	}
	if !bytes.Equal(readFile(t, segment), damaged) {
		t.Errorf("the damaged journal was changed")
	}

	if err := os.WriteFile(segment, flip(t, whole, "six"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = clitest.Serve(t, "--data-dir", dir)
	if got := p.Saw(journalcmd.TornWarning); got["path"] != segment || got["saved"] == "" || got["bytes"] == 0 {
		t.Errorf("torn tail is logged as %v", got)
	}
	if got := p.Saw("queues recovered"); got["queues"] != 1.0 || got["items"] != 2.0 {
		t.Errorf("recovery is logged as %v", got)
	}
	p.Dial().Ask("get work\nget work\nget work\n",
		"VALUE work 0 3\none\nEND\n"+"VALUE work 0 3\ntwo\nEND\n"+"END\n")
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flip returns b with a bit of the only place that holds item changed.
func flip(t *testing.T, b []byte, item string) []byte {
	t.Helper()
	if bytes.Count(b, []byte(item)) != 1 {
		t.Fatalf("%q is there %d times", item, bytes.Count(b, []byte(item)))
	}
	b = bytes.Clone(b)
	b[bytes.Index(b, []byte(item))] ^= 1
	return b
}
