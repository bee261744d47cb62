package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// pinThread restricts a thread, 0 for the calling one, to processors. What it starts inherits that.
func pinThread(tid int, cpus ...int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("pin thread to processors %v: %w", cpus, err)
	}
	return nil
}

// pinProcess restricts every thread of this process, and so the ones to come, to processors.
func pinProcess(cpus []int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list own threads: %w", err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return fmt.Errorf("list own threads: %w", err)
		}
		if err := pinThread(tid, cpus...); err != nil {
			return err
		}
	}
	return nil
}
