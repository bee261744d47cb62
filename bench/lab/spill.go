package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// spillTrial kills the server while clients append to queues with tiny windows, and drain them at the same time, as
// fast as they can. So the server writes items to runs, reads them back from runs that still grow, and deletes runs
// that are used up, thousands of times. Every item is checked as it comes, over all kills. A sound server finds no
// damage. So a line of its log that is a warning or an error, and a backlog that could not be read, is a violation too.
func spillTrial(ctx context.Context, t *trial) error { return spillUnder(ctx, t, nil) }

// shortTrial is spillTrial with a server whose reads and writes of files each do a part of what they are asked for. The
// server has to ask for the rest again.
func shortTrial(ctx context.Context, t *trial) error {
	tally := filepath.Join(t.dir, "shortened")
	prefix, err := shortPrefix(tally)
	if err != nil {
		t.skip("%v", err)
		return nil
	}
	if err := spillUnder(ctx, t, prefix); err != nil || len(t.violations()) > 0 {
		return err
	}
	n, err := os.ReadFile(tally)
	if err == nil && string(n) == "0" {
		err = errors.New("no call was shortened")
	}
	return err
}

// spillUnder is spillTrial with servers that another program runs; nil for none.
func spillUnder(ctx context.Context, t *trial, prefix []string) error {
	lanes := spillLanes(t)
	how := launch{binary: t.binary, prefix: prefix, dir: t.dir, args: []string{
		"--config", "lab.toml", "--admin-port", "auto",
	}}
	backlogs := filepath.Join(t.dir, "data", "backlog")
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		if err := writeSpillConfig(t, lanes, cycle); err != nil {
			return err
		}
		before := newestRun(backlogs)
		if err := spillCycle(ctx, t, how, lanes, cycle); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle, err)
		}
		t.counts.runs.Add(max(newestRun(backlogs)-before, 0))
	}
	if len(t.violations()) > 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	s, err := startOrViolate(ctx, t, how)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	return inspectSpilled(t, s, lanes)
}

// writeSpillConfig writes the configuration of a cycle: how runs are compressed and read changes, and what event
// loops wait with. One cycle in five has runs in the page cache, those of the cycles before too.
func writeSpillConfig(t *trial, lanes []*spillLane, cycle int) error {
	var b strings.Builder
	b.WriteString("segment_size = \"64KiB\"\njournal_size = \"1MiB\"\n")
	b.WriteString("max_open_transactions = 1000000\n")
	codecs := []string{"none", "s2", "zstd"}
	fmt.Fprintf(&b, "backlog_compression = %q\n", codecs[cycle%len(codecs)])
	fmt.Fprintf(&b, "backlog_cache = %t\n", cycle%5 == 4)
	fmt.Fprintf(&b, "backlog_read = %q\n", readings()[cycle%2])
	if runtime.GOOS == "linux" { // elsewhere there is only one
		fmt.Fprintf(&b, "event_loop = %q\n", []string{"gnet", "epoll"}[cycle/2%2])
	}
	for _, l := range lanes {
		b.WriteString(l.config())
	}
	return os.WriteFile(filepath.Join(t.dir, "lab.toml"), []byte(b.String()), 0o600)
}

func spillCycle(
	ctx context.Context, t *trial, how launch, lanes []*spillLane, cycle int,
) error {
	rng := t.rng(cycle<<8 | 255)
	s, err := startBehindKill(ctx, t, how, rng, 6)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	if rng.IntN(4) == 0 {
		if err := inspectSpilled(t, s, lanes); err != nil {
			return err
		}
	}
	most := 40_000 // replies
	if t.cycles < 10 {
		most = 4000
	}
	replies := int64(20 + rng.IntN(1+rng.IntN(most)))
	var readErr error
	err = runSpill(t, s, lanes, cycle, replies, func() {
		readErr = expectReadable(t, s)
		s.kill()
		t.counts.trials.Add(1)
	})
	if err = errors.Join(err, readErr); err != nil {
		return err
	}
	expectNoWarning(t, s)
	if rng.IntN(8) == 0 {
		if status, said := verify(ctx, how); status != verifySound && status != verifyTorn {
			t.violate("verify ended with status %d behind a kill: %s", status, said)
		}
	}
	return nil
}

// runSpill lets lanes work until there have been so many replies, and calls crash.
func runSpill(
	t *trial, s *server, lanes []*spillLane, cycle int, replies int64, crash func(),
) (err error) {
	var running sync.WaitGroup
	var got atomic.Int64
	reached := make(chan struct{})
	acked := func() {
		if got.Add(1) == replies {
			close(reached)
		}
	}
	for i, l := range lanes {
		l.start(s, &running, t.rng(cycle<<8|i), acked)
	}
	idle := make(chan struct{})
	go func() { running.Wait(); close(idle) }()
	err = awaitReplies(&got, reached, idle)
	crash()
	running.Wait()
	for _, l := range lanes {
		l.crashed()
	}
	return err
}

// awaitReplies waits until enough replies have come, nobody works any more, or it has been long: a
// traced server, or a busy machine, is slow. It returns an error if nothing goes on.
func awaitReplies(got *atomic.Int64, reached, idle <-chan struct{}) error {
	var seen int64
	for range 2 {
		select {
		case <-reached:
			return nil
		case <-idle:
			return nil
		case <-time.After(patience / 2):
		}
		now := got.Load()
		if now == seen {
			return fmt.Errorf("no reply came for %v, behind %d", patience/2, now)
		}
		seen = now
	}
	return nil
}

// inspectSpilled looks at what every queue holds, without changing it.
func inspectSpilled(t *trial, s *server, lanes []*spillLane) error {
	v, err := inspect(t, s)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if err := l.inspect(v); err != nil {
			return errors.Join(err, v.c.conn.Close())
		}
	}
	return v.c.end()
}

var unreadable = regexp.MustCompile(`(?m)^kestrel_queue_read_errors_total\{.*\} ([1-9].*)$`)

// expectReadable checks that the server has not found any backlog damaged, and counts how it has read them.
func expectReadable(t *trial, s *server) error {
	metrics, err := metricsOf(s)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
		t.violate("the server has ended: %s", s.lastWords())
		return nil
	}
	if err != nil {
		return err
	}
	mapped, direct, err := bytesRead(metrics)
	if err != nil {
		return err
	}
	t.counts.mapped.Add(mapped)
	t.counts.direct.Add(direct)
	if !strings.Contains(metrics, "kestrel_queue_read_errors_total{") {
		t.violate("the metrics do not tell of backlogs that could not be read")
	}
	if m := unreadable.FindString(metrics); m != "" {
		t.violate("a sound backlog could not be read: %s", m)
	}
	return nil
}

// expectNoWarning checks that a server that has ended logged nothing for an operator to look at. That its
// journal was torn by the kill before is not such a thing. Nor is a turn that a busy machine has made long, nor that
// its disk is slow for a while.
func expectNoWarning(t *trial, s *server) {
	for _, line := range s.logged("") {
		said := line.message()
		expected := strings.Contains(said, "torn write") || strings.HasPrefix(said, "event loop ") ||
			strings.HasPrefix(said, "clients slowed down")
		if line["level"] != "INFO" && !expected {
			t.violate("a sound server logged %v", line)
		}
	}
}

// newestRun returns the highest number of a run in a directory. A server counts on from it.
func newestRun(dir string) (newest int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0 // nothing has been spilled yet
	}
	for _, e := range entries {
		var n int64
		if _, err := fmt.Sscanf(e.Name(), "%d.run", &n); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}
