package plancmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const (
	measureItems = 20_000
	measureBytes = 64 << 20 // of items, at most
	measureTime  = time.Minute
	stopTime     = 10 * time.Second // of a run that is given up
	// A queue of the second run keeps a quarter of its items in memory, and at most so much: the rest comes from disk.
	memoryShare, mostMemory, leastMemory = 4, 8 << 20, 64 << 10
)

// measure puts and gets items of a size with `kestrel load`, and returns what that cost its server. It does so twice: with
// queues in memory, and with queues that are mostly on disk.
func measure(ctx context.Context, size int64) (costs, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // so that the directory goes, as its server does
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, measureTime, fmt.Errorf("measuring took more than %v", measureTime))
	defer cancel()
	dir, err := spawn.MakeTemp("", "kestrel-plan")
	if err != nil {
		return costs{}, err
	}
	defer dir.Remove()
	items := max(min(measureItems, measureBytes/size), 32)
	inMemory, err := run(ctx, dir, items, size, 0)
	if err != nil {
		return costs{}, err
	}
	onDisk, err := run(ctx, dir, items, size, min(max(items*size/memoryShare, leastMemory), mostMemory))
	if err != nil {
		return costs{}, err
	}
	return costsOf(inMemory, onDisk, size)
}

// run runs a server and a load for it. A queue of the server keeps so many bytes in memory; 0 stands for the default.
func run(ctx context.Context, dir *spawn.TempDir, items, size, memory int64) (*figures.Run, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output := filepath.Join(dir.Path, "run")
	args := []string{"load", "put-many", "--get", "--spawn", "--spawn-dir", dir.Path, "--clients", "32", "--quiet",
		"--items", strconv.FormatInt(items, 10), "--bytes", strconv.FormatInt(size, 10), "--output", output}
	if memory > 0 {
		config := filepath.Join(dir.Path, "kestrel.toml")
		if err := os.WriteFile(config, fmt.Appendf(nil, "[default]\nmax_memory_size = %d\n", memory), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--spawn-args", "--config "+config)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it stops the server
	cmd.WaitDelay = stopTime
	cmd.ExtraFiles = []*os.File{dir.Lock} // it goes on without us
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("kestrel %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return figures.Read(output + ".json")
}

// costsOf returns what the phases put and get cost a server with its queues in memory, and one that had them on disk.
func costsOf(inMemory, onDisk *figures.Run, size int64) (costs, error) {
	c := costs{source: measured}
	if p := phaseOf(inMemory, "put"); p != nil {
		c.put, c.base = time.Duration(p.Server.PerOpCPU), p.Server.AtStart
	}
	if p := phaseOf(inMemory, "get"); p != nil {
		c.get = time.Duration(p.Server.PerOpCPU)
	}
	if p := phaseOf(onDisk, "get"); p != nil && p.Wall > 0 && len(p.Ops) > 0 {
		c.fetch = time.Duration(p.Server.PerOpCPU)
		c.reads = float64(p.Ops[0].Items*size) / (float64(p.Wall) / 1e9)
	}
	if c.put <= 0 || c.get <= 0 || c.fetch <= 0 || c.base <= 0 {
		return costs{}, fmt.Errorf("the run was too short to measure: put %v, get %v, get from disk %v, memory %d", c.put, c.get,
			c.fetch, c.base)
	}
	return c, nil
}

// phaseOf returns the phase of that name if it says what the server took, else nil.
func phaseOf(r *figures.Run, name string) *figures.Phase {
	for _, p := range r.Phases {
		if p.Name == name && p.Server != nil {
			return p
		}
	}
	return nil
}
