package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
)

// surroundings are what a server is run in, and how it ends.
type surroundings struct {
	config      string // keys that are not of a table
	descriptors int    // limit of open files; 0 for that of the lab
	memoryLimit int64  // memory_limit, bytes
	segmentSize int64  // bytes
	openReads   int    // max_open_transactions
	group       bool   // in a control group of groupMemorySize
	processors  int    // that it may use, and GOMAXPROCS; 0 for all
	delay       string // what strace makes slow, as it words it; "" for nothing
	fault       *sysFault
	stops       bool // ends by SIGTERM, not by kill -9
	replies     int  // that the lanes get at most
}

// groupMemorySize is the memory, in bytes, of the control group of a cycle.
const groupMemorySize = 192 << 20

// String is the surroundings in one line.
func (e *surroundings) String() string {
	said := []string{strings.ReplaceAll(strings.TrimSpace(e.config), "\n", ", ")}
	if e.descriptors > 0 {
		said = append(said, fmt.Sprint("ulimit -n ", e.descriptors))
	}
	if e.group {
		said = append(said, fmt.Sprintf("control group of %d MiB", groupMemorySize>>20))
	}
	if e.processors > 0 {
		said = append(said, fmt.Sprintf("%d processors", e.processors))
	}
	if e.delay != "" {
		said = append(said, e.delay)
	}
	if e.fault != nil {
		said = append(said, e.fault.inject)
	}
	if e.stops {
		said = append(said, "SIGTERM")
	}
	return strings.Join(said, "; ")
}

// mostInspected is how many items a queue has at most when all of them are opened on one connection.
const mostInspected = 6000

// minDescriptors is a limit that every machine of a few processors can start a server with.
const minDescriptors = 100

// drawSurroundings makes up the surroundings of a cycle.
func drawSurroundings(rng *rand.Rand, t *trial) *surroundings {
	pick := func(all ...int64) int64 { return all[rng.IntN(len(all))] }
	e := &surroundings{
		segmentSize: pick(64<<10, 128<<10, 1<<20, 4<<20), memoryLimit: pick(64<<20, 96<<20, 256<<20),
		stops: rng.IntN(3) == 0, replies: 6000, openReads: int(pick(mostInspected, 2*mostInspected, 1_000_000)),
	}
	if rng.IntN(2) == 0 {
		e.descriptors = minDescriptors + rng.IntN(1<<rng.IntN(10))
	}
	if rng.IntN(3) == 0 {
		e.processors = 1 + rng.IntN(2)
	}
	memory := pick(4<<10, 16<<10, 100<<10, 1<<20, 128<<20)
	e.config = fmt.Sprintf("segment_size = %d\njournal_size = %d\nmemory_limit = %d\n"+
		"backlog_compression = %q\nbacklog_cache = %t\nmax_open_transactions = %d\n",
		e.segmentSize, max(1<<20, e.segmentSize*pick(2, 4, 16)), e.memoryLimit,
		[]string{"none", "s2", "zstd"}[rng.IntN(3)], rng.IntN(4) == 0, e.openReads)
	table := fmt.Sprintf("[default]\nmax_memory_size = %d\n", memory)
	switch n := rng.IntN(10); {
	case n < 3:
		e.fault = drawFault(rng)
	case n < 5:
		e.delay = drawDelay(rng)
		e.replies = 400
	case n < 6:
		e.group = true
	}
	e.config += table
	return e
}

// drawFault makes up a fault that comes with some of the calls, or all, and passes.
func drawFault(rng *rand.Rand) *sysFault {
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	inject := pick(
		"openat:error="+pick("EMFILE", "ENFILE", "ENOMEM", "EIO"),
		"openat:error="+pick("EMFILE", "ENFILE", "ENOMEM", "EIO"),
		"accept4:error="+pick("EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"),
		"fdatasync:error=EIO", "fsync:error=EIO", "pwrite64:error="+pick("ENOSPC", "EIO", "ENOMEM"),
		"pread64:error="+pick("EIO", "ENOMEM"), "renameat:error=EIO", "unlinkat:error=EIO",
		"fallocate:error="+pick("ENOSPC", "EIO"), "fcntl:error=EMFILE",
	)
	if every := 1 + rng.IntN(10); every > 1 {
		inject += fmt.Sprintf(":when=1+%d", every)
	}
	return &sysFault{inject: inject}
}

// drawDelay makes up a slow disk.
func drawDelay(rng *rand.Rand) string {
	calls := []string{"fdatasync", "pwrite64", "pread64", "fdatasync,pwrite64,pread64"}[rng.IntN(4)]
	return fmt.Sprintf("%s:delay_exit=%d", calls, 100<<rng.IntN(9)) // µs
}

// launch is how a server is started in the surroundings; leave is called when it has ended.
func (e *surroundings) launch(t *trial) (how launch, leave func(), err error) {
	leave = func() {}
	how = launch{binary: t.binary, dir: t.dir, args: []string{"--config", "lab.toml", "--admin-port", "auto"}}
	var shell []string
	if e.descriptors > 0 {
		shell = append(shell, fmt.Sprint("ulimit -n ", e.descriptors))
	}
	if e.group {
		g, err := newGroup()
		if err == nil {
			err = g.limit(groupMemorySize)
		}
		if err != nil {
			fmt.Fprintf(t.log, "rough: memory control group: NOT DONE HERE: %v\n", err)
			e.group = false
		} else {
			leave, shell = g.remove, append(shell, g.enter())
		}
	}
	if e.processors > 0 {
		how.env = append(how.env, fmt.Sprint("GOMAXPROCS=", e.processors))
		if _, err := exec.LookPath("taskset"); err == nil {
			how.prefix = []string{"taskset", "-c", fmt.Sprintf("0-%d", e.processors-1)}
		}
	}
	if e.delay != "" {
		calls, _, _ := strings.Cut(e.delay, ":")
		how.prefix = append(how.prefix, "strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null",
			"-e", "trace="+calls, "-e", "inject="+e.delay)
	}
	how.shell = strings.Join(shell, "; ")
	return how, leave, nil
}

// tablesOf are the tables of a configuration that the lanes need.
func tablesOf(lanes []*lane, spills []*spillLane) string {
	var b strings.Builder
	config := configOf(lanes)
	b.WriteString(config[strings.Index(config, "["):])
	for _, l := range spills {
		b.WriteString(l.config())
	}
	return b.String()
}
