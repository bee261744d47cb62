package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/bradfitz/gomemcache/memcache" // of docs/clients/gomemcache.md

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// clientPage is how the program of a page of docs/clients is run. The commands are of the shell, in a directory of
// their own.
type clientPage struct {
	language string // of the page's fence
	file     string // where the program goes
	needs    string // fails if the library is not there
	debian   string // what to install
	build    string // before it is run, "" if nothing is
	run      string
}

// clientPages has every page of docs/clients by its name. $IDL is kestrel.thrift, $NODE the modules of `make clients`.
var clientPages = map[string]clientPage{
	"pymemcache.md": {"python", "jobs.py", "/usr/bin/python3 -c 'import pymemcache'", "python3-pymemcache", "",
		"/usr/bin/python3 jobs.py"},
	"python-memcached.md": {"python", "jobs.py", "/usr/bin/python3 -c 'import memcache'", "python3-memcache", "",
		"/usr/bin/python3 jobs.py"},
	"pylibmc.md": {"python", "jobs.py", "/usr/bin/python3 -c 'import pylibmc'", "python3-pylibmc", "",
		"/usr/bin/python3 jobs.py"},
	"thrift-python.md": {"python", "jobs.py", "thrift --version && /usr/bin/python3 -c 'import thrift'",
		"thrift-compiler python3-thrift", "thrift --gen py -out . $IDL", "/usr/bin/python3 jobs.py"},
	"dalli.md": {"ruby", "jobs.rb", "ruby --version", "ruby", "", "ruby jobs.rb"},
	"thrift-ruby.md": {"ruby", "jobs.rb", "thrift --version && ruby -e 'require \"thrift\"'", "thrift-compiler ruby-thrift",
		"thrift --gen rb -out . $IDL", "ruby jobs.rb"},
	"php-memcached.md": {"php", "jobs.php", "php -r 'exit(extension_loaded(\"memcached\") ? 0 : 1);'",
		"php-cli php-memcached", "", "php jobs.php"},
	"node-memcached.md": {"js", "jobs.js", "NODE_PATH=$NODE node -e 'require(\"memcached\")'", "nodejs npm, and make clients", "",
		"NODE_PATH=$NODE node jobs.js"},
	"cache-memcached.md": {"perl", "jobs.pl", "perl -MCache::Memcached -e 1", "libcache-memcached-perl", "", "perl jobs.pl"},
	"libmemcached.md": {"c", "jobs.c", "cc --version && test -e /usr/include/libmemcached/memcached.h", "gcc libmemcached-dev",
		"cc -Wall -Werror -o jobs jobs.c -lmemcached", "./jobs"},
	"spymemcached.md": {"java", "Jobs.java", "javac --version && test -e /usr/share/java/spymemcached.jar",
		"default-jdk-headless libspymemcached-java", "", "java -cp /usr/share/java/spymemcached.jar Jobs.java 2>/dev/null"},
	"gomemcache.md": {"go", "main.go", "", "", "", "go run -mod=mod ."},
	"thrift-go.md": {"go", "main.go", "thrift --version", "thrift-compiler",
		"thrift --gen go:package_prefix=example/ -out . $IDL", "go run -mod=mod ."},
}

