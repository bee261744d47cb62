package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// operator asks the admin port of a process.
type operator struct {
	t      *testing.T
	base   string
	client *http.Client
}

func newOperator(t *testing.T, p *clitest.Process) *operator {
	t.Helper()
	addr := p.Saw("admin port is open")["address"].(string)
	return &operator{t, "http://" + addr, &http.Client{Timeout: clitest.Patience}}
}

// expect tests the answer to a GET: its code, and what its body begins with.
func (o *operator) expect(path string, code int, prefix string) {
	o.t.Helper()
	o.expectBy(http.MethodGet, path, code, prefix)
}

// expectBy is expect for any method.
func (o *operator) expectBy(method, path string, code int, prefix string) {
	o.t.Helper()
	req, err := http.NewRequest(method, o.base+path, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := o.client.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != code || !strings.HasPrefix(string(body), prefix) {
		o.t.Errorf("%s %s = %d %.300q, %v, want %d %q", method, path, resp.StatusCode, body, err, code, prefix)
	}
}

// TestEndToEndAdmin runs a server that operators watch and stop. It includes vector W08.
func TestEndToEndAdmin(t *testing.T) {
	file := clitest.WriteConfig(t, "admin_port = \"auto\"\nadmin_stats_filters = [\"^q/\"]\n")
	p := clitest.Serve(t, "--config", file, "--pprof")
	o := newOperator(t, p)
	p.Dial().Ask("set work 0 0 5\nhello\n", "STORED\n")
	o.expect("/readyz", 200, "ready\n")
	o.expect("/healthz", 200, "ok\n")
	o.expect("/stats.txt", 200, "counters:\n  bytes_read: ")
	o.expect("/debug/pprof/", 200, "<html>")
	o.expect("/reload.txt", 405, "method not allowed: ")
	o.expectBy("POST", "/reload.txt", 200, "ok\n")
	if err := os.WriteFile(file, []byte("nonsense = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.expectBy("POST", "/reload.txt", 500, "error processing command: "+file+":1: nonsense: unknown key")
	o.expectBy("POST", "/shutdown.txt", 200, "ok\n")
	if got := p.Logged("stopping")["reason"]; got != "an operator asked for it" {
		t.Errorf("stops because of %v", got)
	}
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code after /shutdown = %d", code)
	}
}

func TestEndToEndAdminOpenToOthers(t *testing.T) {
	p := clitest.Serve(t, "--listen", "0.0.0.0", "--admin-port", "auto")
	if got := p.Saw(adminWarning); got["level"] != "WARN" {
		t.Errorf("warning = %v", got)
	}
	_, port, err := net.SplitHostPort(p.Saw("admin port is open")["address"].(string))
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t, "http://" + net.JoinHostPort("127.0.0.1", port), http.DefaultClient}
	o.expect("/ping.txt", 200, "pong\n")
}

// TestEndToEndAdminGetControls tests that scripts for the original work where the configuration says so.
func TestEndToEndAdminGetControls(t *testing.T) {
	file := clitest.WriteConfig(t,
		"admin_port = \"auto\"\nadmin_get_controls = true\nadmin_hosts = [\"queues.example.com\"]\n")
	p := clitest.Serve(t, "--config", file)
	o := newOperator(t, p)
	o.expect("/reload.txt", 200, "ok\n")
	o.expect("/shutdown.txt", 200, "ok\n")
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code after /shutdown = %d", code)
	}
}

// TestEndToEndAdminPortInUse tests that nothing is opened if operators cannot be answered.
func TestEndToEndAdminPortInUse(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	code, _, errs := clitest.RunToEnd(t, "serve", "--log-level", "error", "--admin-port", port)
	want := fmt.Sprintf("kestrel: address 127.0.0.1:%s is in use: stop the program that listens there, "+
		"or choose another port with --admin-port\n", port)
	if code != cli.ExitFailed || errs != want {
		t.Errorf("exit code %d\n got %s\nwant %s", code, errs, want)
	}
}
