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

// maxEvents is how many events one wait returns at most.
const maxEvents = 256

// eventSet is an epoll set of connections. It belongs to one thread; close is for one that open has
// failed for, too.
//
// Its events are edge-triggered: a connection is reported once per arrival, and writability costs nothing
// unless a write was cut short.
type eventSet struct {
	epoll  int
	events [maxEvents]unix.EpollEvent
}

func (s *eventSet) open() (err error) {
	s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return os.NewSyscallError("epoll_create1", err)
}

func (s *eventSet) close() {
	if s.epoll > 0 {
		unix.Close(s.epoll)
	}
}

// add has events of fd be those of a connection, until fd is closed.
func (s *eventSet) add(fd, conn int) error {
	err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     int32(conn), // user data: not the descriptor, which may be reused
	})
	return os.NewSyscallError("epoll_ctl", err)
}

// at returns what an event of the last wait says: its connection, whether there is something to read, and whether the
// peer sends no more.
func (s *eventSet) at(i int) (conn int, readable, ended bool) {
	const ends = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	e := &s.events[i]
	return int(e.Fd), e.Events&(unix.EPOLLIN|ends) != 0, e.Events&ends != 0
}

// wait waits for events at most the given time, and returns how many there are. With hold, it keeps the
// scheduler's P while it waits: then the runtime's monitor thread has nothing to take back and sleeps too.
// The runtime can still interrupt the wait with a signal, so all this asks for is more Ps than such threads.
func (s *eventSet) wait(most time.Duration, hold bool) (int, error) {
	var r uintptr
	var errno unix.Errno
	ms := uintptr(most.Milliseconds())
	if hold {
		r, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll),
			uintptr(unsafe.Pointer(&s.events)), maxEvents, ms, 0, 0)
	} else {
		r, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll),
			uintptr(unsafe.Pointer(&s.events)), maxEvents, ms, 0, 0)
	}
	switch errno {
	case 0:
		return int(r), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("epoll_pwait", errno)
}

// await waits until there is an event, or the time has passed, to the nanosecond: what wait cannot. Hold
// is as for wait.
func (s *eventSet) await(d time.Duration, hold bool) error {
	poll := [1]unix.PollFd{{Fd: int32(s.epoll), Events: unix.POLLIN}}
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

// hurry has the kernel run the calling thread, when it wakes, before one that takes longer slices of a processor that
// they share. So it sends what is due on time, and not after a slice of another load. Linux takes that from 6.12 on;
// where it does not, how late a thread is shows in the result.
func hurry() {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil {
		attr.Runtime = uint64(100 * time.Microsecond) // the least there is
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// pinThread restricts the calling thread to one processor.
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}

// newSocket returns a stream socket that does not block.
func newSocket(family int) (fd int, err error) {
	return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// bindLate has connect choose the port of a socket, and not bind. So it may be any port that is free towards
// the target.
func bindLate(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
}
