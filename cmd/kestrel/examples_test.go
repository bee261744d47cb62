package main

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// endless are the commands whose examples end only with a signal, with the flags that keep them off ports and
// directories of others, and what they log once they run.
var endless = map[string]struct{ flags, runs string }{
	"kestrel serve": {"--memcache-port auto --thrift-port none --text-port none", "listening"},
	"kestrel proxy": {"--listen 127.0.0.1:0", "the proxy listens on"},
}

// shorter are flags that have a command of an example take about a second.
var shorter = map[string]string{
	"put-many": "-n 5000", "many-clients": "-c 20 -n 500", "flood": "-n 5000", "packing": "-n 5000", "leaky-reader": "-n 2000",
	"open-loop": "--rate 2000 --warmup 0s --duration 1s", "ramp": "--max-rate 3000 --p99 10s --step 200ms", "fanout": "-n 2000",
	"mixed": "--duration 1s", "soak": "--rate 500 --duration 2s --max-growth 100",
	"outage": "--rate 500 --before 1s --outage 1s --after 1s", "delayed": "-n 2000 --min 10ms --max 100ms", "leases": "-n 2000",
	"retries": "-n 1000 --backoff 20ms",
}

// loadLine is the part of a line that runs a scenario.
var loadLine = regexp.MustCompile(`kestrel load ([a-z-]+)([^>|\n]*--spawn[^>|\n]*)`)

// shortened is an example with load that ends soon.
func shortened(example string) string {
	return loadLine.ReplaceAllStringFunc(example, func(line string) string {
		return line + " " + shorter[loadLine.FindStringSubmatch(line)[1]] + " "
	})
}

// exampleOf returns the example of a command's help page, as a transcript; "" if there is none.
func exampleOf(page string) string {
	_, rest, _ := strings.Cut(page, "\nExample:\n")
	example, _, _ := strings.Cut(rest, "\nExit status:")
	return strings.TrimPrefix(strings.ReplaceAll("\n"+example, "\n    ", "\n"), "\n")
}

// leaves returns the commands below cmd that do something.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.HasSubCommands() {
			all = append(all, leaves(child)...)
		} else {
			all = append(all, child)
		}
	}
	return all
}

// TestEndToEndExamples runs the example of every command's help. A command without one fails. In the directory of an
// example are data, the files of a server that has stopped, with two items in queue work; kestrel.toml and
// production.scala, which configure that queue; and mixed.toml, some load. A server runs, with an admin port and one
// of Burrow.
func TestEndToEndExamples(t *testing.T) {
	dir := t.TempDir()
	p := clitest.Serve(t, "--data-dir", filepath.Join(dir, "data"))
	p.Dial().Ask("set work 0 0 5\nhello\nset work 0 0 5\nworld\n", "STORED\nSTORED\n")
	p.Signal(syscall.SIGTERM)
	p.ExitCode()
	write(t, filepath.Join(dir, "kestrel.toml"), "[queues.work]\nmax_items = 1000\n")
	write(t, filepath.Join(dir, "production.scala"), "new KestrelConfig {\n  listenAddress = \"0.0.0.0\"\n"+
		"  queues = new QueueBuilder {\n    name = \"work\"\n    maxItems = 1000\n  }\n}\n")
	write(t, filepath.Join(dir, "mixed.toml"), "[[group]]\nname = \"puts\"\ndo = \"put\"\nqueues = [\"q\"]\nclients = 2\nrate = 100\n")
	root := commands()
	all := leaves(root)
	if len(all) < 60 {
		t.Fatalf("the tree has %d commands", len(all))
	}
	for _, cmd := range all {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			example := exampleOf(cmd.Long)
			if !strings.HasPrefix(example, "$ ") || !strings.Contains(example, strings.TrimPrefix(cmd.CommandPath(), "kestrel ")) {
				t.Fatalf("the help has no example:\n%s", cmd.Long)
			}
			own := filepath.Join(t.TempDir(), "own")
			if out, err := exec.Command("cp", "-r", dir, own).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v\n%s", err, out)
			}
			if how, ok := endless[cmd.CommandPath()]; ok {
				for line := range strings.Lines(example) {
					runUntil(t, own, strings.TrimPrefix(strings.TrimSpace(line), "$ ")+" "+how.flags, how.runs)
				}
				return
			}
			server := clitest.Serve(t, "--admin-port", "auto", "--burrow-port", "auto")
			t.Setenv("KESTREL_BURROW", "http://"+burrowOf(server))
			t.Setenv(cli.AdminVariable, server.Saw("admin port is open")["address"].(string))
			if ran := clitest.Transcript(t, server.Addr, own, shortened(example)); ran < 1 {
				t.Errorf("the example has %d commands", ran)
			}
		})
	}
}

// burrowOf returns where a server speaks Burrow's protocol.
func burrowOf(p *clitest.Process) string {
	for {
		if l := p.Logged("listening"); l["protocol"] == "burrow" {
			return l["address"].(string)
		}
	}
}

// runUntil runs a line in a directory until what it logs has a text, and ends it with SIGTERM: it has to exit with 0.
func runUntil(t *testing.T, dir, line, text string) {
	t.Helper()
	program, err := clitest.BuildBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec "+strings.Replace(line, "kestrel", program, 1))
	cmd.Dir = dir
	logged, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	ended := make(chan error, 1)
	go func() { err := cmd.Wait(); w.Close(); ended <- err }()
	seen, all := false, ""
	for in := bufio.NewScanner(logged); in.Scan(); {
		all += in.Text() + "\n"
		if !seen && strings.Contains(in.Text(), text) {
			seen = true
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := <-ended; err != nil || !seen {
		t.Errorf("$ %s\nended with %v, and said\n%s", line, err, all)
	}
}
