package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

func TestHelp(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{"kestrel serve", "kestrel version"}},
		{"--help", []string{"Usage:\n", "    serve ", "    version ", "    config "}},
		{"serve --help", []string{"Usage:\n", "    --config FILE",
			"    --data-dir path (default ./kestrel-data)",
			"    --memcache-port port|auto|none (default 22133)", "Example:\n"}},
		{"help config", []string{"[queues.work]", "  memcache_port ", "  * max_items ", "\"16MiB\""}},
		{"config", []string{"[queues.work]"}},
		{"version --help", []string{"kestrel version"}},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(tt.args), &out, &errs); code != cli.ExitOK || errs.Len() > 0 {
			t.Errorf("kestrel %s: exit code %d, %s", tt.args, code, &errs)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("kestrel %s lacks %q:\n%s", tt.args, want, &out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 81 {
				t.Errorf("kestrel %s: line of more than 80 columns: %s", tt.args, line)
			}
		}
	}
}

// serve is made without the other commands, and answers as it does among them.
func TestServeAlone(t *testing.T) {
	for _, args := range []string{
		"serve --help", "serve -h", "serve --version", "serve now", "serve version", "serve --no-such-flag",
		"serve --config=", "serve --loops many",
	} {
		var out, errs, wantOut, wantErrs bytes.Buffer
		code := run(strings.Fields(args), &out, &errs)
		want := cli.Run(commands(), strings.Fields(args), &wantOut, &wantErrs)
		if code != want || out.String() != wantOut.String() || errs.String() != wantErrs.String() {
			t.Errorf("kestrel %s = %d, %q, %q; among all commands %d, %q, %q",
				args, code, &out, &errs, want, &wantOut, &wantErrs)
		}
	}
	if out, _ := runIn(t, cli.ExitOK, "serve", "--help"); !strings.Contains(out, "--loops ") {
		t.Errorf("kestrel serve --help = %q", out)
	}
	if alone := serveAlone().Commands(); len(alone) != 1 || alone[0].Name() != "serve" {
		t.Errorf("serveAlone has %d commands", len(alone))
	}
}

func TestHelpIsComplete(t *testing.T) {
	page := serveHelp()
	for _, f := range serveFlags() {
		if !strings.Contains(page, "--"+f.name+" ") {
			t.Errorf("kestrel serve --help lacks --%s", f.name)
		}
	}
}

// TestSlips tests that errors of the command line are in the words of the program, and not of its libraries.
func TestSlips(t *testing.T) {
	for args, want := range map[string]string{
		"help nonsense":            "unknown command \"nonsense\" for \"kestrel\"\nTry 'kestrel --help'.",
		"help clinets":             "did you mean: clients",
		"ls --timeout 5":           `--timeout "5": want a time such as 500ms, 30s or 2h`,
		"get work -n 5x":           `--count "5x": want a whole number`,
		"clients --end -1":         `--end "-1": want a whole number, 0 or more`,
		"backup --rate y":          `--rate "y": want a whole number`,
		"get work --all=q":         `--all "q": want true or false`,
		"load open-loop --rate 1z": "want a number a second, such as 20000, 50k or 1.5M",
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(args), &out, &errs)
		if code != cli.ExitUsage || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "strconv") {
			t.Errorf("kestrel %s = %d: %s%s, want %q", args, code, &out, &errs, want)
		}
	}
}

// TestHelpWidth wants every page to fit a terminal of 80 columns, but for examples: their lines are to be pasted.
func TestHelpWidth(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		page, rest, _ := strings.Cut(cmd.Long, "\nExample:\n")
		_, end, _ := strings.Cut(rest, "\nExit status:")
		for line := range strings.Lines(page + "\nExit status:" + end) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s: line of more than 80 columns: %s", cmd.CommandPath(), line)
			}
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(commands())
}
