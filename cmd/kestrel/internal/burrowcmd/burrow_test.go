package burrowcmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backends"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }

// burrowOf returns the address of a server's Burrow port.
func burrowOf(p *clitest.Process) string { return p.Logged("listening")["address"].(string) }

// TestHelp tests that pages fit a terminal.
func TestHelp(t *testing.T) {
	group := NewBurrow()
	for _, cmd := range append(group.Commands(), group, NewProxy()) {
		for line := range strings.Lines(cmd.Long) {
			if n := len([]rune(line)); n > 110 || n > 81 && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s --help: a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	}
	if got, want := len(group.Commands()), 11; got != want {
		t.Errorf("there are %d verbs, want %d", got, want)
	}
}

// run runs a command line, and returns its exit code and what it printed.
func run(t *testing.T, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := cli.NewRoot()
	root.AddCommand(NewBurrow(), NewProxy())
	root.SetIn(strings.NewReader(in))
	var out, errs bytes.Buffer
	code = cli.Run(root, args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestOutput tests that nothing is deleted by a command that would print it, if standard output takes nothing. If it was
// closed, Go's runtime has opened /dev/null in its place, to read and write. An output that fails later is said.
func TestOutput(t *testing.T) {
	server := "kestrel://" + filepath.Join(t.TempDir(), "queues")
	run(t, "", "burrow", "create_message", "q", "one", "--body", "1", "--server", server)
	on := func(out io.Writer, args string) (code int, said string) {
		root := cli.NewRoot()
		root.AddCommand(NewBurrow())
		var errs strings.Builder
		code = cli.Run(root, strings.Fields("burrow "+args+" --server "+server), out, &errs)
		return code, errs.String()
	}
	for _, tt := range []struct {
		file string
		mode int
		want string
	}{
		{os.DevNull, os.O_RDWR, "standard output is closed"},
		{os.DevNull, os.O_RDONLY, "bad file descriptor; nothing was taken"},
		{"/dev/full", os.O_WRONLY, "no space left on device; nothing was taken"},
	} {
		out, err := os.OpenFile(tt.file, tt.mode, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		for _, args := range []string{"delete_message q one --detail body", "delete_messages q --detail all", "delete_queues", "delete_accounts"} {
			if code, said := on(out, args); code != cli.ExitFailed || !strings.Contains(said, tt.want) {
				t.Errorf("kestrel burrow %s > %s ends with %d and says %q, want %q", args, tt.file, code, said, tt.want)
			}
		}
	}
	if code, text, _ := run(t, "", "burrow", "get_message", "q", "one", "--detail", "body", "--server", server); code != 0 || text != "1\n" {
		t.Errorf("the message is %q then, exit code %d", text, code)
	}
	if code, said := on(failing{}, "delete_message q one --detail body"); code != cli.ExitFailed || !strings.Contains(said, "it is deleted all the same") {
		t.Errorf("an output that fails: exit code %d, %s", code, said)
	}
}

// failing is an output that becomes full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestVerbs runs the verbs over a directory, without any server.
func TestVerbs(t *testing.T) {
	server := "kestrel://" + filepath.Join(t.TempDir(), "queues")
	for _, tt := range []struct {
		args, in string
		code     int
		out, err string
	}{
		{args: "get_accounts", code: cli.ExitEmpty, err: "kestrel: Account not found\n"},
		{args: "create_message q m1 -t 0", in: "one\n"},
		{args: "create_message q m2 --body two -H 3600 -t 60"},
		{args: "create_message q bin", in: "\xff\x00"},
		{args: "get_messages q -d body", out: "one\n\n\xff\x00\n"},
		{args: "get_messages q --output json", out: `[{"body":"one\n","hide":0,"id":"m1","ttl":0},{"body":"/wA=","encoding":"base64","hide":0,"id":"bin","ttl":600}]` + "\n"},
		{args: "get_messages q -d none"},
		{args: "get_messages q -d attributes -A -l 1 -m m1", out: "m2  ttl 60  hide 3600\n"},
		{args: "get_messages q -m bin", code: cli.ExitEmpty, err: "kestrel: Message not found\n"},
		{args: "get_messages other", code: cli.ExitEmpty, err: "kestrel: Queue not found\n"},
		{args: "update_message q m2 --hide 0 --ttl 0 -d all", out: "m2  ttl 0  hide 0  two\n"},
		{args: "update_messages q --hide 9 -l 2 -d id --output json", out: `["m1","m2"]` + "\n"},
		{args: "get_queues --output json", out: "[\"q\"]\n"},
		{args: "create_message q @1 --body x", code: cli.ExitUsage, err: "kestrel: The id is longer than 250 bytes, holds a control character, or begins with @.\n"},
		{args: "delete_messages q -d id", out: "bin\n"},
		{args: "delete_message q m1 -d body", out: "one\n\n"},
		{args: "delete_accounts", out: "default\n"},
	} {
		args := append(append([]string{"burrow"}, strings.Fields(tt.args)...), "--server", server)
		code, out, errs := run(t, tt.in, args...)
		if code != tt.code || untimed(out) != untimed(tt.out) || errs != tt.err {
			t.Errorf("kestrel burrow %s\nexits with %d, prints %q and %q\nwant %d, %q and %q", tt.args, code, out, errs, tt.code, tt.out, tt.err)
		}
	}
}

// untimed returns a text in which times that have begun to pass stand for any others.
func untimed(text string) string {
	return regexp.MustCompile(`((?:ttl|hide)(?: |":))[1-9][0-9]*`).ReplaceAllString(text, "${1}N")
}

// TestMisuse tests command lines that are wrong.
func TestMisuse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"burrow no_such_verb", cli.ExitUsage, "unknown command"},
		{"burrow get_message q", cli.ExitUsage, "needs QUEUE ID"},
		{"burrow get_queues q", cli.ExitUsage, "needs no arguments"},
		{"burrow get_messages q -d most", cli.ExitUsage, "--detail is none, id"},
		{"burrow get_messages q -w -1", cli.ExitUsage, "--wait is a number from 0"},
		{"burrow get_messages q -l -1", cli.ExitUsage, "--limit is a number from 0"},
		{"burrow update_message q m -t 9999999999", cli.ExitUsage, "--ttl is a number"},
		{"burrow get_accounts --output xml", cli.ExitUsage, "text or json"},
		{"burrow get_accounts --timeout 0s", cli.ExitUsage, "--timeout is a time above zero"},
		{"burrow get_accounts --server kestrel://host", cli.ExitUsage, "write http://host:port"},
		{"burrow get_accounts --server http://127.0.0.1:1", cli.ExitFailed, "is a server with a burrow_port running there?"},
		{"burrow get_accounts --tls-ca /no/such/file", cli.ExitFailed, "read the authority"},
		{"burrow get_accounts --tls-cert x", cli.ExitUsage, "go together"},
		{"burrow get_accounts --tls-cert /no/such --tls-key /no/such", cli.ExitFailed, "read the certificate /no/such"},
		{"proxy --backend http://127.0.0.1:1 --backend-tls-key x --listen 127.0.0.1:0", cli.ExitUsage, "go together"},
		{"proxy", cli.ExitUsage, "which back end?"},
		{"proxy x", cli.ExitUsage, "takes no arguments"},
		{"proxy --backend memory:// --tls-cert x", cli.ExitUsage, "go together"},
		{"proxy --backend memory:// --listen nowhere", cli.ExitFailed, "kestrel: cannot listen on nowhere: missing port in address\n"},
		{"proxy --backend memory:// --listen " + taken.Addr().String(), cli.ExitFailed, "kestrel: address " + taken.Addr().String() + " is in use: stop "},
		{"proxy --backend memory:// --tls-cert /no/such --tls-key /no/such --listen 127.0.0.1:0", cli.ExitFailed, "kestrel: read the certificate /no/such and its key /no/such: open /no/such: no such file"},
	} {
		code, _, errs := run(t, "", strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("kestrel %s exits with %d and says %q, want %d and %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}

// proxy runs `kestrel proxy`, and returns where it listens.
func proxy(t *testing.T, back string) (cmd *exec.Cmd, addr string) {
	t.Helper()
	cmd = clitest.Command(t, "proxy", "--backend", back, "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatalf("the proxy says %q, %v", line, err)
	}
	go io.Copy(io.Discard, stderr)
	return cmd, strings.TrimSpace(strings.TrimPrefix(line, "kestrel: the proxy listens on "))
}

// TestEndToEndSignalWhileReading tests that a signal ends a command that waits for the body of a message. The command
// keeps no body that is too large.
func TestEndToEndSignalWhileReading(t *testing.T) {
	cmd := clitest.Command(t, "burrow", "create_message", "q", "m", "--server", "memory://")
	const want = "kestrel: read the message from standard input: interrupt signal received\n"
	if code, out := clitest.SignalWhileFed(t, cmd, syscall.SIGINT); code != cli.ExitFailed || out != want {
		t.Errorf("exits with %d, and prints\n%swant\n%s", code, out, want)
	}
	large := strings.Repeat("x", cli.MaxItem+1)
	if code, _, errs := run(t, large, "burrow", "create_message", "q", "m", "--server", "memory://"); code != cli.ExitRefused ||
		errs != "kestrel: read the message from standard input: it is larger than 32 MiB, which no server takes\n" {
		t.Errorf("a body that is too large: %d, %q", code, errs)
	}
}

// TestEndToEndHeldByCommand has a proxy hold a directory. Commands that need it say who has it.
func TestEndToEndHeldByCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says who holds a lock")
	}
	dir := t.TempDir()
	holder, _ := proxy(t, "kestrel://"+dir)
	by := fmt.Sprintf("%s is in use by the command 'kestrel proxy' (process %d): let that one end, or ", dir, holder.Process.Pid)
	for command, want := range map[string]string{
		"burrow get_accounts --server kestrel://" + dir: "kestrel: the directory " + by + "ask a server by its URL\n",
		"journal verify --data-dir " + dir:              "kestrel: the data directory " + by + "choose another directory with --data-dir\n",
	} {
		if code, _, errs := clitest.RunToEnd(t, strings.Fields(command)...); code != cli.ExitFailed || errs != want {
			t.Errorf("kestrel %s exits with %d and says\n%swant\n%s", command, code, errs, want)
		}
	}
}

// TestEndToEndProxyStops has a proxy stopped while a client waits: the wait ends with an answer.
func TestEndToEndProxyStops(t *testing.T) {
	cmd, addr := proxy(t, "memory://")
	url := "http://" + addr + "/v1.0/a/q"
	request, err := http.NewRequest("PUT", url+"/m?hide=3600", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	reply, err := http.DefaultClient.Do(request)
	if err != nil || reply.StatusCode != 201 {
		t.Fatalf("PUT = %v, %v", reply, err)
	}
	reply.Body.Close()
	waited := make(chan string, 1)
	waits := make(chan struct{})
	go func() {
		close(waits)
		reply, err := http.Get(url + "?wait=300")
		if err != nil {
			waited <- "" // the proxy had not taken it
			return
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		waited <- fmt.Sprint(reply.StatusCode, " ", string(text))
	}()
	<-waits
	// The proxy has taken the wait once it answers another request on a connection that came later.
	for range 20 {
		if reply, err := http.Get(url + "/m?detail=id"); err == nil {
			io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-waited:
		if got != "404 Message not found" && got != "" {
			t.Errorf("the wait ends with %q", got)
		}
	case <-time.After(clitest.Patience):
		t.Error("the wait goes on")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the proxy ends with %v", err)
	}
}

// TestEndToEndEngineKilled kills a proxy whose back end is an engine in its process, while a client puts. The
// next one has every message that was acknowledged, hidden ones hidden.
func TestEndToEndEngineKilled(t *testing.T) {
	dir := t.TempDir()
	there := map[string]bool{} // ids that were acknowledged: whether they are hidden
	for round := range 3 {
		cmd, addr := proxy(t, "kestrel://"+dir)
		b, err := backends.Open("http://"+addr, backends.Options{Account: "a"})
		if err != nil {
			t.Fatal(err)
		}
		q := backend.Queue{Name: "q"}
		for hidden := range 2 {
			got := map[string]bool{}
			for m, err := range b.Messages(t.Context(), q, backend.Match{Hidden: hidden == 1, Detail: backend.All}) {
				if err != nil && !errors.Is(err, backend.ErrNotFound) {
					t.Fatal(err)
				}
				got[m.ID] = true
				if err == nil && string(m.Body) != "body of "+m.ID {
					t.Errorf("message %s has the body %q", m.ID, m.Body)
				}
			}
			for id, isHidden := range there {
				if got[id] != (hidden == 1 || !isHidden) {
					t.Errorf("after kill %d: message %s, hidden %v, is lost or in another state", round, id, isHidden)
				}
			}
		}
		for i := 0; ; i++ {
			if i == 100 {
				go cmd.Process.Kill()
			}
			id := fmt.Sprintf("m%d.%d", round, i)
			a := backend.Attributes{TTL: time.Hour}
			if i%3 == 1 {
				a.Hide = time.Hour
			}
			created, err := b.Put(t.Context(), backend.Key{Queue: q, ID: id}, []byte("body of "+id), a)
			if err != nil {
				break // there or not, nobody knows
			}
			if !created {
				t.Fatalf("message %s was there before", id)
			}
			there[id] = i%3 == 1
		}
		cmd.Wait()
		b.Close()
		t.Logf("kill %d: %d messages were acknowledged", round+1, len(there))
	}
}

// TestEndToEndPython has Python's urllib work through messages, at a server and at a proxy of it.
func TestEndToEndPython(t *testing.T) {
	python := clitest.Tool(t, "python3")
	server := burrowOf(clitest.Serve(t, "--burrow-port", "auto"))
	_, inFront := proxy(t, "http://"+server)
	for name, addr := range map[string]string{"server": server, "proxy": inFront} {
		out, err := exec.CommandContext(t.Context(), python, "testdata/worker.py", "http://"+addr, name).CombinedOutput()
		if want := "50 messages, each once\n"; err != nil || string(out) != want {
			t.Errorf("%s: worker.py prints %q, %v, want %q", name, out, err, want)
		}
	}
}
