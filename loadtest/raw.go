package loadtest

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below enter the kernel without telling the Go scheduler, which spares what that costs
// twice per request. They may be used where the call returns at once.

// rawRead reads from a non-blocking descriptor. It returns 0, 0 at the end of the stream.
func rawRead(fd int, buf []byte) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// rawWrite writes to a non-blocking socket. It raises no SIGPIPE.
func rawWrite(fd int, buf []byte) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// epollWait waits for events at most the given time. With hold, it keeps the scheduler's P while it
// waits: then the runtime's monitor thread has nothing to take back and sleeps too. The runtime can
// still interrupt the wait with a signal, so all this asks for is more Ps than such threads.
func epollWait(epoll int, events []unix.EpollEvent, wait time.Duration, hold bool) (int, error) {
	var r uintptr
	var errno unix.Errno
	ms := uintptr(wait.Milliseconds())
	if hold {
		r, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
			uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), ms, 0, 0)
	} else {
		r, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
			uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), ms, 0, 0)
	}
	switch errno {
	case 0:
		return int(r), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("epoll_pwait", errno)
}

// pollFor waits until a descriptor is readable, or the time has passed, to the nanosecond: what
// epoll_pwait cannot. Hold is as for epollWait.
func pollFor(fd int, d time.Duration, hold bool) error {
	poll := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	ts := unix.NsecToTimespec(int64(d))
	var errno unix.Errno
	if hold {
		_, _, errno = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1,
			uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	} else {
		_, _, errno = unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1,
			uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	}
	if errno != 0 && errno != unix.EINTR {
		return os.NewSyscallError("ppoll", errno)
	}
	return nil
}

// nap sleeps for about the given time, less than a second, or until a signal.
func nap(d time.Duration) {
	ts := unix.Timespec{Nsec: int64(d)}
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// setTimerSlack makes the calling thread's sleeps end on time, not up to 50 µs late.
func setTimerSlack() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0))
}

// hurry has the kernel run the calling thread, when it wakes, before one that takes longer slices of
// a processor that they share: it sends what is due on time, not after a slice of another load's.
// Linux takes that from 6.12 on; where it does not, how late a thread is shows in the result.
func hurry() {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil {
		attr.Runtime = uint64(100 * time.Microsecond) // the least there is
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// cpuTime returns the processor time that a CPU clock of the kernel shows. Unlike getrusage, whose
// user and system parts are estimates, it is exact to the scheduler's nanoseconds.
func cpuTime(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic("loadtest: clock_gettime: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// pinThread restricts the calling thread to one processor.
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}
