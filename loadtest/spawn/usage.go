package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the user and system time that a process has used so far, over all its threads, those that have ended
// included. It reads the CPU clock of the process, which counts the scheduler's nanoseconds. That is the sum over
// /proc/PID/task/*/schedstat, but in one call, up to date for threads that run, and without losing threads that end.
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

// Peak returns the largest resident set, in bytes, that a process has had since it was executed, or
// since ResetPeak. The kernel keeps that figure, so no moment is missed.
func Peak(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("status of process %d names no VmHWM", pid)
}

// ResetPeak has Peak begin anew, with what is resident now.
func ResetPeak(pid int) error {
	const resetPeak = "5" // see proc(5), clear_refs
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(resetPeak), 0)
}

// DiskUsed returns the space that the files of a directory take on their disk, in bytes. Files that
// vanish meanwhile are passed over.
func DiskUsed(dir string) (used int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var st unix.Stat_t
			if err = unix.Lstat(path, &st); err == nil {
				used += st.Blocks * 512
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return used, err
}
