package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sysFault is a system call that fails, for strace to inject. Strace counts calls by thread.
type sysFault struct {
	inject string
	// starting says that it happens from the start on; else it begins in the middle of the load.
	starting bool
	// hidden says that clients must not notice: the call is made again.
	hidden bool
	// stops says that puts must be refused from then on, until the server is started again.
	stops bool
	// rare says that the load does not always make such a call.
	rare bool
	// logs is in the message of a line of the log; "" if none is promised.
	logs string
}

// sysFaults returns the sample. The tests of segment and engine try every call that fails, in every way it can, on the
// file system in memory. Here it is the real binary, with what lies between.
func sysFaults() []sysFault {
	const fails = "puts are refused"
	faults := []sysFault{
		{inject: "fdatasync:error=EINTR:when=1..20", hidden: true},
		{inject: "pwrite64:error=EINTR:when=1..20", hidden: true},
		{inject: "fallocate:error=EINTR:when=1..2", hidden: true},
		{inject: "fallocate:error=EOPNOTSUPP", hidden: true},
		{inject: "fdatasync:error=EIO:when=1", stops: true, logs: fails},
		{inject: "fdatasync:error=EIO", stops: true, logs: fails},
		{inject: "fdatasync:error=ENOSPC", stops: true, logs: fails},
		{inject: "fdatasync:error=EDQUOT", stops: true, logs: fails},
		{inject: "pwrite64:error=EIO:when=3"},
		{inject: "pwrite64:error=EIO", stops: true, logs: fails},
		{inject: "pwrite64:error=ENOSPC:when=3"},
		{inject: "pwrite64:error=ENOSPC", stops: true, logs: fails},
		{inject: "pwrite64:error=EROFS", stops: true, logs: fails},
		{inject: "fallocate:error=ENOSPC", logs: "disk is full"},
		{inject: "fallocate:error=EIO", logs: "journal: the next segment could not be made; trying again"},
		{inject: "renameat:error=EIO", logs: "journal: the next segment could not be made; trying again"},
		{inject: "fsync:error=EIO", logs: "journal: the next segment could not be made; trying again"},
		{inject: "unlinkat:error=EIO", rare: true},
		{inject: "openat:error=EMFILE"},
		{inject: "openat:error=EIO"},
	}
	for n := 1; n <= 3; n++ {
		for _, call := range []string{
			"fdatasync:error=EIO", "pwrite64:error=EIO", "pwrite64:error=ENOSPC", "fallocate:error=ENOSPC",
			"renameat:error=EIO", "fsync:error=EIO", "unlinkat:error=EIO", "flock:error=EIO",
			"mkdirat:error=EACCES", "pread64:error=EIO", "getdents64:error=EIO", "openat:error=EIO",
		} {
			fault := sysFault{inject: fmt.Sprintf("%s:when=%d", call, n), starting: true}
			faults = append(faults, fault)
		}
	}
	return faults
}

// calls returns the name of the system call that fails.
func (f sysFault) calls() string { name, _, _ := strings.Cut(f.inject, ":"); return name }

// attach makes calls of a running server fail from now on, until it ends or detach is called. Strace writes them to file.
func (f sysFault) attach(ctx context.Context, s *server, file string) (detach func(), err error) {
	cmd := exec.CommandContext(ctx, "strace", "-f", "-o", file, "-e", "trace="+f.calls(),
		"-e", "inject="+f.inject, "-p", strconv.Itoa(s.pid))
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "attached") {
			ended := make(chan struct{})
			go func() { io.Copy(io.Discard, said); cmd.Wait(); close(ended) }()
			return func() { cmd.Process.Signal(os.Interrupt); <-ended }, nil
		}
	}
	return nil, fmt.Errorf("strace does not attach: %w", cmd.Wait())
}

// faultsTrial runs the server with each of the faults under load and ends it by kill -9. Then it
// checks what is left with a server that meets no fault.
func faultsTrial(ctx context.Context, t *trial) error {
	if err := haveStrace(); err != nil {
		t.skip("%v", err)
		return nil
	}
	faults := sysFaults()
	met, calls := 0, 0
	for i := range min(t.cycles, len(faults)) {
		f := faults[i*len(faults)/min(t.cycles, len(faults))]
		failed, err := faultCycle(ctx, t, f, i)
		if err != nil {
			return fmt.Errorf("%s: %w", f.inject, err)
		}
		calls += failed
		if failed > 0 {
			met++
		} else if !f.starting && !f.rare {
			t.violate("%s: no call failed", f.inject)
		}
		if len(t.violations()) > 0 || ctx.Err() != nil {
			t.explain("with %s", f.inject)
			return ctx.Err()
		}
	}
	tried := min(t.cycles, len(faults))
	fmt.Fprintf(t.log, "faults: %d of %d faults were met, by %d calls\n", met, tried, calls)
	if tried == len(faults) && met <= tried/2 {
		t.violate("%d of %d faults were met only", met, tried)
	}
	return nil
}

