package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// load is what the server does while it is profiled.
type load struct {
	operation   loadtest.Operation
	size        int // bytes of an item
	connections int
	pipeline    int
	sync        string // sync_journal
	waits       bool   // one more connection puts 1000 items a second, for which the others wait
	rate        int64  // items a second that must be there for gets, at most
}

// set is a load of SETs of 64 bytes, with the policy "never".
func set(connections, pipeline int) load {
	return load{operation: loadtest.Set, size: 64, connections: connections, pipeline: pipeline,
		sync: "never"}
}

// get is the same of GETs.
func get(connections, pipeline int, rate int64) load {
	l := set(connections, pipeline)
	l.operation, l.rate = loadtest.Get, rate
	return l
}

// always is a load of SETs each of which is synced.
func always(size, connections, pipeline int) load {
	l := set(connections, pipeline)
	l.size, l.sync = size, "always"
	return l
}

// waiters is a load of consumers that wait.
func waiters(connections int) load {
	l := get(connections, 1, 0)
	l.waits = true
	return l
}

// tables are the loads, by the table that they are a column of.
func tables() [][]load {
	return [][]load{
		{set(16, 1), get(16, 1, 300e3), set(16, 32), get(16, 32, 3e6)},
		{set(1, 32), get(1, 32, 2e6), set(1000, 32), get(1000, 32, 3e6)},
		{always(64, 16, 1), always(64, 100, 1), always(1024, 100, 1), waiters(500)},
	}
}

// String returns the heading of a load's column.
func (l load) String() string {
	name := "SET"
	switch {
	case l.waits:
		name = "WAITERS"
	case l.operation == loadtest.Get:
		name = "GET"
	}
	name = fmt.Sprintf("%s c=%d P=%d", name, l.connections, l.pipeline)
	if l.size != 64 {
		name += fmt.Sprintf(" %dB", l.size)
	}
	if l.sync != "never" {
		name += " " + l.sync
	}
	return name
}

// window returns how long a profile of the load takes: longer where the server is idle for most of
// the time, which is not sampled.
func (l load) window(d time.Duration) time.Duration {
	if l.waits {
		return 5 * d
	}
	return d
}

// groups returns what the load's connections do.
func (l load) groups(d time.Duration) []loadtest.Group {
	g := loadtest.Group{Operation: l.operation, Connections: l.connections, Pipeline: l.pipeline,
		ItemSize: l.size, Queue: queue, Duration: d}
	if !l.waits {
		return []loadtest.Group{g}
	}
	put := g
	put.Operation, put.Connections, put.Rate = loadtest.Set, 1, waitersRate
	g.Duration, g.Drain, g.Wait = 0, true, longWait
	return []loadtest.Group{put, g}
}

const (
	queue       = "profile"
	waitersRate = 1000                   // puts a second
	longWait    = 8 * time.Second        // of a blocked get
	headStart   = 300 * time.Millisecond // for consumers to block, before the first item
	lead        = 300 * time.Millisecond // of the load, before the profile begins
	tail        = 700 * time.Millisecond // after it has ended
)

// config keeps all items in memory: what is spilled to disk would be in the profile too.
const config = `memory_limit = "8GiB"
[default]
max_memory_size = "8GiB"
sync_journal = %q
`

