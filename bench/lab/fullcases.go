package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// diskFull returns the case of a file system, made with options, that gets full. The server refuses puts, and serves
// what was put before. When enough has been taken, it accepts puts again. A server that is killed then starts again and
// has everything, or says that it needs room and does so when there is.
func diskFull(options string) func(context.Context, *trial, string) error {
	return func(ctx context.Context, t *trial, dir string) error {
		if err := mountTmpfs(dir, options, false); err != nil {
			t.skip("mount tmpfs: %v", err)
			return nil
		}
		defer detachMount(dir)
		config := "segment_size = \"256KiB\"\njournal_size = \"1GiB\"\n"
		if err := os.WriteFile(filepath.Join(dir, "full.toml"), []byte(config), 0o600); err != nil {
			return err
		}
		how := launch{binary: t.binary, dir: dir, args: []string{"--config", "full.toml"}}
		f := &fullDisk{t: t, how: how, next: 1, first: 1}
		for round := range 2 { // what makes room, in each; there may be none for it later
			ballast := make([]byte, 512<<10)
			if err := os.WriteFile(f.ballast(round), ballast, 0o600); err != nil {
				return err
			}
		}
		for f.round = range 2 {
			if err := f.fill(ctx); err != nil {
				return err
			}
			if len(t.violations()) > 0 {
				return nil
			}
		}
		return nil
	}
}

// fullDisk is a run of diskFull: items first to next-1 are in the queue.
type fullDisk struct {
	t           *trial
	how         launch
	first, next int
	round       int
}

// ballast is a file that is removed to make room in a round.
func (f *fullDisk) ballast(round int) string {
	return filepath.Join(f.how.dir, fmt.Sprint("ballast-", round))
}

const fullItem = 8000 // bytes of an item

// fill puts until the disk is full, kills the server, and then makes room by taking items.
func (f *fullDisk) fill(ctx context.Context) error {
	s, err := startOrViolate(ctx, f.t, f.how)
	if s == nil || err != nil {
		return err
	}
	defer func() { s.kill() }()
	a, err := ask(s, fullItem)
	if err != nil {
		return err
	}
	next, refusal, err := a.putUntilRefused(f.t, f.next, 100_000)
	if err != nil || refusal == "" {
		return fmt.Errorf("put item %d: %q, %w", next, refusal, err)
	}
	f.next = next
	f.t.counts.refusals.Add(1)
	line, err := s.awaitLog("puts ") // that the disk is full, or so nearly; which depends on the time
	if err != nil {
		return err
	}
	// While the journal fails, fetches go on, and come back after a kill; see docs/PROTOCOL.md. As
	// long as it only finds no room for its next segment, there is room for removals.
	if line.message() != "disk is full: puts are refused" {
		if f.first, err = a.expectItems(f.t, f.first, f.first+10); err != nil {
			return err
		}
	}
	s.kill()
	f.t.counts.trials.Add(1)
	if s, err = f.restart(ctx); s == nil || err != nil {
		return err
	}
	return f.recover(s)
}

// restart starts the server on the full disk, if need be when there is room again.
func (f *fullDisk) restart(ctx context.Context) (*server, error) {
	s, err := f.how.start(ctx)
	if !errors.Is(err, errEnded) {
		return s, err
	}
	if last := s.lastWords(); !strings.Contains(last, "is full: make room") {
		f.t.violate("the server does not start on a full disk, and says %s", last)
		return nil, nil
	}
	if err := os.Remove(f.ballast(f.round)); err != nil {
		return nil, err
	}
	return startOrViolate(ctx, f.t, f.how)
}

// recover takes half of the items, and puts again as soon as the server lets it.
func (f *fullDisk) recover(s *server) error {
	a, err := ask(s, fullItem)
	if err != nil {
		return err
	}
	if f.first, err = a.expectItems(f.t, f.first, (f.first+f.next)/2); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		refusal, err := a.put(f.next)
		if err != nil {
			return err
		}
		if refusal == "" {
			f.next++
			f.t.counts.checks.Add(1)
			return nil
		}
		if time.Now().After(deadline) {
			f.t.violate("half of the items are taken, and puts are refused all the same: %s", refusal)
			return nil
		}
	}
}

