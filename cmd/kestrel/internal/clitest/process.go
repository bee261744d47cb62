package clitest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// Patience bounds every wait of the tests: far longer than what is waited for takes.
const Patience = 20 * time.Second

// program is the package of the command.
const program = "github.com/kestrelmq/kestrel/cmd/kestrel"

// BuildBinary builds the program, once in a process, and returns its path.
var BuildBinary = sync.OnceValues(func() (string, error) {
	// go run keeps what it links in the build cache, so only the first package of tests links the program. The
	// first call removes its own copy, and the second names the one in the cache.
	for range 2 {
		if out, err := exec.Command("go", "run", "-exec", "echo", program).Output(); err == nil {
			file := strings.TrimSpace(string(out))
			if _, err := os.Stat(file); err == nil {
				return file, nil
			}
		}
	}
	dir, err := os.MkdirTemp("", "kestrel-test-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	file := filepath.Join(dir, "kestrel")
	if out, err := exec.Command("go", "build", "-o", file, program).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
})

// builtIn is the directory that BuildBinary has made, if the build cache does not have the program; Main removes it.
var builtIn string

// Main runs the tests of a package, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	return code
}

// Command returns the command `kestrel args…`, which runs in a directory of its own.
func Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	file, err := BuildBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

// RunToEnd runs a command that ends by itself and returns its exit code and what it printed.
func RunToEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := Command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(Patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	var ended *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// SignalWhileFed runs a command that reads its standard input. It sends it a part of that and then a signal, and returns
// the exit code and what was printed. The part is larger than a pipe, so the command is reading when the signal comes.
func SignalWhileFed(t *testing.T, cmd *exec.Cmd, sig os.Signal) (code int, out string) {
	t.Helper()
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(Patience, func() { cmd.Process.Kill() })
	if _, err := io.WriteString(in, strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(sig)
	cmd.Wait()
	if !kill.Stop() {
		t.Errorf("%q has not ended %v after the signal", cmd.Args[1:], Patience)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}

// Process is a running `kestrel serve` that logs JSON.
type Process struct {
	t    *testing.T
	Cmd  *exec.Cmd
	err  io.Closer           // the end of its standard error that is read
	log  chan map[string]any // closed at its end
	seen []map[string]any    // taken from log
	Addr string              // where it speaks the memcache protocol

	Thrift string // where it speaks Thrift
	Text   string // where it speaks the text protocol
}

// Serve starts a server on a free port and waits until it listens.
func Serve(t *testing.T, args ...string) *Process {
	t.Helper()
	return Start(t, Command(t, ServeArgs(args...)...))
}

// ServeArgs returns the arguments of a server on free ports, that logs JSON.
func ServeArgs(more ...string) []string {
	return append([]string{"serve", "--log-format", "json", "--memcache-port", "auto",
		"--thrift-port", "auto", "--text-port", "auto"}, more...)
}

// Start starts cmd, a server that has ServeArgs, and waits until it listens.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: cmd, log: make(chan map[string]any, 1000)}
	stderr, err := p.Cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.err = stderr
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Cmd.Process.Kill() // of no effect once it has ended
		p.Cmd.Wait()
	})
	go func() {
		defer close(p.log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			entry := make(map[string]any)
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				entry["msg"] = lines.Text() // not of the log
			}
			p.log <- entry
		}
	}()
	for _, addr := range []*string{&p.Addr, &p.Thrift, &p.Text} { // in the order of protocols
		*addr = p.Logged("listening")["address"].(string)
	}
	return p
}

// Logged waits for the next entry of the log with that message.
func (p *Process) Logged(msg string) map[string]any {
	p.t.Helper()
	late := time.After(Patience)
	for {
		select {
		case entry, ok := <-p.log:
			if !ok {
				p.t.Fatalf("log ended without %q: %v", msg, p.seen)
			}
			p.seen = append(p.seen, entry)
			if entry["msg"] == msg {
				return entry
			}
		case <-late:
			p.t.Fatalf("log is without %q: %v", msg, p.seen)
		}
	}
}

// Saw returns the entry with that message which was logged before what was waited for last.
func (p *Process) Saw(msg string) map[string]any {
	p.t.Helper()
	for _, entry := range p.seen {
		if entry["msg"] == msg {
			return entry
		}
	}
	p.t.Fatalf("log is without %q: %v", msg, p.seen)
	return nil
}

// Says returns the entry with that message: one that was logged before, or else the next one.
func (p *Process) Says(msg string) map[string]any {
	p.t.Helper()
	for _, entry := range p.seen {
		if entry["msg"] == msg {
			return entry
		}
	}
	return p.Logged(msg)
}

// Entries returns the entries with that message, or all for "", that were logged before what was waited for last.
func (p *Process) Entries(msg string) (list []map[string]any) {
	for _, entry := range p.seen {
		if msg == "" || entry["msg"] == msg {
			list = append(list, entry)
		}
	}
	return list
}

// Deaf closes the pipe of the log, as a program does that reads it and dies.
func (p *Process) Deaf() { p.err.Close() }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ExitCode waits for the end of the process and returns its exit code, -1 if a signal killed it.
func (p *Process) ExitCode() int {
	p.t.Helper()
	late := time.AfterFunc(Patience, func() { p.Cmd.Process.Kill() })
	defer late.Stop()
	for range p.log { // up to its end
	}
	p.Cmd.Wait()
	return p.Cmd.ProcessState.ExitCode()
}

// Client is a connection to a server.
type Client struct {
	t    *testing.T
	conn net.Conn
	In   *bufio.Reader
}

// Dial connects to the memcache port. The connection ends with the test.
func (p *Process) Dial() *Client {
	p.t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr, Patience)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(Patience))
	return &Client{p.t, conn, bufio.NewReader(conn)}
}

// Send sends a request. Its lines end in "\n" here. Each request has its own deadline: a load may last for longer.
func (c *Client) Send(request string) {
	c.t.Helper()
	c.conn.SetDeadline(time.Now().Add(Patience))
	if _, err := c.conn.Write([]byte(strings.ReplaceAll(request, "\n", "\r\n"))); err != nil {
		c.t.Fatal(err)
	}
}

// Ask sends a request and tests that the reply, lines that end in "\n" here, is want.
func (c *Client) Ask(request, want string) {
	c.t.Helper()
	c.Send(request)
	if got := c.Read(strings.Count(want, "\n")); got != want {
		c.t.Fatalf("%q: got %q, want %q", request, got, want)
	}
}

// Read returns the next n lines.
func (c *Client) Read(n int) string {
	c.t.Helper()
	var b strings.Builder
	for range n {
		line, err := c.In.ReadString('\n')
		if err != nil {
			c.t.Fatalf("read behind %q: %v", b.String(), err)
		}
		b.WriteString(strings.TrimSuffix(line, "\r\n") + "\n")
	}
	return b.String()
}

// WriteConfig writes a configuration file and returns its name.
func WriteConfig(t *testing.T, src string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kestrel.toml")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Run runs a command line of root and tests its exit code.
func Run(t testing.TB, root *cobra.Command, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(root, args, &out, &errs); code != wantCode {
		t.Fatalf("kestrel %q = %d, want %d; it said\n%s%s", args, code, wantCode, &out, &errs)
	}
	return out.String(), errs.String()
}
