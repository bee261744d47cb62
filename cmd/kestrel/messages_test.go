package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// until reads lines up to END.
func until(c *clitest.Client) string {
	var b strings.Builder
	for line := ""; line != "END\n"; {
		line = c.Read(1)
		b.WriteString(line)
	}
	return b.String()
}

// checkFigures tests that STATS, the admin port and Prometheus say of q what is delayed, leased, dead-lettered and
// redelivered.
func checkFigures(t *testing.T, p *clitest.Process, admin string) {
	t.Helper()
	page := func(path string) string {
		t.Helper()
		r, err := http.Get("http://" + admin + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, r.Status, err)
		}
		return string(body)
	}
	c := p.Dial()
	c.Send("stats\n")
	stats, json, metrics := until(c), page("/stats.json"), page("/metrics")
	for _, f := range []struct {
		name, metric string
		want         int
	}{
		{"delayed", "delayed_items", 1}, {"leased", "leased_items", 2}, {"dead_lettered", "dead_lettered_items_total", 1},
		{"redelivered", "redelivered_items_total", 1},
	} {
		if line := fmt.Sprintf("STAT queue_q_%s %d\n", f.name, f.want); !strings.Contains(stats, line) {
			t.Errorf("STATS has no %q:\n%s", line, stats)
		}
		if line := fmt.Sprintf("kestrel_queue_%s{queue=\"q\"} %d\n", f.metric, f.want); !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no %q", line)
		}
		if pair := regexp.MustCompile(fmt.Sprintf(`"q/q/%s": ?%d\b`, f.name, f.want)); !pair.MatchString(json) {
			t.Errorf("/stats.json has no %s:\n%s", pair, json)
		}
	}
}

// TestEndToEndBackupOfMessages tests that messages are the same after kill -9, and in a backup. They have delays,
// leases, receipts, counts and keys, some were removed in the middle, and some are dead letters. It compares item by
// item, with the ids, and the receipts hold.
func TestEndToEndBackupOfMessages(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	must := func(args ...string) {
		t.Helper()
		if code, out, errs := clitest.RunToEnd(t, args...); code != 0 {
			t.Fatalf("kestrel %s ends with %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
	}
	serve := func(dir string) *clitest.Process {
		return clitest.Serve(t, "--data-dir", in(dir), "--admin-port", "auto", "--sync-journal", "never")
	}
	p := serve("data")
	c := p.Dial()
	c.Ask("set q 5 0 3\none\nset q/key=K 0 3600 3\ntwo\nset q/delay=3600000/key=L 0 0 5\nthree\n", "STORED\nSTORED\nSTORED\n")
	c.Ask("set q 0 0 4\nfour\nset q 0 0 4\nfive\nset q/key=M 0 0 3\nsix\nset q/key=M 0 0 3\nsex\n", strings.Repeat("STORED\n", 4))
	lease := func(data string) (receipt string) {
		t.Helper()
		c.Send("gets q/lease=3600000\n")
		lines := strings.Split(until(c), "\n")
		words := strings.Fields(lines[0])
		if len(words) != 5 || lines[1] != data {
			t.Fatalf("leased %q, want %s", lines, data)
		}
		return words[4]
	}
	first := lease("one")
	c.Ask("get q/abort="+lease("two")+"\n", "END\n")
	second := lease("two") // the second time
	c.Ask("delete q/id=4\n", "DELETED\n")
	c.Ask("get q/reject="+lease("five")+"\n", "END\n")
	list := func(p *clitest.Process) string {
		c := p.Dial()
		c.Send("get q/from=0/hidden/meta\n")
		all := until(c)
		c.Send("get q_dead/from=0/hidden/meta\n")
		return all + until(c)
	}
	want := list(p)
	for _, part := range []string{`"id":2,"key":"K","deliveries":2`, `"id":3,"key":"L","deliveries":0`, `"id":6,"key":"M"`,
		"\nsex\n", `"origin":"q","why":"rejected"`, "VALUE q/1 5 3\n"} {
		if !strings.Contains(want, part) {
			t.Fatalf("the list has no %s:\n%s", part, want)
		}
	}
	if strings.Count(want, "/meta ") != 5 || strings.Contains(want, "four") {
		t.Fatalf("the list is\n%s", want)
	}
	admin := p.Saw("admin port is open")["address"].(string)
	checkFigures(t, p, admin)
	must("backup", "--admin", admin, "--output", in("backup"))
	p.Signal(os.Kill)
	p.ExitCode()
	must("restore", in("backup"), "--data-dir", in("restored"))
	for _, dir := range []string{"data", "restored"} {
		must("journal", "verify", "--data-dir", in(dir))
		must("journal", "inspect", "--data-dir", in(dir))
		must("journal", "repair", "--data-dir", in(dir))
		must("journal", "export", "--all", "--data-dir", in(dir), "--output", in(dir+".out"))
		p := serve(dir)
		if got := list(p); got != want {
			t.Errorf("%s has\n%s\nwant\n%s", dir, got, want)
		}
		c := p.Dial()
		c.Ask("set q/key=L/new 0 0 1\nx\n", "NOT_STORED\n")
		c.Ask(fmt.Sprintf("delete q/lease=%s\nget q/release=%s\nget q/close=%s\n", first, second, first), "DELETED\nEND\nCLIENT_ERROR not held\n")
		c.Send("get q/meta\n")
		if got := until(c); !strings.Contains(got, `"id":2,"key":"K","deliveries":2,`) || !strings.Contains(got, "\ntwo\n") {
			t.Errorf("%s: what was released is %s", dir, got)
		}
	}
}