// faultCycle returns how many calls failed.
func faultCycle(ctx context.Context, t *trial, f sysFault, cycle int) (failed int, err error) {
	dir := filepath.Join(t.dir, fmt.Sprint("fault-", cycle))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return failed, err
	}
	lanes := standardLanes(t)
	for _, l := range lanes {
		l.ahead = 1 // so that it is clear what was refused
	}
	config := configOf(lanes)
	if err := os.WriteFile(filepath.Join(dir, "lab.toml"), []byte(config), 0o600); err != nil {
		return failed, err
	}
	calls := filepath.Join(dir, "calls")
	sound := launch{binary: t.binary, dir: dir, args: []string{"--config", "lab.toml"}}
	faulty := sound
	if f.starting {
		faulty.prefix = straceArgs(calls, f.calls(), "-e", "inject="+f.inject)
	}
	t.refusals.Store(!f.hidden)
	before := t.counts.refusals.Load()
	s, err := faulty.start(ctx)
	switch {
	case errors.Is(err, errEnded):
		t.checkFailedStart(s, f)
	case err != nil:
		return failed, err
	default:
		defer s.kill()
		if err := runFault(ctx, t, s, f, lanes, cycle, before, calls); err != nil {
			return failed, err
		}
		s.kill()
	}
	if failed, err = failedIn(calls); err != nil {
		return failed, err
	}
	t.counts.trials.Add(1)
	t.refusals.Store(false)
	s, err = startOrViolate(ctx, t, sound)
	if s == nil || err != nil {
		return failed, err
	}
	defer s.kill()
	v, err := inspectAll(t, s, lanes, (*lane).withoutFetches)
	if err != nil {
		return failed, err
	}
	return failed, v.c.end()
}

// failedIn returns how many calls strace has made fail, by what it wrote to file.
func failedIn(file string) (n int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if strings.HasSuffix(strings.TrimSpace(line), "(INJECTED)") {
			n++
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// faultTime is how long the load goes on with a fault.
const faultTime = 300 * time.Millisecond

func runFault(
	ctx context.Context, t *trial, s *server, f sysFault, lanes []*lane, cycle int, before int64, calls string,
) error {
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	var attachErr error
	detach := func() {}
	err := runLanes(t, s, lanes, cycle, until{replies: 300, after: time.Second}, func() {
		defer s.kill()
		if !f.starting {
			if end, err := f.attach(ctx, s, calls); err == nil { // until the kill
				detach = end
			} else {
				attachErr = err
			}
			time.Sleep(faultTime)
		}
		t.checkFault(s, f, before)
	})
	detach() // it has written all
	return errors.Join(err, attachErr)
}

// checkFailedStart checks a server that did not start: it must have said why in one line.
func (t *trial) checkFailedStart(s *server, f sysFault) {
	if !f.starting {
		t.violate("%s: the server has ended: %s", f.inject, s.lastWords())
		return
	}
	plain := 0
	for _, line := range s.logged("") {
		if line["plain"] == true {
			plain++
		}
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 1 || plain != 1 {
		t.violate("%s: the server ended with status %d and %d lines: %s", f.inject, code, plain,
			s.lastWords())
	}
}

// checkFault checks, at the end of the load, what a server that has met its fault does; then it
// kills it.
func (t *trial) checkFault(s *server, f sysFault, refusedBefore int64) {
	refused := t.counts.refusals.Load() - refusedBefore
	if !s.running() {
		t.violate("%s: the server has ended: %s", f.inject, s.lastWords())
		return
	}
	if f.stops && refused == 0 {
		t.violate("%s: no client got an error", f.inject)
	}
	if f.logs != "" {
		if _, err := s.awaitLog(f.logs); err != nil {
			t.violate("%s: %v", f.inject, err)
		}
	}
	c, err := dial(s, "memcache")
	if err != nil {
		t.violate("%s: %v", f.inject, err)
		return
	}
	defer c.conn.Close()
	body := func(int) []byte { return []byte("probe") }
	put, err := c.ask(request{op: opPut, queue: "probe", items: []int{1}}, body)
	if err != nil || (put.refusal != "") != f.stops && (f.stops || f.hidden) {
		t.violate("%s: a put got %+v, %v; want a refusal: %t", f.inject, put, err, f.stops)
	}
	get, err := c.ask(request{op: opGet, queue: "probe", count: 1}, body)
	if err != nil || get.refusal != "" {
		t.violate("%s: a fetch got %+v, %v, want an answer", f.inject, get, err)
	}
}

// withoutFetches returns how many requests a fault must not have undone: those acknowledged, less
// fetches behind the last of any other kind. A journal that fails does not stop fetches, and what
// they took, or confirmed in passing, may come back.
func (l *lane) withoutFetches() int {
	fetches := []opKind{opGet, opOpen, opPeek, opAbort}
	n := l.ackedBefore(time.Now())
	for n > 0 && slices.Contains(fetches, l.history[n-1].request.op) {
		n--
	}
	return n
}
