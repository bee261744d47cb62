package loadcmd

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

// TestEndToEndLoad runs every scenario of the built program against a server that it starts itself.
func TestEndToEndLoad(t *testing.T) {
	dir := t.TempDir()
	mixed := filepath.Join(dir, "mixed.toml")
	if err := os.WriteFile(mixed, []byte(`items = 300
[[flow]]
queue = "mail"
queues = 2
size = 2048
rate = 5000.0
[[flow]]
queue = "log"
producers = 2
consumers = 2
pipeline = 8
wait = "0s"
reliable = true
`), 0o644); err != nil {
		t.Fatal(err)
	}
	const never = " --spawn-args=--sync-journal=never"
	for _, tt := range []struct{ args, want string }{
		{"put-many -g -c 5 -n 1000 -r 4 -Q 2" + never, `Get 1000 items of 1024 bytes`},
		{"put-many -g -c 5 -n 1000 -r 4 --thrift", `(?s)Finished.*Finished`},
		{"many-clients -c 20 -n 30 -s 1 -k 20", `Received \d\d+ items in \d+ msec\.`},
		{"flood -n 2000 -R 2 -C 2 -B" + never, `Consumer\(s\) spun \d+ times in misses\.`},
		{"flood -n 2000 -r 10 -M", `flood: consumers=1 each reading 2000 items \(in chunks of 10\)`},
		{"flood -n 2000 -r 10 --thrift" + never, `Finished in \d+ msec`},
		{"packing -n 500 -c 3 -t 0" + never, `(?s)cycle: 3.*Read 500 items`},
		{"leaky-reader -n 500 -d 0.002 --seed 3", `Completed all reads`},
		{"open-loop --rate 500 -d 200ms --warmup 50ms --poisson", `load +put +\d+`},
		{"fanout --children 3 -n 500" + never, `Put 500 items, got 2000\.`},
		{"mixed -f " + mixed + never,
			`mixed: 2 queues named mail, 2048 bytes, 16 producers, 16 consumers`},
		{"soak --rate 500 -d 300ms -x --max-memory 1GiB" + never, `Memory: .* at the end`},
		{"delayed -n 500 --min 20ms --max 200ms" + never, `Put 500 jobs; 500 done, 0 lost, 0 twice, 0 early`},
		{"leases -n 300 --lease 1s --leak 0.2" + never, `Put 300 jobs; 300 done, 0 lost, 0 twice, 0 early; \d\d+ deliveries`},
		{"retries -n 300 --fails 2 --backoff 30ms" + never, `Put 300 jobs; 300 done, 0 lost, 0 twice, 0 early; 300 deliveries`},
	} {
		words := strings.Fields(tt.args)
		name := words[0]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := filepath.Join(t.TempDir(), name)
			args := append([]string{"load"}, words...)
			args = append(args, "--spawn", "--output", prefix, "--spawn-dir", t.TempDir())
			code, stdout, stderr := clitest.RunToEnd(t, args...)
			if code != cli.ExitOK || stderr != "" {
				t.Fatalf("kestrel %s: exit code %d, %s\n%s", tt.args, code, stderr, stdout)
			}
			if !regexp.MustCompile(tt.want).MatchString(stdout) {
				t.Errorf("kestrel %s printed:\n%s\nwant a match of %s", tt.args, stdout, tt.want)
			}
			checkLoadFiles(t, prefix)
		})
	}
}

