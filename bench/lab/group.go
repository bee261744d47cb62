package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// group is a control group that limits memory.
type group struct {
	dir       string
	limitFile string
}

// newGroup makes a control group, of version 1 or 2.
func newGroup() (*group, error) {
	var errs error
	for _, g := range []group{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		g.dir = filepath.Join(g.dir, fmt.Sprint("kestrel-lab-", os.Getpid()))
		if err := os.Mkdir(g.dir, 0o700); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(g.dir, g.limitFile)); err != nil {
			errs = errors.Join(errs, err, os.Remove(g.dir))
			continue
		}
		return &g, nil
	}
	return nil, errs
}

// limit bounds the memory of the group, in bytes.
func (g *group) limit(size int) error {
	return os.WriteFile(filepath.Join(g.dir, g.limitFile), []byte(strconv.Itoa(size)), 0)
}

// enter is what a shell must do to be in the group.
func (g *group) enter() string { return "echo $$ > " + filepath.Join(g.dir, "cgroup.procs") }

func (g *group) remove() { os.Remove(g.dir) }
