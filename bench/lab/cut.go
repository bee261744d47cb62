package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// syncAllowance is how long a sync, and the timer before it, may take on a busy machine. What a queue with a sync
// period acknowledged earlier than the period and this before a power cut must be there.
const syncAllowance = 300 * time.Millisecond

// cutTrial returns the experiment that cuts the power of one kind of file system.
//
// The server works on a file system in a file. Its power is cut by the ioctl that makes the file system drop everything
// that is not durable. It is mounted again, and every lane compares what it finds with what its policy promises. In
// most cycles only lanes of one policy work, for any sync covers everything before it, whosever it is.
func cutTrial(kind string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		dir, remove, err := memoryDir(t.name, t.dir)
		if err != nil {
			return err
		}
		defer remove()
		disk, err := newImage(ctx, kind, dir)
		if err != nil {
			t.skip("%v", err)
			return nil
		}
		defer disk.remove()
		lanes := standardLanes(t)
		config := filepath.Join(t.dir, "lab.toml")
		how := launch{binary: t.binary, dir: disk.mount, args: []string{"--config", config}}
		for cycle := 0; t.more(ctx, cycle); cycle++ {
			// With small segments much is synced because a segment is full, whatever the policy.
			text := configOf(lanes)
			if cycle/8%2 == 1 {
				text = strings.NewReplacer(`"64KiB"`, `"4MiB"`, `"1MiB"`, `"16MiB"`).Replace(text)
			}
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				return err
			}
			if err := cutCycle(ctx, t, how, disk, lanes, cycle); err != nil {
				return fmt.Errorf("cycle %d: %w", cycle, err)
			}
		}
		return ctx.Err()
	}
}

// cutSpillTrial cuts the power of an ext4 file system while queues spill and are drained at full
// speed, every request synced before it is answered.
func cutSpillTrial(ctx context.Context, t *trial) error {
	dir, remove, err := memoryDir(t.name, t.dir)
	if err != nil {
		return err
	}
	defer remove()
	disk, err := newImage(ctx, "ext4", dir)
	if err != nil {
		t.skip("%v", err)
		return nil
	}
	defer disk.remove()
	lanes := spillLanes(t)
	lanes[0].most = 200 // the heavy one would fill the disk
	for _, l := range lanes {
		l.policy = "always"
	}
	config := filepath.Join(t.dir, "lab.toml")
	how := launch{binary: t.binary, dir: disk.mount, args: []string{"--config", config, "--admin-port", "auto"}}
	backlogs := filepath.Join(disk.mount, "data", "backlog")
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		if err := writeSpillConfig(t, lanes, cycle); err != nil {
			return err
		}
		before := newestRun(backlogs)
		if err := cutSpillCycle(ctx, t, how, disk, lanes, cycle); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle, err)
		}
		t.counts.runs.Add(max(newestRun(backlogs)-before, 0))
	}
	return ctx.Err()
}

func cutSpillCycle(
	ctx context.Context, t *trial, how launch, disk *image, lanes []*spillLane, cycle int,
) error {
	rng := t.rng(cycle<<8 | 255)
	s, err := startOrViolate(ctx, t, how)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	if rng.IntN(4) == 0 || cycle == t.cycles-1 {
		if err := inspectSpilled(t, s, lanes); err != nil {
			return err
		}
	}
	var cutErr, readErr error
	err = runSpill(t, s, lanes, cycle, int64(20+rng.IntN(4000)), func() {
		readErr = expectReadable(t, s)
		for _, l := range lanes {
			l.cutNow()
		}
		cutErr = t.cutPower(s, disk, rng)
	})
	t.refusals.Store(false)
	if err = errors.Join(readErr, cutErr, err); err != nil {
		return err
	}
	if err := disk.detach(); err != nil {
		return err
	}
	return disk.attach(ctx)
}

// cutPower cuts the power of the disk below a server, and kills that a moment later.
func (t *trial) cutPower(s *server, disk *image, rng *rand.Rand) error {
	flags := shutdownNoFlush
	if rng.IntN(3) == 0 {
		flags = shutdownFlush
	}
	t.refusals.Store(true)
	err := disk.cut(flags)
	t.counts.trials.Add(1)
	time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond) // it must bear that
	if !s.running() {
		t.violate("the server died of a disk that fails: %s", s.lastWords())
	}
	s.kill()
	if err != nil {
		return fmt.Errorf("cut power: %w", err)
	}
	return nil
}

func cutCycle(
	ctx context.Context, t *trial, how launch, disk *image, lanes []*lane, cycle int,
) error {
	rng := t.rng(cycle<<8 | 255)
	s, err := startOrViolate(ctx, t, how)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	v, err := inspectAll(t, s, lanes, (*lane).promised)
	if err != nil {
		return err
	}
	if err := v.c.end(); err != nil {
		return fmt.Errorf("end inspection: %w", err)
	}
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	at, err := runUntilCut(t, s, disk, working(lanes, cycle), cycle, rng)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		l.cutAt = at
	}
	if err := disk.detach(); err != nil {
		return err
	}
	return disk.attach(ctx)
}

// working returns the lanes that work in a cycle: those of one policy, or all.
func working(lanes []*lane, cycle int) []*lane {
	which := cycle % (len(policies()) + 1)
	if which == len(policies()) {
		return lanes
	}
	var some []*lane
	for _, l := range lanes {
		if l.policy == policies()[which] {
			some = append(some, l)
		}
	}
	return some
}

// runUntilCut lets lanes work and cuts the power, at the time that it returns.
func runUntilCut(
	t *trial, s *server, disk *image, lanes []*lane, cycle int, rng *rand.Rand,
) (at time.Time, err error) {
	when := until{replies: int64(20 + rng.IntN(4000))}
	if len(lanes) > 0 && lanes[0].policy == period.String() {
		// Long enough for it to promise something.
		when = until{after: syncAllowance + period + time.Duration(rng.IntN(200))*time.Millisecond}
	}
	for _, l := range lanes {
		l.pause = 0
		if when.after > 0 { // or rotation would sync most of it
			l.pause = 3 * time.Millisecond
		}
	}
	var cutErr error
	err = runLanes(t, s, lanes, cycle, when, func() {
		at = time.Now()
		cutErr = t.cutPower(s, disk, rng)
	})
	t.refusals.Store(false)
	return at, errors.Join(cutErr, err)
}

// promised returns how many of the lane's requests a power cut must not have undone. Replies behind
// the moment of the cut do not count: with a real one there would be none. A sync that is under way
// then may succeed for the server and yet be lost.
func (l *lane) promised() int {
	switch l.policy {
	case "never":
		return 0
	case "always":
		return l.ackedBefore(l.cutAt)
	}
	return l.ackedBefore(l.cutAt.Add(-period - syncAllowance))
}
