package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// notSimulated are the files that a simulation replaces, or has no use for: what is broken there it cannot
// notice.
var notSimulated = []string{
	osFile, "engine/lock.go", "segment/readahead.go", "netloop/accept.go", "netloop/pace.go", "engine/ahead.go",
	"netloop/idle.go", "netloop/buffers.go", "codec/memcache/decode.go",
}

// notJudged are the controls that no law of the simulation judges yet, or that it meets too rarely: the order
// of what is aborted, damaged files, what half-closed clients get, memory and descriptors at their limits.
var notJudged = []string{
	"aborted items go behind other aborted ones", "checksums are not compared", "there is no limit of memory",
	"unread replies are not bounded",
	"items of a client that is gone do not come back", "a half-closed client gets no replies",
	"a spill does not ask for a descriptor", "any number of sealed segments wait for a sync",
	"no segment is dropped any more after an error",
}

// isSimulated reports whether a simulation runs what the control breaks, and judges it.
func (c control) isSimulated() bool {
	return !slices.Contains(notJudged, c.breaks) && !slices.ContainsFunc(c.edits, func(e edit) bool { return slices.Contains(notSimulated, e.file) })
}

// simulatedTrial has the simulation look at every control that it can notice, for so many seconds each.
func simulatedTrial(ctx context.Context, t *trial) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, c := range controls() {
		if seen[c.breaks] || !c.isSimulated() || t.only != "" && t.only != c.breaks {
			continue
		}
		seen[c.breaks] = true
		dir := filepath.Join(t.dir, fmt.Sprint("control-", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		how, err := c.simulate(ctx, root, dir, t.cycles)
		if err != nil {
			return fmt.Errorf("control %q: %w", c.breaks, err)
		}
		t.counts.trials.Add(1)
		if how == "" {
			t.violate("%q is not noticed by the simulation", c.breaks)
			continue
		}
		fmt.Fprintf(t.log, "%s: noticed by the simulation: %.200s\n", c.breaks, how)
	}
	return nil
}

// simulate returns how the simulation has noticed the control; "" if it has not within some seconds.
func (c control) simulate(ctx context.Context, root, dir string, seconds int) (how string, err error) {
	file, err := overlay(root, dir, c.edits)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./bench/sim", "-overlay", file, "-shorten=false", "-seed", "1",
		"-for", fmt.Sprintf("%ds", seconds))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &exit) || !strings.Contains(string(out), " fails, after "):
		return "", fmt.Errorf("bench/sim: %w\n%s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}
