package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestMan writes the man pages twice: there is one for each command, and they are the same bytes.
func TestMan(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		runIn(t, cli.ExitOK, "man", dir)
	}
	for _, name := range []string{"kestrel.1", "kestrel-serve.1", "kestrel-put.1", "kestrel-journal-verify.1", "kestrel-load-soak.1"} {
		var pages [2]string
		for i, dir := range dirs {
			page, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			pages[i] = string(page)
		}
		if pages[0] != pages[1] || strings.Count(pages[0], ".SH SYNOPSIS") != 1 || strings.Contains(pages[0], "Usage:") ||
			name != "kestrel.1" && strings.Count(pages[0], ".SH OPTIONS") != 1 {
			t.Errorf("%s is\n%s", name, pages[0])
		}
	}
	runIn(t, cli.ExitUsage, "man")
	runIn(t, cli.ExitFailed, "man", filepath.Join(dirs[0], "kestrel.1"))
}

// TestEndToEndCompletion completes commands, flags and the names of queues.
func TestEndToEndCompletion(t *testing.T) {
	p := clitest.Serve(t)
	p.Dial().Ask("set images 0 0 1\nx\n", "STORED\n")
	for _, tt := range []struct {
		line []string
		want string
	}{
		{[]string{"pe"}, "peek\t"},
		{[]string{"get", "--ser"}, "--server\t"},
		{[]string{"get", "--server", p.Addr, ""}, "images\n"},
	} {
		code, stdout, stderr := clitest.RunToEnd(t, append([]string{"__complete"}, tt.line...)...)
		if code != cli.ExitOK || !strings.Contains(stdout, tt.want) {
			t.Errorf("kestrel %q completes to %d %q %q, want %q", tt.line, code, stdout, stderr, tt.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if stdout, _ := runIn(t, cli.ExitOK, "completion", shell); !strings.Contains(stdout, "__complete") {
			t.Errorf("the completions for %s are %.100q", shell, stdout)
		}
	}
	runIn(t, cli.ExitUsage, "completion")
	runIn(t, cli.ExitUsage, "completion", "cmd.exe")
}
