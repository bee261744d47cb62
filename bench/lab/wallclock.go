package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// clockVariable names the file, in the environment of a server, that its clock is stepped by.
const clockVariable = "KESTREL_LAB_CLOCK"

// clockEdits give a server a clock that the lab can set while it runs. Go's own time.Now adds as many seconds as a word
// says that both have mapped, to the wall clock alone. The monotonic clock, which is part of what time.Now returns, and
// timers go on as they do when a machine's clock is set.
func clockEdits(ctx context.Context) ([]edit, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "sys_unix.go")
	return []edit{
		{filepath.Join(filepath.Dir(file), "time.go"),
			"	sec, nsec, mono := runtimeNow()\n",
			"	sec, nsec, mono := runtimeNow()\n	sec += atomic.LoadInt64(labStep)\n"},
		{filepath.Join(filepath.Dir(file), "time.go"),
			"import (\n", "import (\n	\"sync/atomic\"\n"},
		{file, "import (\n", "import (\n	\"unsafe\"\n"},
		{file, "// for testing: whatever interrupts a sleep\n", `var labStep = mapLabStep()

func mapLabStep() *int64 {
	path, found := syscall.Getenv("` + clockVariable + `")
	if !found {
		return new(int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	syscall.Close(fd)
	return (*int64)(unsafe.Pointer(&b[0]))
}

// for testing: whatever interrupts a sleep
`},
	}, nil
}

// wallClock is the clock of servers built with clockEdits, and what it has been set to.
type wallClock struct {
	path string
	word []byte // mapped

	mu    sync.Mutex
	steps []clockStep // oldest first, one at least; guarded by mu
}

// clockStep is a time from which a server's clock may have differed from the lab's. It is off by so much, for certain
// from set until the next step begins.
type clockStep struct {
	begun, set time.Time
	off        time.Duration // whole seconds
}

// clockSlack is for how long a server may act on a time that it has looked up.
const clockSlack = 500 * time.Millisecond

func newWallClock(dir string) (*wallClock, error) {
	c := &wallClock{path: filepath.Join(dir, "clock"), steps: make([]clockStep, 1)}
	f, err := os.Create(c.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(8); err != nil {
		return nil, err
	}
	c.word, err = syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return c, err
}

func (c *wallClock) close() error { return syscall.Munmap(c.word) }

// set steps the clock, so that it is off by as much. One goroutine at a time may call it.
func (c *wallClock) set(off time.Duration) {
	off = off.Truncate(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	step := clockStep{begun: time.Now(), off: off}
	atomic.StoreInt64((*int64)(unsafe.Pointer(&c.word[0])), int64(off/time.Second))
	step.set = time.Now()
	c.steps = append(c.steps, step)
}

// off is by how much the clock is off.
func (c *wallClock) off() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps[len(c.steps)-1].off
}

// times is a wallTimes.
func (c *wallClock) times(from, to time.Time) (earliest, latest time.Time) {
	from, to = from.Add(-clockSlack), to.Add(clockSlack)
	c.mu.Lock()
	defer c.mu.Unlock()
	until := to // when the step at hand has ended for certain
	for i := len(c.steps) - 1; i >= 0 && !until.Before(from); i-- {
		st := c.steps[i]
		if st.begun.After(to) {
			continue
		}
		begun := st.begun
		if begun.Before(from) {
			begun = from
		}
		if first := begun.Add(st.off); earliest.IsZero() || first.Before(earliest) {
			earliest = first
		}
		if last := until.Add(st.off); latest.IsZero() || last.After(latest) {
			latest = last
		}
		if st.set.Before(until) {
			until = st.set
		}
	}
	return earliest, latest
}

// stepAround steps the clock at random, forward and back, until stop is closed.
func (c *wallClock) stepAround(rng *rand.Rand, stop <-chan struct{}) {
	for {
		c.set(drawOffset(rng))
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(1<<rng.IntN(12))) * time.Millisecond):
		}
	}
}

// drawOffset makes up by how much the clock is off: seconds, hours or days, fast or slow.
func drawOffset(rng *rand.Rand) time.Duration {
	unit := []time.Duration{time.Second, time.Hour, 24 * time.Hour}[rng.IntN(3)]
	return unit * time.Duration(rng.IntN(61)-30)
}
