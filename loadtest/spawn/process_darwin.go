package spawn

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// MaxCPUs is the largest number of processors here.
const MaxCPUs = 1024

// pinThread fails: macOS does not restrict threads to processors.
func pinThread(int, ...int) error { return PinSelf(nil) }

// PinSelf fails: macOS does not restrict threads to processors.
func PinSelf([]int) error {
	return fmt.Errorf("pin to processors: macOS cannot: %w", errors.ErrUnsupported)
}

// Processors returns the processors that a process may run on: all of them.
func Processors(int) ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}

// serverAttr returns how a server is started. It outlives this process, should that be killed.
func serverAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is ours alone
}
