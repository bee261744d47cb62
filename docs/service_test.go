package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxExposure is the highest exposure of the unit, in tenths of what `systemd-analyze security` says.
const maxExposure = "20"

// TestSystemdUnit has systemd's own tool look at operations/kestrel.service, if it is installed.
func TestSystemdUnit(t *testing.T) {
	const file = "operations/kestrel.service"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"[Install]", "Restart=", "ExecReload="} {
		if !strings.Contains(string(b), "\n"+line) {
			t.Errorf("%s has no %s", file, line)
		}
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The tool looks for the program, which is not installed here.
	unit := filepath.Join(t.TempDir(), "kestrel.service")
	installed := strings.ReplaceAll(string(b), "/usr/bin/kestrel", program)
	if err := os.WriteFile(unit, []byte(installed), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"verify", "--man=no", unit},
		{"security", "--no-pager", "--offline=yes", "--threshold=" + maxExposure, unit},
	} {
		out, err := exec.Command(tool, args...).CombinedOutput()
		if strings.Contains(string(out), "unrecognized option") {
			t.Skipf("systemd-analyze is too old for %q", args)
		}
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
