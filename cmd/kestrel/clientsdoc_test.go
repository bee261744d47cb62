package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndPymemcache runs the example of docs/CLIENTS.md with pymemcache, if it is installed.
func TestEndToEndPymemcache(t *testing.T) {
	python := pythonWith("pymemcache")
	if python == "" {
		t.Skip("no Python with pymemcache is installed (Debian: python3-pymemcache)")
	}
	page, err := os.ReadFile("../../docs/CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```python\n")
	example, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/CLIENTS.md has no example in Python")
	}
	file := filepath.Join(t.TempDir(), "kestrel.toml")
	if err := os.WriteFile(file, []byte("memcache_reply_key = \"request\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := clitest.Serve(t, "--config", file)
	script := "import sys\nhost, port = sys.argv[1].rsplit(':', 1)\nserver = (host, int(port))\n" + example
	out, err := exec.Command(python, "-c", script, p.Addr).CombinedOutput()
	if want := "working on resize image 7\n"; err != nil || string(out) != want {
		t.Errorf("the example of docs/CLIENTS.md: %v\n%s\nwant %q", err, out, want)
	}
	p.Dial().Ask("get jobs\n", "END\n")
}

// pythonWith returns a Python that has a module, or "".
func pythonWith(module string) string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import "+module).Run() == nil {
			return python
		}
	}
	return ""
}
