package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
		if os.Getenv("KESTREL_CI") != "" {
			t.Fatal("systemd-analyze is not installed: .ci/run installs it")
		}
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

// TestCompose compares operations/compose.yaml with the image that cmd/dist builds: its name and number, its ports,
// its volume. If docker compose is installed, that reads the file too.
func TestCompose(t *testing.T) {
	const file = "operations/compose.yaml"
	compose, image := read(t, file), read(t, filepath.Join(root, "cmd/dist/image.go"))
	number := regexp.MustCompile(`(?m)^## ([0-9.]+)`).FindStringSubmatch(read(t, "CHANGELOG.md"))
	if number == nil || !strings.Contains(compose, "image: kestrel:"+number[1]+"\n") {
		t.Errorf("%s does not run the image of the newest release, %q", file, number)
	}
	var exposed, open []string
	for _, m := range regexp.MustCompile(`"(\d+)/tcp"`).FindAllStringSubmatch(image, -1) {
		exposed = append(exposed, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^      - "127\.0\.0\.1:(\d+):(\d+)"`).FindAllStringSubmatch(compose, -1) {
		if open = append(open, m[2]); m[1] != m[2] {
			t.Errorf("%s gives port %s the number %s", file, m[2], m[1])
		}
	}
	slices.Sort(exposed)
	slices.Sort(open)
	if len(open) == 0 || !slices.Equal(exposed, open) {
		t.Errorf("%s opens the ports %s of this machine, and the image has %s", file, open, exposed)
	}
	if volume := `Volumes:    map[string]struct{}{"/data": {}}`; !strings.Contains(image, volume) ||
		!strings.Contains(compose, "      - queues:/data\n") {
		t.Errorf("%s does not keep the queues in the image's volume", file)
	}
	if exec.Command("docker", "compose", "version").Run() != nil {
		return
	}
	if out, err := exec.Command("docker", "compose", "-f", file, "config", "--quiet").CombinedOutput(); err != nil {
		t.Errorf("docker compose config: %v\n%s", err, out)
	}
}
