package backupcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndProgress backs up and restores on a terminal, where a line says how far it is, and of how much. The control
// restores without one.
func TestEndToEndProgress(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := clitest.Serve(t, "--data-dir", data)
	p.Dial().Ask("set work 0 0 5\nhello\n", "STORED\n")
	p.Signal(os.Kill)
	p.ExitCode()
	root := t.TempDir()
	nightly := filepath.Join(root, "nightly")
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"copied", []string{"backup", "--stopped", "--data-dir", data, "--output", nightly}},
		{"checked", []string{"restore", nightly, "--check"}},
		{"restored", []string{"restore", nightly, "--data-dir", filepath.Join(root, "new")}},
	} {
		code, said := clitest.OnTerminal(t, clitest.Command(t, tt.args...))
		if line := clitest.ProgressLine(tt.says + ` [0-9.]+ \w+ of [0-9.]+ \w+`); code != 0 || !line.MatchString(said) {
			t.Errorf("kestrel %q = %d, and shows no line %q on a terminal:\n%q", tt.args, code, tt.says, said)
		}
	}
	code, out, errs := clitest.RunToEnd(t, "restore", nightly, "--data-dir", filepath.Join(root, "control"))
	if code != 0 || strings.Contains(out+errs, "\r") {
		t.Errorf("restore = %d, and draws on what is no terminal: %q%q", code, out, errs)
	}
}
