package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

var update = flag.Bool("update", false, "write what tests compare with anew")

// originals are configuration files of the original; beside each is its TOML, in NAME.toml, and
// what could not be translated, in NAME.problems.
var originals = []string{"production", "development", "computed"}

// TestConfigImport translates realistic files. To accept what it makes of them, run it with
// -update.
func TestConfigImport(t *testing.T) {
	for _, name := range originals {
		file := filepath.Join("testdata", "original", name)
		var out, errs bytes.Buffer
		code := run([]string{"config", "import", file + ".scala"}, &out, &errs)
		problems := strings.ReplaceAll(errs.String(), file, name)
		if *update {
			for ext, text := range map[string]string{".toml": out.String(), ".problems": problems} {
				if err := os.WriteFile(file+ext, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		for ext, got := range map[string]string{".toml": out.String(), ".problems": problems} {
			want, err := os.ReadFile(file + ext)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s%s: got\n%s\nwant\n%s", file, ext, got, want)
			}
		}
		clean := !strings.Contains(problems, "could not be translated")
		if (code == cli.ExitOK) != clean || code != cli.ExitOK && code != cli.ExitFailed {
			t.Errorf("%s: exit code %d", file, code)
		}
		if name == "computed" {
			continue // what is left of it is not enough for a server
		}
		checked := filepath.Join(t.TempDir(), "kestrel.toml")
		if err := os.WriteFile(checked, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		runIn(t, cli.ExitOK, "config", "check", checked)
	}
}

func TestConfigCheck(t *testing.T) {
	file := clitest.WriteConfig(t, "[queues.a]\nmax_items = 1\nmax_journal_size = \"1GiB\"\n[aliases.b]\n"+
		"destination_queues = [\"a\"]\n")
	out, _ := runIn(t, cli.ExitOK, "config", "check", file)
	clitest.WantText(t, out, "warning: max_journal_size has no effect: ",
		file+" can be used: options for 1 queue, 1 alias\n")
	file = clitest.WriteConfig(t, "memory_limit = true\n")
	_, errs := runIn(t, cli.ExitUsage, "config", "check", file)
	clitest.WantText(t, errs, file+":1: memory_limit: want a size")
	_, errs = runIn(t, cli.ExitUsage, "config", "check", file+"x")
	clitest.WantText(t, errs, "no such file")
	_, errs = runIn(t, cli.ExitUsage, "config", "check")
	clitest.WantText(t, errs, "takes one file, have 0")
	_, errs = runIn(t, cli.ExitUsage, "config", "explain")
	clitest.WantText(t, errs, `unknown command "explain" for "kestrel config"`)
}
