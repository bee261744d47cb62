package clitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Transcript runs the lines of a transcript that begin with "$ ", in bash and in one directory. It tests that they print
// the lines behind them: standard output and errors together. In these "…" stands for any text in a line, or alone in a
// line for any lines, and several blanks stand for one. The built program is kestrel there, and server its server. env
// has further variables, as NAME=value. Transcript returns how many lines it ran.
func Transcript(t *testing.T, server, dir, transcript string, env ...string) (ran int) {
	t.Helper()
	program, err := BuildBinary()
	if err != nil {
		t.Fatal(err)
	}
	commands := strings.Split("\n"+transcript, "\n$ ")
	for _, part := range commands[1:] {
		line, want, _ := strings.Cut(part, "\n")
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Dir = dir
		cmd.WaitDelay = time.Second
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "KESTREL_SERVER="+server,
			"HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, ".config"))
		cmd.Env = append(cmd.Env, env...)
		kill := time.AfterFunc(3*Patience, func() { cmd.Process.Kill() })
		out, err := cmd.CombinedOutput()
		if !kill.Stop() {
			t.Errorf("$ %s\nhas not ended after %v", line, 3*Patience)
		}
		if !like(string(out), want) {
			t.Errorf("$ %s\nprinted (%v)\n%s\nwant\n%s", line, err, out, want)
		}
		ran++
	}
	return ran
}

// like reports whether got is want. In want, "…" stands for any text in a line, or alone in one for any lines; blanks
// stand for any number of them. Empty lines at the end do not matter.
func like(got, want string) bool {
	pattern := regexp.QuoteMeta(trimmed(want))
	pattern = anyLines.ReplaceAllString(pattern, `(?s:.*)`)
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(trimmed(got))
}

var anyLines = regexp.MustCompile("(?m)^…$")

func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
