package clientcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// runner runs a command for each item of a queue.
type runner struct {
	session *session
	command string
	stdout  io.Writer
	stderr  io.Writer

	most   int64 // items to begin; 0 for any number
	taken  context.CancelFunc
	killed context.Context // ends when commands have had their time

	begun, done, failed atomic.Int64
	unconfirmed         atomic.Int64          // of those that are done
	unwritten           atomic.Pointer[error] // why standard output takes nothing any more
	denied              atomic.Pointer[error] // why a server gives this user no item
	idle                *time.Timer           // ends the run; nil without a limit
	idleFor             time.Duration
	mu                  sync.Mutex
	running             int
}

// errEnough gives back an item that is one too many.
var errEnough = errors.New("enough items have been taken")

// work runs the commands of `get --exec`.
func (g *getFlags) work(s *session, queue string) error {
	if err := s.reach(s.client); err != nil {
		return err
	}
	taking, stop := context.WithCancel(s.ctx)
	defer stop()
	killed, kill := context.WithCancel(context.Background())
	defer kill()
	defer context.AfterFunc(s.ctx, func() { time.AfterFunc(g.grace, kill) })()
	r := &runner{session: s, command: g.exec, taken: stop, killed: killed, most: int64(g.count),
		stdout: &sharedWriter{w: s.out}, stderr: &sharedWriter{w: s.err}, idleFor: g.wait}
	if g.all || g.wait > 0 {
		r.idleFor = max(r.idleFor, time.Second)
		r.idle = time.AfterFunc(r.idleFor, stop)
		defer r.idle.Stop()
	}
	w := &client.Worker{
		Client: s.client, Queue: queue, Handlers: g.parallel, Handle: r.handle, Failed: r.report,
		DrainTimeout: 1 << 62, // commands are killed after the grace
	}
	hear := r.hear
	s.place.heard.to.Store(&hear)
	if err := w.Run(taking); err != nil {
		return err
	}
	if why := r.denied.Load(); why != nil {
		return *why
	}
	fmt.Fprintf(r.stderr, "%s done\n", cli.Counted(r.done.Load(), "item"))
	if why := r.unwritten.Load(); why != nil {
		return cli.Failed("write what the commands print to standard output: %v; the items of those are in %q again", *why, queue)
	}
	if n := r.failed.Load(); n > 0 {
		return &cli.Failure{Code: cli.ExitItems, Text: fmt.Sprintf(
			"the command failed %s; what it did not do is in %q again", cli.Counted(n, "time"), queue)}
	}
	if n := r.unconfirmed.Load(); n > 0 {
		return &cli.Failure{Code: cli.ExitUnknown, Text: fmt.Sprintf(
			"%s may be in %q again, though the command has done what it should", cli.Counted(n, "item"), queue)}
	}
	if r.idle != nil && s.ctx.Err() == nil {
		if all, why := s.away(s.client); all {
			return why // the queue of a server that is away is not known to be empty
		}
	}
	return nil
}

// handle runs the command for one item.
func (r *runner) handle(ctx context.Context, d *client.Delivery) error {
	n := r.begun.Add(1)
	if r.most > 0 && n > r.most || r.unwritten.Load() != nil {
		return errEnough
	}
	if n == r.most {
		r.taken()
	}
	r.busy(1)
	defer r.busy(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.killed, cancel)()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", r.command)
	cmd.Stdin = bytes.NewReader(d.Data)
	cmd.Env = append(cmd.Environ(), "KESTREL_QUEUE="+d.Queue, "KESTREL_SERVER="+d.Server)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal from the terminal is for kestrel alone
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer // whole, so that commands do not mix their lines
	cmd.Stdout, cmd.Stderr = &out, r.stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well; what it has left running does not count
	}
	if _, unwritten := r.stdout.Write(out.Bytes()); unwritten != nil {
		r.unwritten.CompareAndSwap(nil, &unwritten)
		r.taken()
		err = cmp.Or(err, unwritten)
	}
	if err != nil {
		r.failed.Add(1)
		return err
	}
	r.done.Add(1)
	return nil
}

// hear says that a server fails, or comes back. If no item has come yet, and none may, that ends the run.
func (r *runner) hear(said slog.Record) {
	e := &client.Error{Op: "get from"}
	said.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "server":
			e.Server = a.Value.String()
		case "queue":
			e.Queue = a.Value.String()
		case "error":
			e.Err, _ = a.Value.Any().(error)
		}
		return true
	})
	switch {
	case e.Err == nil:
		fmt.Fprintf(r.stderr, "kestrel: %s: %s\n", said.Message, e.Server)
	case r.begun.Load() == 0 && isDenied(e.Err):
		var why error = e
		r.denied.CompareAndSwap(nil, &why)
		r.taken()
	default:
		fmt.Fprintf(r.stderr, "kestrel: %s, and is asked again: %s\n", said.Message, cli.ErrorLine(e))
	}
}

// busy counts commands that run; while there are none the time without items runs.
func (r *runner) busy(more int) {
	if r.idle == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running += more; r.running > 0 {
		r.idle.Stop()
	} else {
		r.idle.Reset(r.idleFor)
	}
}

// report says why an item goes back.
func (r *runner) report(d *client.Delivery, err error) {
	if errors.Is(err, errEnough) {
		return
	}
	if unconfirmed := new(client.Error); errors.As(err, &unconfirmed) && unconfirmed.Op == "confirm" {
		r.unconfirmed.Add(1)
		fmt.Fprintf(r.stderr, "kestrel: an item is done, and may come again: %v\n", err)
		return
	}
	fmt.Fprintf(r.stderr, "kestrel: an item of %q goes back: %v\n", d.Queue, err)
}

// sharedWriter is a writer for several goroutines.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes, and flushes what has been written.
func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.w.Write(p)
	if f, ok := w.w.(interface{ Flush() error }); ok && err == nil {
		err = f.Flush()
	}
	return n, err
}
