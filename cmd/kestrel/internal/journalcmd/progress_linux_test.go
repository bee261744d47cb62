package journalcmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndProgress runs what takes long for large data on a terminal: a line says how far it is, and of how much. The
// control runs the same without a terminal: a log has no such line.
func TestEndToEndProgress(t *testing.T) {
	data, segment := killedDir(t)
	root := t.TempDir()
	old, items := filepath.Join(root, "old"), filepath.Join(root, "items")
	run := func(code int, says []string, args ...string) {
		t.Helper()
		got, said := clitest.OnTerminal(t, clitest.Command(t, args...))
		if got != code {
			t.Errorf("kestrel %q = %d, want %d\n%s", args, got, code, said)
		}
		for _, text := range says {
			if !clitest.ProgressLine(text).MatchString(said) {
				t.Errorf("kestrel %q does not show %q on a terminal:\n%q", args, text, said)
			}
		}
	}
	const bytes = `[0-9.]+ \w+ of [0-9.]+ \w+`
	run(0, []string{"read " + bytes}, "journal", "verify", "--data-dir", data)
	run(0, []string{"read " + bytes}, "journal", "inspect", "--data-dir", data)
	run(0, []string{"examined " + bytes}, "journal", "repair", "--data-dir", data)
	run(0, []string{"read " + bytes, "exported 1 of 5 items"}, "journal", "export", "work", "--output", old, "--data-dir", data)
	run(0, []string{`read \d+ B of \d+ B`, "imported 1 of 5 items"}, "journal", "import", old, "--data-dir", filepath.Join(root, "new"))

	inspect := clitest.Command(t, "journal", "inspect", "work", "--data-dir", data)
	file, err := os.Create(items)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inspect.Stdout = file
	if _, said := clitest.OnTerminal(t, inspect); !strings.Contains(said, "written 1 of 5 items") {
		t.Errorf("inspect to a file shows no progress: %q", said)
	}
	if list, err := os.ReadFile(items); err != nil || strings.Count(string(list), "hello") != 5 || strings.Contains(string(list), "\r") {
		t.Errorf("inspect wrote %q: %v", list, err)
	}
	if _, said := clitest.OnTerminal(t, clitest.Command(t, "journal", "inspect", "work", "--data-dir", data)); strings.Contains(said, "written") {
		t.Errorf("inspect on a terminal shows its progress between the items: %q", said)
	}
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "repair"}, {"journal", "inspect"}} {
		if _, out, errs := clitest.RunToEnd(t, append(args, "--data-dir", data)...); strings.Contains(out+errs, "\r") {
			t.Errorf("kestrel %q draws on what is no terminal: %q%q", args, out, errs)
		}
	}

	overwrite(t, segment, 140)
	run(0, []string{"examined " + bytes, "copied " + bytes, "read " + bytes}, "journal", "repair", "--apply", "--data-dir", data)
}

// TestEndToEndProgressFits tests that a progress leaves nothing behind on a narrow terminal: no line of it wraps.
func TestEndToEndProgressFits(t *testing.T) {
	data, _ := killedDir(t)
	verify := clitest.Command(t, "journal", "verify", "--data-dir", data)
	narrow := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `stty cols 40; exec "$0" "$@"`}, verify.Args...)...)
	code, said := clitest.OnTerminal(t, narrow)
	if code != 0 || !strings.Contains(said, "read ") {
		t.Errorf("kestrel journal verify = %d, and shows no progress: %q", code, said)
	}
	for shown := range strings.SplitSeq(said, "\r\x1b[K") {
		if text, _, _ := strings.Cut(shown, "\r\n"); len(text) >= 40 && strings.Contains(text, " of ") {
			t.Errorf("on 40 columns a progress has %d: %q", len(text), text)
		}
	}
}