// profile profiles one load on a server of its own.
func (o *options) profile(ctx context.Context, l load) (c column, err error) {
	port, err1 := spawn.FreePort()
	admin, err2 := spawn.FreePort()
	if err := errors.Join(err1, err2); err != nil {
		return column{}, err
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	p, err := spawn.Start(ctx, spawn.Options{
		Name:    "profile",
		Program: o.kestrel,
		Args:    func(dir string) ([]string, error) { return l.arguments(dir, port, admin) },
		CPUs:    []int{o.cpus[0]},
		Ready:   func() error { return fetch(ctx, admin, "/ping", io.Discard) },
	})
	if err != nil {
		return column{}, err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	base := loadtest.Options{Addr: addr, CPUs: []int{o.cpus[1]}, ConnectWait: time.Second}
	if l.rate > 0 {
		fill := base
		items := int64(float64(l.rate) * (lead + o.window + tail).Seconds())
		fill.Groups = []loadtest.Group{{Connections: 4, Pipeline: 256, ItemSize: l.size, Queue: queue,
			Operations: items}}
		if _, err := loadtest.Run(ctx, fill); err != nil {
			return column{}, fmt.Errorf("fill: %w", err)
		}
	}
	profile := filepath.Join(p.Dir, "cpu.pprof")
	spent, err := o.collect(ctx, base, l, p.PID, admin, profile)
	if err != nil {
		return column{}, errors.Join(err, p.Alive())
	}
	if c, err = o.read(ctx, l, profile); err == nil {
		c.spent = spent
	}
	return c, err
}

// arguments returns those of the server.
func (l load) arguments(dir string, port, admin int) ([]string, error) {
	file := filepath.Join(dir, "kestrel.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, l.sync), 0o644); err != nil {
		return nil, err
	}
	return []string{"serve", "--config", file, "--data-dir", filepath.Join(dir, "data"), "--loops", "1",
		"--memcache-port", strconv.Itoa(port), "--thrift-port", "none", "--text-port", "none",
		"--admin-port", strconv.Itoa(admin), "--pprof=true", "--log-level", "warn"}, nil
}

// collect runs the load, takes a profile in its middle, and returns what the server has spent.
func (o *options) collect(
	ctx context.Context, base loadtest.Options, l load, pid, admin int, file string,
) (spent, error) {
	out, err := os.Create(file)
	if err != nil {
		return spent{}, err
	}
	defer out.Close()
	window := l.window(o.window)
	base.Groups = l.groups(lead + window + tail)
	if l.waits {
		base.HeadStart = headStart
		base.Ledger = loadtest.NewLedger(uint64(l.connections), false)
	}
	done := make(chan error, 1)
	var before, after time.Duration
	var beforeErr, afterErr error
	base.Begin = func() {
		before, beforeErr = spawn.CPUTime(pid)
		go func() {
			timer := time.NewTimer(lead)
			defer timer.Stop()
			<-timer.C
			seconds := int(window.Seconds())
			done <- fetch(ctx, admin, "/debug/pprof/profile?seconds="+strconv.Itoa(seconds), out)
		}()
	}
	base.End = func() { after, afterErr = spawn.CPUTime(pid) }
	result, err := loadtest.Run(ctx, base)
	if err != nil {
		return spent{}, err
	}
	if n := result.Misses(); n > 0 && !l.waits {
		return spent{}, fmt.Errorf("%d gets missed: the queue ran dry", n)
	}
	requests := result.Got()
	if put, ok := result.Op("put"); ok && !l.waits {
		requests = put.Items
	}
	return spent{requests, after - before, result.Wall}, errors.Join(<-done, beforeErr, afterErr)
}

// fetch reads a page of the admin port.
func fetch(ctx context.Context, admin int, path string, w io.Writer) error {
	url := "http://127.0.0.1:" + strconv.Itoa(admin) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}

// read sorts the samples of a profile, and keeps it if asked to.
func (o *options) read(ctx context.Context, l load, profile string) (column, error) {
	if o.keep != "" {
		if err := keep(profile, o.keep, l.String()); err != nil {
			return column{}, err
		}
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", o.kestrel, profile).Output()
	if err != nil {
		return column{}, fmt.Errorf("go tool pprof: %w", err)
	}
	traces, err := parseTraces(string(out))
	if err != nil {
		return column{}, err
	}
	return newColumn(l.String(), traces), nil
}

// keep copies a profile into a directory.
func keep(profile, dir, name string) error {
	b, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name = strings.NewReplacer(" ", "-", "=", "").Replace(strings.ToLower(name))
	return os.WriteFile(filepath.Join(dir, name+".pprof"), b, 0o644)
}