// checkLoadFiles checks what a run has written.
func checkLoadFiles(t *testing.T, prefix string) {
	t.Helper()
	r, err := figures.Read(prefix + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if !r.Checked.Verified || r.Checked.Put == 0 || r.Checked.Lost != 0 || r.Failure != "" {
		t.Errorf("Checked = %+v, failure %q", r.Checked, r.Failure)
	}
	if !r.Server.Spawned || r.Server.PID == 0 || !strings.Contains(r.Server.Command, "serve") ||
		r.Versions.Server == "" || r.Options["spawn"] != "true" || r.Machine.Cores == 0 {
		t.Errorf("server %+v, versions %+v, options %v", r.Server, r.Versions, r.Options)
	}
	for _, p := range r.Phases {
		if p.Server == nil || p.Server.CPU <= 0 || p.Server.Resident < 1<<20 {
			t.Errorf("phase %s does not say what it cost the server: %+v", p.Name, p.Server)
		}
	}
	log, err := os.ReadFile(prefix + ".hlog")
	if err != nil || !bytes.Contains(log, []byte("-put,")) {
		t.Errorf("interval log: %v\n%s", err, log)
	}
	if names, err := filepath.Glob(prefix + "-*.hgrm"); err != nil || len(names) == 0 {
		t.Errorf("percentile files: %v, %v", names, err)
	}
}

// TestEndToEndLoadResults compares and draws runs.
func TestEndToEndLoadResults(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, label := range []string{"a", "b"} {
		prefix := filepath.Join(dir, label)
		code, _, stderr := clitest.RunToEnd(t, "load", "put-many", "-n", "2000", "--spawn", "--quiet",
			"--label", label, "--output", prefix)
		if code != cli.ExitOK {
			t.Fatal(stderr)
		}
		files = append(files, prefix+".json")
	}
	code, stdout, stderr := clitest.RunToEnd(t, append([]string{"load", "compare"}, files...)...)
	if code != cli.ExitOK || !strings.Contains(stdout, "reference: a: put-many") ||
		!regexp.MustCompile(`put +put +rate/s +b +[\d,]+ +\d+\.\d+`).MatchString(stdout) {
		t.Errorf("compare: exit code %d, %s\n%s", code, stderr, stdout)
	}
	for ext, want := range map[string]string{"html": "<!DOCTYPE html>", "svg": "<?xml",
		"png": "\x89PNG"} {
		name := filepath.Join(dir, "out."+ext)
		code, _, stderr := clitest.RunToEnd(t, append([]string{"load", "report", "-o", name}, files...)...)
		drawn, err := os.ReadFile(name)
		if code != cli.ExitOK || err != nil || !bytes.HasPrefix(drawn, []byte(want)) {
			t.Errorf("report %s: exit code %d, %s, %v", ext, code, stderr, err)
		}
	}
}

// TestLoadFails checks the exit code and the message of runs that cannot be, or that fail.
func TestLoadFails(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("[[flow]]\ncolour = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(dir, "named.toml")
	if err := os.WriteFile(named, []byte("items = 9\n[[flow]]\nqueue = \"a~b\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"put-many --nonsense", cli.ExitUsage, "unknown flag: --nonsense"},
		{"put-many extra", cli.ExitUsage, "takes no arguments"},
		{"nonsense", cli.ExitUsage, `unknown command "nonsense"`},
		{"leaky-readers -p 1", cli.ExitUsage, `unknown command "leaky-readers" for "kestrel load"; did you mean: leaky-reader`},
		{"--bogus", cli.ExitUsage, "unknown flag: --bogus"},
		{"put-many -c 0", cli.ExitUsage, "clients is 0, want at least 1"},
		{"put-many --server nonsense", cli.ExitUsage, "is not HOST:PORT"},
		{"put-many --server a:1 -p 2", cli.ExitUsage, "leave those out"},
		{"put-many --spawn -p 2", cli.ExitUsage, "--spawn starts a server of its own"},
		{"put-many --spawn-args x", cli.ExitUsage, "are for --spawn"},
		{"put-many --client-id x", cli.ExitUsage, "--client-id is for --thrift"},
		{"put-many --cpus a", cli.ExitUsage, "not a list of processors"},
		{"put-many --interval 1ms", cli.ExitUsage, "--interval is 1ms"},
		{"put-many --spawn --spawn-args --nonsense", cli.ExitFailed, "unknown flag: --nonsense"},
		{"put-many --server 127.0.0.1:1 --timeout 50ms", cli.ExitFailed, "did not end within 50ms"},
		{"put-many -b 9 --spawn", cli.ExitUsage, "--bytes is 9, want at least 34 to verify: or say --no-verify"},
		{"put-many -b 0", cli.ExitUsage, "an item of 0 bytes, want 1 to 67108864"},
		{"flood -k 99999999", cli.ExitUsage, "an item of 102399998976 bytes, want 1 to"},
		{"put-many -q a/b", cli.ExitUsage, `kestrel: queue name "a/b" has a space, a slash, or a line end`},
		{"open-loop --queue=", cli.ExitUsage, `kestrel: queue name "" is empty`},
		{"retries -q a.b", cli.ExitUsage, `kestrel: queue name "a.b" has a . or ~`},
		{"leaky-reader -q " + strings.Repeat("x", 201), cli.ExitUsage, "is longer than 200 bytes"},
		{"mixed -f " + named, cli.ExitUsage, `kestrel: flow 1: queue name "a~b" has a . or ~`},
		{"put-many --threads 65", cli.ExitUsage, "--threads is 65, want 1 to 64"},
		{"leaky-reader --no-verify --spawn", cli.ExitFailed, "needs verification"},
		{"soak --max-memory many", cli.ExitUsage, `--max-memory "many" is not a size`},
		{"mixed", cli.ExitUsage, "which flows? Say --file FILE"},
		{"mixed -f " + bad, cli.ExitUsage, "unknown key flow.colour"},
		{"mixed -f " + dir + "/absent", cli.ExitUsage, "no such file"},
		{"compare", cli.ExitUsage, "Name at least 2 files"},
		{"compare " + bad + " " + bad, cli.ExitFailed, "is not the figures of a load test"},
		{"report", cli.ExitUsage, "Name at least 1 file"},
		{"report x.json -o x.txt", cli.ExitUsage, "does not end in .html, .svg or .png"},
	} {
		var out, errs bytes.Buffer
		code := 0
		if strings.Contains(tt.args, "--spawn ") || strings.HasSuffix(tt.args, "--spawn") {
			code = runBuilt(t, &errs, tt.args) // its own server is this program
		} else {
			code = cli.Run(withLoad(), append([]string{"load"}, strings.Fields(tt.args)...), &out, &errs)
		}
		if code != tt.code || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("kestrel load %s: exit code %d, %s\nwant %d and %q", tt.args, code, &errs, tt.code,
				tt.want)
		}
	}
}

// TestNoServer checks what is said if no server is there: at once, and when it has been waited for.
func TestNoServer(t *testing.T) {
	dialWait = 1
	defer func() { dialWait = 0 }()
	dir := t.TempDir()
	_, said := clitest.Run(t, withLoad(), cli.ExitFailed, "load", "flood", "--server", "127.0.0.1:1", "--output", filepath.Join(dir, "run"))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a run without a server leaves %v, %v", left, err)
	}
	before := filepath.Join(dir, "run.hlog")
	if err := os.WriteFile(before, []byte("of an earlier run"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Run(t, withLoad(), cli.ExitFailed, "load", "flood", "--server", "127.0.0.1:1", "--output", filepath.Join(dir, "run"))
	left, err := os.ReadDir(dir)
	if log, _ := os.ReadFile(before); err != nil || len(left) != 1 || string(log) != "of an earlier run" {
		t.Errorf("beside the log of an earlier run, it leaves %v with %q, %v", left, log, err)
	}
	clitest.WantText(t, said, "connection refused; a server may be starting, so this tries again for", "connect to 127.0.0.1:1: ", "connection refused", "--spawn starts one")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // as a port of another protocol does
		if conn, err := l.Accept(); err == nil {
			conn.Read(make([]byte, 100))
			conn.Close()
		}
	}()
	_, said = clitest.Run(t, withLoad(), cli.ExitFailed, "load", "flood", "--server", l.Addr().String())
	clitest.WantText(t, said, "is the port one of the memcache protocol, and one that does not encrypt?")
}

// TestEndToEndReportFull tests what a full disk leaves of a report: the one that was there before, or none.
func TestEndToEndReportFull(t *testing.T) {
	dir := t.TempDir()
	run := &figures.Run{Format: figures.Format, Scenario: "flood"}
	if _, err := run.SaveFiles(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	clitest.Transcript(t, "", dir, `
$ trap '' XFSZ; ulimit -f 0; kestrel load report run.json -o new.html; echo $?; ls
kestrel: load report: write new.html: file too large
1
run.json
$ echo old > old.html; trap '' XFSZ; ulimit -f 0; kestrel load report run.json -o old.html; cat old.html; ls
kestrel: load report: write old.html: file too large
old
old.html
run.json
$ kestrel load report run.json -o none/old.html; echo $?
kestrel: load report: write none/old.html: no such file or directory
1
`)
}

func runBuilt(t *testing.T, errs *bytes.Buffer, args string) int {
	t.Helper()
	code, _, stderr := clitest.RunToEnd(t, append([]string{"load"}, strings.Fields(args)...)...)
	errs.WriteString(stderr)
	return code
}

// TestLoadHelp checks the page of every scenario: each flag is there, and no line is too long.
func TestLoadHelp(t *testing.T) {
	load := New()
	for _, cmd := range append([]*cobra.Command{load}, load.Commands()...) {
		for line := range strings.Lines(cmd.Long) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: line of %d columns: %s", cmd.Name(), n, line)
			}
		}
		if !strings.HasPrefix(cmd.Long, "Usage:\n    kestrel load ") || cmd.Short == "" {
			t.Errorf("%s has no usage", cmd.Name())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(cmd.Long, "--"+f.Name) {
				t.Errorf("%s does not say --%s", cmd.Name(), f.Name)
			}
		})
		if cmd != load && !strings.Contains(load.Long, "    "+cmd.Name()+" ") {
			t.Errorf("kestrel load does not name %s", cmd.Name())
		}
	}
}

