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
	name      string
	operation loadtest.Operation
	pipeline  int
	rate      int64 // items a second that must be there for gets, at most
}

func loads() []load {
	return []load{
		{"SET P=1", loadtest.Set, 1, 0},
		{"GET P=1", loadtest.Get, 1, 300e3},
		{"SET P=32", loadtest.Set, 32, 0},
		{"GET P=32", loadtest.Get, 32, 3e6},
	}
}

const (
	connections = 16
	itemSize    = 64
	queue       = "profile"
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
		Args:    func(dir string) ([]string, error) { return o.arguments(dir, port, admin) },
		CPUs:    []int{o.cpus[0]},
		Ready:   func() error { return get(ctx, admin, "/ping", io.Discard) },
	})
	if err != nil {
		return column{}, err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	base := loadtest.Options{Addr: addr, CPUs: []int{o.cpus[1]}, ConnectWait: time.Second}
	if l.operation == loadtest.Get {
		fill := base
		items := int64(float64(l.rate) * (lead + o.window + tail).Seconds())
		fill.Groups = []loadtest.Group{{Connections: 4, Pipeline: 256, ItemSize: itemSize, Queue: queue,
			Operations: items}}
		if _, err := loadtest.Run(ctx, fill); err != nil {
			return column{}, fmt.Errorf("fill: %w", err)
		}
	}
	profile := filepath.Join(p.Dir, "cpu.pprof")
	if err := o.collect(ctx, base, l, admin, profile); err != nil {
		return column{}, errors.Join(err, p.Alive())
	}
	return o.read(ctx, l, profile)
}

// arguments returns those of the server.
func (o *options) arguments(dir string, port, admin int) ([]string, error) {
	file := filepath.Join(dir, "kestrel.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, o.sync), 0o644); err != nil {
		return nil, err
	}
	return []string{"serve", "--config", file, "--data-dir", filepath.Join(dir, "data"), "--loops", "1",
		"--memcache-port", strconv.Itoa(port), "--thrift-port", "none", "--text-port", "none",
		"--admin-port", strconv.Itoa(admin), "--pprof=true", "--log-level", "warn"}, nil
}

// collect runs the load and takes a profile in its middle.
func (o *options) collect(
	ctx context.Context, base loadtest.Options, l load, admin int, file string,
) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	base.Groups = []loadtest.Group{{Operation: l.operation, Connections: connections,
		Pipeline: l.pipeline, ItemSize: itemSize, Queue: queue, Duration: lead + o.window + tail}}
	done := make(chan error, 1)
	base.Begin = func() {
		go func() {
			timer := time.NewTimer(lead)
			defer timer.Stop()
			<-timer.C
			seconds := int(o.window.Seconds())
			done <- get(ctx, admin, "/debug/pprof/profile?seconds="+strconv.Itoa(seconds), out)
		}()
	}
	result, err := loadtest.Run(ctx, base)
	if err != nil {
		return err
	}
	if n := result.Misses(); n > 0 {
		return fmt.Errorf("%d gets missed: the queue ran dry", n)
	}
	return <-done
}

// get reads a page of the admin port.
func get(ctx context.Context, admin int, path string, w io.Writer) error {
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
		if err := keep(profile, o.keep, l.name); err != nil {
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
	return newColumn(l.name, traces), nil
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
