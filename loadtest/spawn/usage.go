package spawn

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the user and system time that a process has used so far, over all its
// threads, those that have ended included. It reads the CPU clock of the process, which counts the
// scheduler's nanoseconds: the same as the sum over /proc/PID/task/*/schedstat, but in one call,
// up to date for threads that run, and without losing threads that end.
func CPUTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's per-process clock ids
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Resident returns the resident set of a process, in bytes.
func Resident(pid int) (int64, error) {
	const path = "/proc/%d/statm" // in pages: size, resident, …
	b, err := os.ReadFile(fmt.Sprintf(path, pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of process %d is %q", pid, b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("statm of process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}
