package processor

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Yield lets waiting goroutines run, and then waiting threads. See sched_yield(2).
func Yield() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it cannot fail, and does not block
}
