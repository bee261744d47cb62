package loadtest

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time that a CPU clock of the kernel shows. Unlike getrusage, whose
// user and system parts are estimates, it is exact to the scheduler's nanoseconds.
func cpuTime(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic("loadtest: clock_gettime: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
