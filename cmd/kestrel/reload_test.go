package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

// TestEndToEndReload changes the file of a running server.
func TestEndToEndReload(t *testing.T) {
	file := clitest.WriteConfig(t, "")
	write := func(src string) {
		if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[queues.work]\nmax_items = 1\n")
	p := clitest.Serve(t, "--config", file, "--sync-journal", "never")
	c := p.Dial()
	put := func(want string) {
		t.Helper()
		c.Ask("set work 0 0 1\nx\n", want)
	}
	put("STORED\n")
	put("NOT_STORED\n")

	write("loops = 7\n[queues.work]\nmax_items = 2\n")
	c.Ask("reload\n", "Reloaded config.\n")
	got := p.Logged("option needs a restart to change")
	if got["option"] != "loops" || got["file"] != "7" {
		t.Errorf("a change that needs a restart is logged as %v", got)
	}
	put("STORED\n")
	put("NOT_STORED\n")

	write("[queues.work]\nmax_items = \"x\"\n[aliases.work]\ndestination = 1\n")
	c.Ask("reload\n", "SERVER_ERROR configuration not reloaded: "+file+":2: queues.work.max_items: "+
		`want a whole number from 0 to 9223372036854775807, or "none", have "x"; `+
		file+":4: aliases.work.destination: unknown key\n")
	put("NOT_STORED\n")

	write("log_level = \"debug\"\n[queues.work]\nmax_items = 3\n" +
		"[aliases.a]\ndestination_queues = [\"work\"]\n")
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration reloaded")
	c.Ask("set a 0 0 1\nx\n", "STORED\n")
	put("NOT_STORED\n")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration not reloaded: nothing is changed")
	put("NOT_STORED\n")
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code = %d", code)
	}
}

// TestEndToEndReloadTrace tests that a reload begins, and ends, logging connections.
func TestEndToEndReloadTrace(t *testing.T) {
	file := clitest.WriteConfig(t, "")
	p := clitest.Serve(t, "--config", file)
	for _, on := range []bool{true, false} {
		if err := os.WriteFile(file, fmt.Appendf(nil, "enable_session_trace = %v\n", on), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Dial().Ask("reload\n", "Reloaded config.\n")
		p.Logged("configuration reloaded")
		if on {
			p.Dial().Ask("get work\n", "END\n")
			p.Logged("session begins")
		}
	}
}

func TestEndToEndReloadWithoutFile(t *testing.T) {
	p := clitest.Serve(t)
	p.Dial().Ask("reload\n", "Reloaded config.\n")
}

func TestEndToEndOpenToOthers(t *testing.T) {
	p := clitest.Serve(t, "--listen", "0.0.0.0")
	if got := p.Saw(openWarning); got["level"] != "WARN" || got["protocol"] != "memcache" {
		t.Errorf("warning = %v", got)
	}
}

// TestAnnounceConfig tests what the log says about a configuration.
func TestAnnounceConfig(t *testing.T) {
	var names strings.Builder
	for i := range 22 {
		fmt.Fprintf(&names, "[queues.q%02d]\nsync_journal = \"never\"\n", i)
	}
	file := clitest.WriteConfig(t, names.String()+`
[default]
sync_journal = "100ms"
max_journal_size = 0
[queues.same]
max_items = 1
[queues.fast]
keep_journal = false
[queues.safe]
sync_journal = "always"
[aliases.nowhere]
`)
	c, err := config.Source{File: file}.Load()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d := &daemon{log: slog.New(slog.NewJSONHandler(&out, nil))}
	d.announceConfig(c)
	var got []string
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		delete(e, "time")
		got = append(got, fmt.Sprint(e))
	}
	var listed []string
	for i := range cli.MaxListed {
		listed = append(listed, fmt.Sprintf("%q", fmt.Sprintf("q%02d", i)))
	}
	want := []string{
		"map[level:WARN msg:configuration: " + file + ":55: aliases.nowhere: no destination_queues: " +
			"items put to the alias are dropped]",
		"map[because:all queues share one journal; see journal_size level:WARN " +
			"msg:option has no effect option:max_journal_size]",
		"map[level:INFO msg:what can be lost queues:\"safe\" risk:nothing acknowledged is lost, " +
			"neither by a crash of the process nor by a power cut sync_journal:always]",
		"map[level:INFO msg:what can be lost queues:" + strings.Join(listed, ", ") + " and 2 more risk:" +
			"a crash of the process loses nothing; a power cut may lose what the operating system had not " +
			"written yet sync_journal:never]",
		"map[level:INFO msg:what can be lost queues:\"fast\" risk:every item ends with the process " +
			"sync_journal:no journal]",
		"map[level:INFO msg:what can be lost queues:all others risk:a crash of the process loses " +
			"nothing; a power cut may lose what was acknowledged in the last 100ms sync_journal:100ms]",
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("log line %d\n got %q\nwant %q", i, got, want)
		}
	}
}
