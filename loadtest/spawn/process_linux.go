package spawn

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxCPUs is the size of the kernel's affinity mask here.
const MaxCPUs = 1024

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

// PinSelf restricts every thread of this process, and so the ones to come, to processors. It
// fixes GOMAXPROCS at no less than one more than there are processors. Go's runtime looks every
// second how many it may use. The threads of a load generator, and the goroutine that waits for
// them, would otherwise wait for each other.
func PinSelf(cpus []int) error {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(cpus)+1))
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list own threads: %w", err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return fmt.Errorf("list own threads: %w", err)
		}
		if err := pinThread(tid, cpus...); err != nil && !errors.Is(err, unix.ESRCH) { // that thread has ended
			return err
		}
	}
	return nil
}

// Processors returns the processors that a process may run on, 0 for this one.
func Processors(pid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return nil, fmt.Errorf("affinity of process %d: %w", pid, err)
	}
	var cpus []int
	for cpu := range MaxCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// serverAttr returns how a server is started.
func serverAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // should this process be killed
		Setpgid:   true,            // an interrupt at the terminal is ours alone
	}
}
