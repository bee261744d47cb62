package plancmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

const (
	measureItems = 20_000
	measureBytes = 256 << 20 // of items, at most
	measureTime  = time.Minute
)

// measure puts and gets items of a size with `kestrel load`, and returns what that cost its server.
func measure(ctx context.Context, size int64) (costs, error) {
	program, err := os.Executable()
	if err != nil {
		return costs{}, err
	}
	dir, err := os.MkdirTemp("", "kestrel-plan-")
	if err != nil {
		return costs{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	items := max(min(measureItems, measureBytes/size), 1)
	run := filepath.Join(dir, "run")
	args := []string{"load", "put-many", "--get", "--spawn", "--spawn-dir", dir, "--clients", "32", "--quiet",
		"--items", strconv.FormatInt(max(items, 32), 10), "--bytes", strconv.FormatInt(size, 10), "--output", run}
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return costs{}, fmt.Errorf("kestrel %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	r, err := figures.Read(run + ".json")
	if err != nil {
		return costs{}, err
	}
	return costsOf(r)
}

// costsOf returns what the phases put and get cost the server.
func costsOf(r *figures.Run) (costs, error) {
	c := costs{source: "measured here: processor time of the server, one request in flight for each of 32 connections"}
	for _, p := range r.Phases {
		if p.Server == nil {
			continue
		}
		switch cost := time.Duration(p.Server.PerOpCPU); p.Name {
		case "put":
			c.put = cost
		case "get":
			c.get = cost
		}
	}
	if c.put <= 0 || c.get <= 0 {
		return costs{}, fmt.Errorf("the run was too short to measure: put %v, get %v", c.put, c.get)
	}
	return c, nil
}
