package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

const (
	readyWait = 20 * time.Second      // for a server to answer after its start
	readyPoll = 10 * time.Millisecond // between attempts
	logTail   = 2000                  // bytes of a server's output in an error
)

// process is a running server. Its methods are called from one goroutine.
type process struct {
	name   string
	addr   string // host:port
	pid    int
	dir    string // holds its data and its output; removed by stop
	cmd    *exec.Cmd
	exited chan struct{} // closed when the server has ended
}

// start starts a server in a fresh directory under o.dir, on o.serverCPU, and waits until it
// answers. The caller must have locked its thread, on whose life the server's depends, and must
// call stop.
func start(ctx context.Context, o *options, s server) (*process, error) {
	dir, err := os.MkdirTemp(o.dir, "peers-"+s.name+"-")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	p := &process{name: s.name, dir: dir, exited: make(chan struct{})}
	if err := p.launch(o, s); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	if err := p.awaitReady(ctx, s.protocol); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, errors.Join(err, p.stop()))
	}
	return p, nil
}

// launch starts the program. A change of this thread's affinity is what pins the server.
func (p *process) launch(o *options, s server) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	p.addr = fmt.Sprintf("127.0.0.1:%d", port)
	args, err := s.args(o, s, p.dir, port)
	if err != nil {
		return err
	}
	output, err := os.Create(p.outputPath())
	if err != nil {
		return err
	}
	defer output.Close()
	p.cmd = exec.Command(s.program, args...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // should this process be killed
		Setpgid:   true,            // an interrupt at the terminal is ours alone
	}
	if err := pinThread(0, o.serverCPU); err != nil {
		return err
	}
	startErr := p.cmd.Start()
	if err := pinThread(0, o.loadCPUs...); err != nil || startErr != nil {
		if startErr == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
		return errors.Join(startErr, err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	return nil
}

// stop kills the server, waits for its end and removes its directory.
func (p *process) stop() error {
	p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
	return os.RemoveAll(p.dir)
}

// alive returns an error with the server's last words if it has ended.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("server ended: %v; its output:\n%s", p.cmd.ProcessState, p.output())
	default:
		return nil
	}
}

func (p *process) outputPath() string { return filepath.Join(p.dir, "output") }

// output returns the end of what the server has printed.
func (p *process) output() string {
	b, err := os.ReadFile(p.outputPath())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-logTail):]))
}

// awaitReady waits until the server answers a request.
func (p *process) awaitReady(ctx context.Context, protocol loadtest.Protocol) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		err := probe(p.addr, protocol)
		if err == nil {
			return p.alive() // else somebody else has the port
		}
		select {
		case <-p.exited:
			return p.alive()
		case <-ctx.Done():
			return fmt.Errorf("%w: no answer on %s: %w; its output:\n%s",
				ctx.Err(), p.addr, err, p.output())
		case <-poll.C:
		}
	}
}

// probe sends a request that every server of the protocol answers with one line.
func probe(addr string, protocol loadtest.Protocol) error {
	request, reply := "version\r\n", "VERSION"
	if protocol == loadtest.RedisList || protocol == loadtest.RedisString {
		request, reply = "PING\r\n", "+PONG"
	}
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	got := make([]byte, len(reply))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != reply {
		return fmt.Errorf("answer %q to %q, want %q", got, request, reply)
	}
	return nil
}

// freePort returns a loopback port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
