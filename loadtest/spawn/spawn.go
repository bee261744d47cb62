package spawn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	readyWait = 20 * time.Second      // for a server to answer after its start
	readyPoll = 10 * time.Millisecond // between attempts
	stopWait  = 20 * time.Second      // for a server to end when it is asked to
	logTail   = 2000                  // bytes of a server's output in an error
)

// Options say what to start.
type Options struct {
	Name    string
	Program string

	// Args returns the arguments, given the directory of the server, which holds no data.
	Args func(dir string) ([]string, error)

	Dir  string // parent of the server's directory; default the system's for temporary files
	CPUs []int  // processors of the server; empty: those of the caller

	// Ready returns nil if the server answers. It is called again until it does.
	Ready func() error
}

// Process is a running server. Its methods are called from one goroutine.
type Process struct {
	PID int
	Dir string // holds its data and its output; removed at the end

	temp   *TempDir
	opts   Options
	args   []string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the server has ended
}

// Start starts a server in a fresh directory and waits until it is ready. The caller must call Stop
// or Kill.
func Start(ctx context.Context, o Options) (*Process, error) {
	temp, err := MakeTemp(o.Dir, "kestrel-load-"+o.Name)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	p := &Process{Dir: temp.Path, temp: temp, opts: o}
	if p.args, err = o.Args(p.Dir); err == nil {
		err = p.launch()
	}
	if err != nil {
		temp.Remove()
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	if err := p.awaitReady(ctx, o.Ready); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, errors.Join(err, p.Kill()))
	}
	return p, nil
}

// Restart kills the server, waits for its end, and starts it again as it was started, in the
// directory as it was left. It returns when the program was executed, and waits for nothing that
// the server does; it is for the thread that called Start. After an error Kill is still due.
func (p *Process) Restart() (executed time.Time, err error) {
	p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
	executed = time.Now()
	if err := p.launch(); err != nil {
		return time.Time{}, fmt.Errorf("start %s again: %w", p.opts.Name, err)
	}
	return executed, nil
}

// launch starts the program. A change of this thread's affinity is what pins the server.
func (p *Process) launch() error {
	const appended = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	output, err := os.OpenFile(p.outputPath(), appended, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(p.opts.Program, p.args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{p.temp.Lock} // the server holds the lock as well
	cmd.SysProcAttr = serverAttr()
	if err := startOn(cmd, p.opts.CPUs); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.cmd, p.exited, p.PID = cmd, exited, cmd.Process.Pid
	go func() {
		cmd.Wait()
		close(exited)
	}()
	return nil
}

// startOn starts a command on processors.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	own, err := Processors(0)
	if err != nil {
		return err
	}
	if err := pinThread(0, cpus...); err != nil {
		return err
	}
	startErr := cmd.Start()
	if err := pinThread(0, own...); err != nil || startErr != nil {
		if startErr == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		return errors.Join(startErr, err)
	}
	return nil
}

// Kill kills the server, waits for its end and removes its directory.
func (p *Process) Kill() error {
	p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
	return p.temp.Remove()
}

// Stop asks the server to end, waits for that, and removes its directory. A server that does not
// end in time is killed; that, and an exit code other than 0, is an error.
func (p *Process) Stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-p.exited:
	case <-time.After(stopWait):
		return errors.Join(fmt.Errorf("%s did not end within %v", p.opts.Name, stopWait), p.Kill())
	}
	var err error
	if !p.cmd.ProcessState.Success() {
		err = fmt.Errorf("%s ended: %v; its output:\n%s", p.opts.Name, p.cmd.ProcessState, p.output())
	}
	return errors.Join(err, p.temp.Remove())
}

// Alive returns an error with the server's last words if it has ended.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("server ended: %v; its output:\n%s", p.cmd.ProcessState, p.output())
	default:
		return nil
	}
}

func (p *Process) outputPath() string { return filepath.Join(p.Dir, "output") }

// output returns the end of what the server has printed.
func (p *Process) output() string {
	b, err := os.ReadFile(p.outputPath())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-logTail):]))
}

// awaitReady waits until the server answers.
func (p *Process) awaitReady(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		err := ready()
		if err == nil {
			return p.Alive() // else somebody else has the port
		}
		select {
		case <-p.exited:
			return p.Alive()
		case <-ctx.Done():
			return fmt.Errorf("%w: no answer: %w; its output:\n%s", ctx.Err(), err, p.output())
		case <-poll.C:
		}
	}
}

// FreePort returns a loopback port that nobody listens on now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
