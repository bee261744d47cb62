package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// TestManSynopsis compares the synopsis of each man page with the flags that the command has.
func TestManSynopsis(t *testing.T) {
	dir := t.TempDir()
	runIn(t, cli.ExitOK, "man", dir)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			check(child)
		}
		if !cmd.IsAvailableCommand() {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(page), ".SH SYNOPSIS")
		text, _, _ = strings.Cut(text, ".SH DESCRIPTION")
		if !strings.Contains(text, "\\fB"+cmd.CommandPath()) {
			t.Errorf("%s: the synopsis does not begin with it: %s", cmd.CommandPath(), text)
		}
		if cmd.HasSubCommands() {
			return
		}
		for _, f := range knownFlags(cmd) {
			if !regexp.MustCompile(`--` + f.Name + `\b`).MatchString(text) {
				t.Errorf("%s: the synopsis has no --%s: %s", cmd.CommandPath(), f.Name, text)
			}
		}
		if strings.Contains(text, "[flags]") {
			t.Errorf("%s: the synopsis does not name the flags: %s", cmd.CommandPath(), text)
		}
	}
	check(commands())
}

// TestSynopsis has the forms of commands whose pages differ most.
func TestSynopsis(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"plan", []string{
			"kestrel plan --rate NUMBER --size SIZE --outage TIME [--connections NUMBER] [--measure] [--processors NUMBER]",
		}},
		{"journal inspect", []string{"kestrel journal inspect [QUEUE...] --data-dir DATA [--config FILE] [--json]"}},
		{"user", []string{"kestrel user hash", "kestrel user token"}},
		{"backup", []string{
			"kestrel backup --output DIR|- [--admin HOST:PORT | --config FILE] [--full-speed] [--rate MEBIBYTES] [--tls]" +
				" [--tls-ca FILE] [--tls-cert FILE] [--tls-key FILE] [--user NAME]",
			"kestrel backup --output DIR|- --stopped --data-dir DATA|--config FILE",
		}},
	} {
		cmd, _, err := commands().Find(strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		if got := synopsis(cmd); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("synopsis of %s = %q, want %q", tt.args, got, tt.want)
		}
	}
}
