package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// What a server needs beside the bytes of its items, for each of them.
const (
	diskFactor   = 2 // names and checksums of items, files not yet deleted
	memoryFactor = 2 // of a server that keeps all in memory
)

// reserve is what kestrel, as it comes, keeps free of a disk: a twentieth, and at least so much.
const reserve = 1 << 30

// room returns an error if the disk, or with peers the memory, cannot hold a backlog.
func (o *options) room() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(o.setup.Dir, &fs); err != nil {
		return fmt.Errorf("-dir %s: %w", o.setup.Dir, err)
	}
	free, total := int64(fs.Bavail)*int64(fs.Bsize), int64(fs.Blocks)*int64(fs.Bsize)
	need := diskFactor*int64(o.size) + max(reserve, total/20)
	if free < need {
		return fmt.Errorf("a backlog of %v needs %s free in %s, which has %s: "+
			"choose a smaller -size, or another -dir", o.size, figures.Bytes(need), o.setup.Dir,
			figures.Bytes(free))
	}
	if available, err := memoryAvailable(); o.peers && (err != nil || available < o.inMemoryNeeds()) {
		return fmt.Errorf("servers that keep a backlog of %v in memory need %s, and %s are there: "+
			"choose a smaller -size", o.size, figures.Bytes(o.inMemoryNeeds()), figures.Bytes(available))
	}
	return nil
}

// inMemoryNeeds returns what a server may take that keeps the backlog in memory.
func (o *options) inMemoryNeeds() int64 { return memoryFactor * int64(o.size) }

// memoryAvailable returns how much memory programs can still take, in bytes.
func memoryAvailable() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/meminfo names no MemAvailable")
}
