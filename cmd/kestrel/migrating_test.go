package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/codec/oldjournal"
)

// TestEndToEndMigrating runs the boxes of docs/MIGRATING.md in a directory with the files that they
// speak of. Commands print what is written below them, and the telnet session goes as it does
// there.
func TestEndToEndMigrating(t *testing.T) {
	guide := &guide{t: t, dir: t.TempDir()}
	guide.write("spool/outgoing_mail.1700000000500", clitest.Adds("mail 1", "mail 2", "mail 3"))
	guide.write("spool/outgoing_mail", slices.Concat(clitest.Record(oldjournal.OpRemove, 0),
		clitest.Record(oldjournal.OpRemoveTentativeXID, 1), clitest.Adds("mail 4")))
	guide.write("spool/events", nil)
	guide.write("spool/events+archive", clitest.Adds("event 1"))
	// As Starling writes it: a push is 0, size, expiry, data; a pop is 1.
	guide.write("starling/jobs", []byte("\x00\x09\x00\x00\x00\x00\x00\x00\x00taken"+
		"\x00\x09\x00\x00\x00\x00\x00\x00\x00stays\x01"))
	text, err := os.ReadFile("../../docs/MIGRATING.md")
	if err != nil {
		t.Fatal(err)
	}
	boxes := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	for _, box := range boxes {
		switch kind, lines := box[1], box[2]; kind {
		case "scala":
			guide.write("production.scala", []byte(lines))
		case "console":
			guide.console(lines)
		default:
			guide.telnet(lines)
		}
	}
	if guide.commands < 10 || guide.asked < 5 {
		t.Errorf("only %d commands and %d requests in the boxes", guide.commands, guide.asked)
	}
}

// guide runs what a document says.
type guide struct {
	t        *testing.T
	dir      string
	server   *clitest.Process
	commands int
	asked    int
}

func (g *guide) write(name string, data []byte) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// console runs the commands of a box, each followed by what it prints.
func (g *guide) console(box string) {
	g.t.Helper()
	commands := strings.Split("\n"+box, "\n$ ")
	if commands[0] != "" {
		g.t.Fatalf("a box begins with %q, not with a command", commands[0])
	}
	for _, c := range commands[1:] {
		command, want, _ := strings.Cut(c, "\n")
		g.commands++
		switch {
		case strings.HasPrefix(command, "kestrel serve "):
			args := strings.Fields(strings.TrimSuffix(command, "&"))[2:]
			for i, arg := range args {
				if arg == "--config" { // the process has a directory of its own
					args[i+1] = filepath.Join(g.dir, args[i+1])
				}
			}
			g.server = clitest.Serve(g.t,
				append(args, "--data-dir", filepath.Join(g.dir, "spool", "data"))...)
		case command == "kill %kestrel":
			g.server.Signal(os.Interrupt)
			if code := g.server.ExitCode(); code != cli.ExitOK {
				g.t.Fatalf("the server ends with %d", code)
			}
		default:
			g.command(command, strings.TrimSuffix(want, "\n"))
		}
	}
}

// command runs a command in the shell. One that fails says so in a line that begins with kestrel:.
func (g *guide) command(command, want string) {
	g.t.Helper()
	program, err := clitest.BuildBinary()
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.CommandContext(g.t.Context(), "sh", "-c", command)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	got := strings.TrimSuffix(string(out), "\n")
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		g.t.Fatalf("%s prints\n%s\nand not, as docs/MIGRATING.md has it,\n%s", command, got, want)
	}
	if failed := regexp.MustCompile(`(?m)^kestrel: `).MatchString(want); failed != (err != nil) {
		g.t.Fatalf("%s: %v, and prints\n%s", command, err, got)
	}
}

// telnet plays a session against the server.
func (g *guide) telnet(box string) {
	g.t.Helper()
	session, ok := strings.CutPrefix(box, "$ telnet 127.0.0.1 22133\n")
	if !ok || g.server == nil {
		g.t.Fatalf("not a session, or no server: %q", box)
	}
	g.asked += playSession(g.t, g.server.Dial(), session, "docs/MIGRATING.md")
}