// serverMemory is the case of a server with an option for how much memory items may take.
func serverMemory(ctx context.Context, t *trial, dir string) error {
	how := launch{binary: t.binary, dir: dir, args: []string{"--sync-journal", "never"}}
	if err := fillMemory(ctx, t, how); err != nil {
		return err
	}
	how.args = append(how.args, "--config", filepath.Join(dir, "memory.toml"))
	return fillSmallQueues(ctx, t, how)
}

// fillSmallQueues puts one item to each of many queues, so many that they take twice the server's
// memory_limit of 16 MiB. None of them has enough to be spilled: the server must refuse puts, and
// keep what it accepted.
func fillSmallQueues(ctx context.Context, t *trial, how launch) error {
	const queues = 1000
	s, a, err := startAsked(ctx, how, 32_000)
	if err != nil {
		return err
	}
	defer s.kill()
	name := func(i int) string { return fmt.Sprintf("small-%d", i) }
	accepted := 0
	for ; accepted < queues; accepted++ {
		got, err := a.ask(request{op: opPut, queue: name(accepted), items: []int{accepted}}, a.body)
		if err != nil {
			return err
		}
		if strings.Contains(got.refusal, "out of memory") {
			break
		}
		if got.refusal != "" {
			t.violate("queue %d is refused: %s", accepted, got.refusal)
			return nil
		}
	}
	if accepted == queues {
		t.violate("%d queues of 32,000 bytes are accepted with a memory_limit of 16 MiB", queues)
	}
	for i := range accepted {
		got, err := a.ask(request{op: opGet, queue: name(i), count: 1}, a.body)
		if err != nil {
			return err
		}
		if got.refusal != "" || len(got.items) != 1 ||
			!bytes.Equal(got.items[0].data, a.body(i)) {
			t.violate("queue %d was accepted and holds %d items, not what was put; %s",
				i, len(got.items), got.refusal)
			return nil
		}
	}
	t.counts.checks.Add(1)
	return nil
}

// fillMemory puts six times the server's memory_limit of 16 MiB: what does not fit is spilled,
// nothing is lost, and everything comes back in order.
func fillMemory(ctx context.Context, t *trial, how launch) error {
	config := filepath.Join(how.dir, "memory.toml")
	if err := os.WriteFile(config, []byte("memory_limit = \"16MiB\"\n"), 0o600); err != nil {
		return err
	}
	how.args = append(how.args, "--config", config)
	return overfill(ctx, t, how, 100_000_000)
}

// overfill puts so many bytes of items, more than the server may keep in memory, and takes them.
func overfill(ctx context.Context, t *trial, how launch, total int) error {
	const size = 40_000 // of an item
	items := total / size
	s, a, err := startAsked(ctx, how, size)
	if err != nil {
		return err
	}
	defer s.kill()
	next := 1
	for deadline := time.Now().Add(patience); next <= items; {
		first := next
		var refusal string
		if next, refusal, err = a.putUntilRefused(t, next, items+1-next); err != nil {
			return fmt.Errorf("put item %d: %w", next, err)
		}
		if next > first { // a refusal may be that the disk was slower, for a moment
			deadline = time.Now().Add(patience)
		} else if time.Now().After(deadline) {
			t.violate("item %d of %d bytes is refused although the disk has room: %s", next, size, refusal)
			return nil
		}
	}
	end, err := a.expectItems(t, 1, 0)
	if err == nil && end != next {
		t.violate("the queue ended before item %d of %d", end, next)
	}
	t.counts.checks.Add(1)
	return err
}

// groupMemory is the case of a control group. The server stays alive in it, whether an option limits its memory or it
// has to find the limit out.
func groupMemory(ctx context.Context, t *trial, dir string) error {
	group, err := newGroup()
	if err != nil {
		t.skip("memory control group: %v", err)
		return nil
	}
	defer group.remove()
	how := launch{
		binary: t.binary, dir: dir, args: []string{"--sync-journal", "never"}, shell: group.enter(),
	}
	if err := group.limit(96 << 20); err != nil {
		return err
	}
	if err := fillMemory(ctx, t, how); err != nil {
		return err
	}
	if err := group.limit(80 << 20); err != nil {
		return err
	}
	how.args = append(how.args, "--data-dir", "no-limit")
	t.counts.trials.Add(1)
	return overfill(ctx, t, how, 200_000_000)
}
