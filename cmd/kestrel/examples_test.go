package main

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// endless lists the commands whose examples run until a signal ends them. Each has the flags that keep it off the
// ports and directories of others, and what it logs when it runs.
var endless = map[string]struct{ flags, runs string }{
	"kestrel serve": {"--memcache-port auto --thrift-port none --text-port none", "listening"},
	"kestrel proxy": {"--listen 127.0.0.1:0", "the proxy listens on"},
}

// shorter are flags that have a command of an example take about a second.
var shorter = map[string]string{
	"put-many": "-n 2000", "many-clients": "-c 10 -n 200", "flood": "-n 500",
	"packing": "-n 100 -c 3", "leaky-reader": "-n 200",
	"open-loop": "--rate 2000 --warmup 0s --duration 1s", "ramp": "--max-rate 3000 --p99 10s --step 200ms",
	"fanout": "-n 500",
	"mixed":  "--duration 1s", "soak": "--rate 500 --duration 2s --max-growth 100",
	"outage": "--rate 500 --before 1s --outage 1s --after 1s", "delayed": "-n 500 --min 10ms --max 100ms",
	"leases":  "-n 500",
	"retries": "-n 300 --backoff 20ms",
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
	example, _, _ = strings.Cut(example, "\nA file for it:")
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

// alone are the commands whose examples ask no server, by the word behind kestrel. The others fail without one.
var alone = []string{"completion", "config", "journal", "load", "plan", "user", "version"}

// examplesAtOnce is how many examples run at the same time: most of them wait for something most of the time.
const examplesAtOnce = 8

// TestEndToEndExamples runs the example of every command's help. A command without one fails. In its directory, data
// has the files of a server that has stopped, with two items in queue work. The files kestrel.toml and
// production.scala configure that queue, and mixed.toml describes a load. An example that needs a server has one to
// itself, with an admin port and one of Burrow. So examples do not disturb each other, and several run at once.
func TestEndToEndExamples(t *testing.T) {
	dir := t.TempDir()
	p := clitest.Serve(t, "--data-dir", filepath.Join(dir, "data"))
	p.Dial().Ask("set work 0 0 5\nhello\nset work 0 0 5\nworld\n", "STORED\nSTORED\n")
	p.Signal(syscall.SIGTERM)
	p.ExitCode()
	write(t, filepath.Join(dir, "kestrel.toml"), "[queues.work]\nmax_items = 1000\n")
	write(t, filepath.Join(dir, "production.scala"), "new KestrelConfig {\n  listenAddress = \"0.0.0.0\"\n"+
		"  queues = new QueueBuilder {\n    name = \"work\"\n    maxItems = 1000\n  }\n}\n")
	write(t, filepath.Join(dir, "mixed.toml"),
		"[[group]]\nname = \"puts\"\ndo = \"put\"\nqueues = [\"q\"]\nclients = 2\nrate = 100\n")
	all := leaves(commands())
	if len(all) < 60 {
		t.Fatalf("the tree has %d commands", len(all))
	}
	next := make(chan *cobra.Command)
	var workers sync.WaitGroup
	for range examplesAtOnce {
		workers.Go(func() {
			for cmd := range next {
				t.Run(cmd.CommandPath(), func(t *testing.T) { runExample(t, cmd, dir) })
			}
		})
	}
	slices.SortStableFunc(all, func(a, b *cobra.Command) int { // first what takes long
		return cmp.Compare(strings.Index(b.CommandPath(), " load "), strings.Index(a.CommandPath(), " load "))
	})
	for _, cmd := range all {
		next <- cmd
	}
	close(next)
	workers.Wait()
}

// runExample runs the example of a command in a copy of dir.
func runExample(t *testing.T, cmd *cobra.Command, dir string) {
	example := exampleOf(cmd.Long)
	name := strings.TrimPrefix(cmd.CommandPath(), "kestrel ")
	if !strings.HasPrefix(example, "$ ") || !strings.Contains(example, name) {
		t.Fatalf("the help has no example:\n%s", cmd.Long)
	}
	own := filepath.Join(t.TempDir(), "own")
	if err := os.CopyFS(own, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if how, ok := endless[cmd.CommandPath()]; ok {
		for line := range strings.Lines(example) {
			runUntil(t, own, strings.TrimPrefix(strings.TrimSpace(line), "$ ")+" "+how.flags, how.runs)
		}
		return
	}
	address, env := "127.0.0.1:1", []string(nil) // nobody listens there
	if first, _, _ := strings.Cut(name, " "); !slices.Contains(alone, first) {
		server := clitest.Serve(t, "--admin-port", "auto", "--burrow-port", "auto")
		address = server.Addr
		env = []string{"KESTREL_BURROW=http://" + burrowOf(server),
			cli.AdminVariable + "=" + server.Saw("admin port is open")["address"].(string)}
	}
	if ran := clitest.Transcript(t, address, own, shortened(example), env...); ran < 1 {
		t.Errorf("the example has %d commands", ran)
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