// TestEndToEndClientPages runs the program of each page of docs/clients whose library is installed, on a server with
// the configuration that stands there. Each puts an item, takes it and confirms it.
func TestEndToEndClientPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/clients/*.md")
	if err != nil || len(pages) != len(clientPages) {
		t.Fatalf("docs/clients has %d pages (%v), and %d are known", len(pages), err, len(clientPages))
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			how, ok := clientPages[filepath.Base(page)]
			if !ok {
				t.Fatal("no test knows this page")
			}
			testClientPage(t, page, how)
		})
	}
}

func testClientPage(t *testing.T, page string, how clientPage) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	works, _, found := strings.Cut(string(text), "```"+how.language)
	if !found || !strings.Contains(works, "\nWhat does not work:\n\n- ") {
		t.Fatal("the page does not say first what does not work")
	}
	dir := t.TempDir()
	how.installed(t, dir)
	config := filepath.Join(dir, "kestrel.toml")
	write(t, config, strings.Join(fenced(string(text), "toml"), ""))
	p := clitest.Serve(t, "--config", config)
	programs := fenced(string(text), how.language)
	if len(programs) != 1 {
		t.Fatalf("the page has %d programs, want 1", len(programs))
	}
	out, err := how.try(t, dir, programs[0], p.Addr, p.Thrift)
	if want := "working on resize image 7\n"; err != nil || out != want {
		t.Errorf("%s: %v\n%s\nwant %q", how.run, err, out, want)
	}
	p.Dial().Ask("get jobs\n", "END\n")
}

// installed skips the test if the library of the page is not there.
func (how *clientPage) installed(t *testing.T, dir string) {
	t.Helper()
	if how.needs == "" {
		return
	}
	if out, err := shell(t, dir, how.needs); err != nil {
		notInstalled(t, fmt.Sprintf("not installed (Debian: %s): %v\n%s", how.debian, err, out))
	}
}

// try builds and runs a program of the page, whose ports become those of a server, and returns what it prints.
func (how *clientPage) try(t *testing.T, dir, program, memcache, thrift string) (string, error) {
	t.Helper()
	for port, addr := range map[string]string{"22133": memcache, "2229": thrift} {
		_, own, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		program = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(program, own)
	}
	write(t, filepath.Join(dir, how.file), program)
	if how.language == "go" {
		goModule(t, dir)
	}
	if how.build != "" {
		if out, err := shell(t, dir, how.build); err != nil {
			t.Fatalf("%s: %v\n%s", how.build, err, out)
		}
	}
	return shell(t, dir, how.run)
}

// TestEndToEndDalli tests that Dalli says that it does not work: it does not lose items silently.
func TestEndToEndDalli(t *testing.T) {
	dir := t.TempDir()
	if out, err := shell(t, dir, "ruby -e 'require \"dalli\"'"); err != nil {
		notInstalled(t, fmt.Sprintf("no Ruby with Dalli is installed (Debian: ruby-dalli): %v\n%s", err, out))
	}
	p := clitest.Serve(t)
	p.Dial().Ask("set jobs 0 0 1\nx\n", "STORED\n")
	write(t, filepath.Join(dir, "jobs.rb"), `
require "dalli"
Dalli.logger.level = Logger::FATAL
client = Dalli::Client.new("`+p.Addr+`")
[-> { client.set("jobs", "y") }, -> { client.get("jobs") }].each do |call|
  begin
    call.call
    puts "no error"
  rescue Dalli::RingError
    puts "refused"
  end
end
`)
	if out, err := shell(t, dir, "ruby jobs.rb"); err != nil || out != "refused\nrefused\n" {
		t.Errorf("Dalli: %v\n%s", err, out)
	}
	p.Dial().Ask("get jobs\n", "VALUE jobs 0 1\nx\nEND\n")
}

// notInstalled skips a test whose client library is missing. It fails the test where all should be there, as they are
// after `make clients` on a machine with the packages of .ci/run.
func notInstalled(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("KESTREL_CLIENTS") == "all" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// shell runs a command and returns what it printed.
func shell(t *testing.T, dir, command string) (string, error) {
	t.Helper()
	idl, err := filepath.Abs("../../docs/kestrel.thrift")
	if err != nil {
		t.Fatal(err)
	}
	node, err := filepath.Abs("../../bin/clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "IDL="+idl, "NODE="+node)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// goModule makes dir a module that requires what this one does, at the same versions.
func goModule(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), strings.Replace(string(text), "module github.com/kestrelmq/kestrel\n", "module example\n", 1))
	}
}

// fenced returns the blocks of a page in that language.
func fenced(page, language string) (blocks []string) {
	for _, rest := range strings.Split(page, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(rest, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndWorkQueues runs the programs of docs/WORK-QUEUES.md with pymemcache, if it is installed, on a server
// with the configuration that stands there.
func TestEndToEndWorkQueues(t *testing.T) {
	python := pythonWith("pymemcache")
	if python == "" {
		notInstalled(t, "no Python with pymemcache is installed (Debian: python3-pymemcache)")
	}
	page, err := os.ReadFile("../../docs/WORK-QUEUES.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kestrel.toml")
	settings := "memcache_reply_key = \"request\"\n" + strings.Join(fenced(string(page), "toml"), "")
	write(t, file, settings)
	wants := []string{
		"working on resize image 7\n",
		strings.Repeat("sending to: nobody\n", 3) + "given up: to: nobody\n",
		"say hello\ncall back\n",
	}
	programs := fenced(string(page), "python")
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
