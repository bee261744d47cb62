package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds every wait of the lab: far longer than what is waited for takes.
const patience = 30 * time.Second

// server is a running `kestrel serve` whose log the lab reads.
type server struct {
	cmd  *exec.Cmd
	pid  int // of the server itself, also if it runs below another program
	addr map[string]string
	// ports is how many protocols it listens for.
	ports int

	mu    sync.Mutex
	grown *sync.Cond
	lines []logLine // guarded by mu
	ended bool      // the log is complete; guarded by mu
	exit  chan struct{}
}

// logLine is an entry of the server's log.
type logLine map[string]any

func (l logLine) message() string { s, _ := l["msg"].(string); return s }

// launch is how to start a server.
type launch struct {
	binary string
	prefix []string // a program that runs the server, with its arguments
	dir    string   // working directory and, as "data", data directory
	args   []string
	env    []string
	shell  string            // run before the server, in its process: limits
	ports  map[string]string // flags by protocol; nil: protocolPorts
}

// errEnded is returned by start for a server that ended before it listened.
var errEnded = errors.New("the server has ended")

// protocolPorts returns the flags that open a port of each protocol.
func protocolPorts() map[string]string {
	return map[string]string{
		"memcache": "--memcache-port", "thrift": "--thrift-port", "text": "--text-port", "burrow": "--burrow-port",
	}
}

// start starts a server and waits until it listens. If that fails the server has ended, and is
// returned for its log with an error that wraps errEnded.
func (l launch) start(ctx context.Context) (*server, error) {
	s, err := l.spawn(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(); err != nil {
		s.kill()
		return s, err
	}
	return s, nil
}

// spawn starts a server and does not wait for it.
func (l launch) spawn(ctx context.Context) (*server, error) {
	argv := append([]string{}, l.prefix...)
	argv = append(argv, l.binary, "serve", "--log-format", "json", "--data-dir", "data")
	ports := l.ports
	if ports == nil {
		ports = protocolPorts()
	}
	for _, flag := range ports {
		argv = append(argv, flag, "auto")
	}
	argv = append(argv, l.args...)
	if l.shell != "" {
		argv = append([]string{"/bin/sh", "-c", l.shell + `; exec "$0" "$@"`}, argv...)
	}
	s := &server{exit: make(chan struct{}), ports: len(ports), addr: make(map[string]string)}
	s.grown = sync.NewCond(&s.mu)
	s.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	s.cmd.Dir = l.dir
	s.cmd.Env = append(os.Environ(), l.env...)
	s.cmd.SysProcAttr = serverAttr()
	s.cmd.Cancel = s.killGroup
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.pid = s.cmd.Process.Pid
	go s.follow(stderr)
	return s, nil
}

// follow reads the log to its end.
func (s *server) follow(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		entry := make(logLine)
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			entry = logLine{"msg": lines.Text(), "plain": true} // not of the log
		}
		s.mu.Lock()
		s.lines = append(s.lines, entry)
		s.grown.Broadcast()
		s.mu.Unlock()
	}
	s.cmd.Wait()
	s.mu.Lock()
	s.ended = true
	s.grown.Broadcast()
	s.mu.Unlock()
	close(s.exit)
}

// awaitReady waits for the line that the last of the ports is announced with.
func (s *server) awaitReady() error {
	for i := 0; len(s.addr) < s.ports; i++ {
		line, err := s.next(i)
		if err != nil {
			return err
		}
		switch line.message() {
		case "kestrel starts":
			if pid, ok := line["pid"].(float64); ok {
				s.pid = int(pid)
			}
		case "listening":
			protocol, _ := line["protocol"].(string)
			s.addr[protocol], _ = line["address"].(string)
		}
	}
	return nil
}

// next waits for the i-th line of the log.
func (s *server) next(i int) (logLine, error) {
	late := time.AfterFunc(patience, func() { s.killGroup() })
	defer late.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.lines) <= i {
		if s.ended {
			return nil, fmt.Errorf("%w: %s", errEnded, s.lastWords())
		}
		s.grown.Wait()
	}
	return s.lines[i], nil
}

// awaitLog waits for a line of the log whose message contains that text.
func (s *server) awaitLog(message string) (logLine, error) {
	for i := 0; ; i++ {
		line, err := s.next(i)
		if err != nil {
			return nil, fmt.Errorf("log lacks %q: %w", message, err)
		}
		if strings.Contains(line.message(), message) {
			return line, nil
		}
	}
}

// logged returns the lines logged so far whose message contains text.
func (s *server) logged(text string) (found []logLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		if strings.Contains(line.message(), text) {
			found = append(found, line)
		}
	}
	return found
}

// lastWords are the last lines of the log. The caller holds mu, or the log is complete.
func (s *server) lastWords() string {
	var b strings.Builder
	for _, line := range s.lines[max(len(s.lines)-5, 0):] {
		fmt.Fprintf(&b, "%v | ", map[string]any(line))
	}
	return b.String()
}

// signal sends a signal to the server, which may have ended.
func (s *server) signal(sig syscall.Signal) { syscall.Kill(s.pid, sig) }

// killGroup kills the server together with what runs it. A server that has not said its pid yet would outlive a killed
// strace, and keep its log open.
func (s *server) killGroup() error { return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }

// kill ends the server at once, as kill -9 does, and waits until it is gone. A nil server is.
func (s *server) kill() {
	if s == nil {
		return
	}
	select {
	case <-s.exit:
		return
	default:
	}
	if s.pid != s.cmd.Process.Pid {
		s.signal(syscall.SIGKILL)
		select { // the program that runs it follows by itself
		case <-s.exit:
			return
		case <-time.After(patience):
		}
	}
	s.killGroup()
	<-s.exit
}

// stop asks the server to end, and returns its exit status; -1 if it had to be killed.
func (s *server) stop() int {
	s.signal(syscall.SIGTERM)
	late := time.AfterFunc(patience, s.kill)
	defer late.Stop()
	<-s.exit
	return s.cmd.ProcessState.ExitCode()
}

// running reports whether the server has not ended.
func (s *server) running() bool {
	select {
	case <-s.exit:
		return false
	default:
		return true
	}
}
