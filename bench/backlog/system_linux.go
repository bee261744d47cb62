package main

import "golang.org/x/sys/unix"

// occupy restricts the calling thread to a processor, and reports whether others may take it away.
func occupy(cpu int) (shared bool, err error) {
	var cpus unix.CPUSet
	cpus.Set(cpu)
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		return false, err
	}
	attr, err := unix.SchedGetAttr(0, 0)
	return err != nil || attr.Policy != unix.SCHED_FIFO, nil
}

// nanosleep sleeps, or less if there is a signal.
func nanosleep(d *unix.Timespec) { unix.Nanosleep(d, nil) }
