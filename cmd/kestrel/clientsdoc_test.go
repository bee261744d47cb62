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

// TestEndToEndWorkQueues runs the programs of docs/WORK-QUEUES.md with pymemcache, if it is installed, on a server
// with the configuration that stands there.
func TestEndToEndWorkQueues(t *testing.T) {
	python := pythonWith("pymemcache")
	if python == "" {
		t.Skip("no Python with pymemcache is installed (Debian: python3-pymemcache)")
	}
	page, err := os.ReadFile("../../docs/WORK-QUEUES.md")
	if err != nil {
		t.Fatal(err)
	}
	fenced := func(language string) (blocks []string) {
		for _, rest := range strings.Split(string(page), "```"+language+"\n")[1:] {
			block, _, _ := strings.Cut(rest, "```")
			blocks = append(blocks, block)
		}
		return blocks
	}
	file := filepath.Join(t.TempDir(), "kestrel.toml")
	settings := "memcache_reply_key = \"request\"\n" + strings.Join(fenced("toml"), "")
	if err := os.WriteFile(file, []byte(settings), 0o666); err != nil {
		t.Fatal(err)
	}
	wants := []string{
		"working on resize image 7\n",
		strings.Repeat("sending to: nobody\n", 3) + "given up: to: nobody\n",
		"say hello\ncall back\n",
	}
	programs := fenced("python")
	if len(programs) != len(wants) {
		t.Fatalf("docs/WORK-QUEUES.md has %d programs, want %d", len(programs), len(wants))
	}
	p := clitest.Serve(t, "--config", file)
	for i, program := range programs {
		script := "import sys\nhost, port = sys.argv[1].rsplit(':', 1)\nserver = (host, int(port))\n" + program
		out, err := exec.Command(python, "-c", script, p.Addr).CombinedOutput()
		if err != nil || string(out) != wants[i] {
			t.Errorf("program %d of docs/WORK-QUEUES.md: %v\n%s\nwant %q", i+1, err, out, wants[i])
		}
	}
	for _, queue := range []string{"jobs", "mail", "mail_dead", "reminders"} {
		p.Dial().Ask("get "+queue+"\n", "END\n")
	}
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
