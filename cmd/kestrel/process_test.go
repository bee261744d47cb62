package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait of the tests: far longer than what is waited for takes.
const patience = 20 * time.Second

// binary is the built program; TestMain removes what buildBinary made.
var (
	binaryDir   string
	buildBinary = sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "kestrel-test-")
		if err != nil {
			return "", err
		}
		binaryDir = dir
		file := filepath.Join(dir, "kestrel")
		if out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return file, nil
	})
)

func TestMain(m *testing.M) {
	code := m.Run()
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// kestrel returns the command `kestrel args…`, to be run in a directory of its own.
func kestrel(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	file, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

// runToEnd runs a command that ends by itself and returns its exit code and what it printed.
func runToEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := kestrel(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	var ended *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// process is a running `kestrel serve` that logs JSON.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  chan map[string]any // closed at its end
	seen []map[string]any    // taken from log
	addr string              // where it speaks the memcache protocol

	text, thrift string // where it speaks the others
}

// serveProcess starts a server on a free port and waits until it listens.
func serveProcess(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"serve", "--log-format", "json", "--memcache-port", "auto",
		"--thrift-port", "auto", "--text-port", "auto"}, args...)
	p := &process{t: t, cmd: kestrel(t, args...), log: make(chan map[string]any, 1000)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill() // of no effect once it has ended
		p.cmd.Wait()
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
	for _, addr := range []*string{&p.addr, &p.thrift, &p.text} { // in the order of protocols
		*addr = p.logged("listening")["address"].(string)
	}
	return p
}

// logged waits for the next entry of the log with that message.
func (p *process) logged(msg string) map[string]any {
	p.t.Helper()
	late := time.After(patience)
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

// saw returns the entry with that message which was logged before what was waited for last.
func (p *process) saw(msg string) map[string]any {
	p.t.Helper()
	for _, entry := range p.seen {
		if entry["msg"] == msg {
			return entry
		}
	}
	p.t.Fatalf("log is without %q: %v", msg, p.seen)
	return nil
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exitCode waits for the end of the process and returns its exit code, -1 if a signal killed it.
func (p *process) exitCode() int {
	p.t.Helper()
	late := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	for range p.log { // up to its end
	}
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// client is a connection to a server.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (p *process) dial() *client {
	p.t.Helper()
	conn, err := net.DialTimeout("tcp", p.addr, patience)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &client{p.t, conn, bufio.NewReader(conn)}
}

// send sends a request. Its lines end in "\n" here.
func (c *client) send(request string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(strings.ReplaceAll(request, "\n", "\r\n"))); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a request and tests that the reply, lines that end in "\n" here, is want.
func (c *client) ask(request, want string) {
	c.t.Helper()
	c.send(request)
	if got := c.read(strings.Count(want, "\n")); got != want {
		c.t.Fatalf("%q: got %q, want %q", request, got, want)
	}
}

// read returns the next n lines.
func (c *client) read(n int) string {
	c.t.Helper()
	var b strings.Builder
	for range n {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("read behind %q: %v", b.String(), err)
		}
		b.WriteString(strings.TrimSuffix(line, "\r\n") + "\n")
	}
	return b.String()
}