// TestOriginalOptions checks the letters and the defaults of the original's five.
func TestOriginalOptions(t *testing.T) {
	for _, tt := range []struct {
		cmd  *cobra.Command
		want string // letter=default
	}{
		{newPutMany(), "c=100 n=10000 b=1024 r=1 q=spam Q=1 g=false h=localhost p=22133 F=false"},
		{newManyClients(), "s=100 n=100 q=spam c=100 k=0 x=false h=localhost p=22133 F=false M=false"},
		{newFlood(), "n=10000 k=1 q=spam P=0 R=1 C=1 r=1 B=false h=localhost p=22133 F=false M=false"},
		{newPacking(), "q=spam n=25000 k=1 t=1 c=100 h=localhost p=22133 F=false M=false"},
		{newLeakyReader(), "n=1000 d=0.01 q=spam-thrift t=1 v=false h=localhost p=2229 F=false"},
	} {
		for word := range strings.FieldsSeq(tt.want) {
			letter, value, _ := strings.Cut(word, "=")
			f := tt.cmd.Flags().ShorthandLookup(letter)
			if f == nil || f.DefValue != value {
				t.Errorf("%s -%s = %+v, want the default %s", tt.cmd.Name(), letter, f, value)
			}
		}
	}
}

func TestParseMixed(t *testing.T) {
	s, err := parseMixed("duration = \"2s\"\nitems = 5\n[[flow]]\nrate = 10.5\n[[flow]]\nqueue=\"a\"\nwait=\"0s\"\n")
	want := defaultFlow()
	want.Rate = 10.5
	other := defaultFlow()
	other.Rate, other.Queue, other.Wait = 0, "a", 0
	if err != nil || s.Duration != 2*time.Second || s.Items != 5 || len(s.Flows) != 2 ||
		s.Flows[0] != want ||
		s.Flows[1] != other {
		t.Errorf("parseMixed = %+v, %v", s, err)
	}
}

// FuzzParseMixed checks that no file makes the parser, and the check of what it returns, crash.
func FuzzParseMixed(f *testing.F) {
	f.Add("items = 5\n[[flow]]\nqueue = \"q\"\nqueues = 3\nrate = 1e9\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseMixed(text); err == nil && len(s.Flows) < 100 {
			s.Validate()
		}
	})
}

func TestProgressText(t *testing.T) {
	p := scenario.Progress{Phase: "cycle 1", Elapsed: 12 * time.Second, Rate: 85230.4, P99: 1234567,
		Depth:     -1,
		Remaining: -1}
	if got, want := progressText(p), "cycle 1  12s  85,230/s  p99 1.23ms"; got != want {
		t.Errorf("progressText = %q, want %q", got, want)
	}
	p.Depth, p.Remaining = 1234, 8*time.Second
	if got := progressText(p); !strings.HasSuffix(got, "  1,234 items  8s left") {
		t.Errorf("progressText = %q", got)
	}
	if newProgressLine(new(bytes.Buffer), false) != nil {
		t.Error("a progress line for what is no terminal")
	}
}
