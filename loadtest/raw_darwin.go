package loadtest

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// What raw_linux.go does, with the calls that macOS has. They tell Go's scheduler, so a request costs the
// generator more here.

// rawRead reads from a non-blocking descriptor. It returns 0, 0 at the end of the stream.
func rawRead(fd int, buf []byte) (n int, errno unix.Errno) { return call(unix.Read(fd, buf)) }

// rawWrite writes to a non-blocking socket. Go's runtime passes over SIGPIPE.
func rawWrite(fd int, buf []byte) (n int, errno unix.Errno) { return call(unix.Write(fd, buf)) }

func call(n int, err error) (int, unix.Errno) {
	if errno, ok := err.(unix.Errno); ok {
		return 0, errno
	}
	return n, 0
}

// maxEvents is how many events one wait returns at most.
const maxEvents = 256

// eventSet is a kqueue of connections. It belongs to one thread; close is for one that open has failed
// for, too. Its events are edge-triggered.
type eventSet struct {
	kqueue int
	conns  map[int]int // by descriptor
	events [maxEvents]unix.Kevent_t
}

func (s *eventSet) open() (err error) {
	s.conns = map[int]int{}
	s.kqueue, err = unix.Kqueue()
	return os.NewSyscallError("kqueue", err)
}

func (s *eventSet) close() {
	if s.kqueue > 0 {
		unix.Close(s.kqueue)
	}
}

// add has events of fd be those of a connection, until fd is closed.
func (s *eventSet) add(fd, conn int) error {
	var changes [2]unix.Kevent_t
	unix.SetKevent(&changes[0], fd, unix.EVFILT_READ, unix.EV_ADD|unix.EV_CLEAR)
	unix.SetKevent(&changes[1], fd, unix.EVFILT_WRITE, unix.EV_ADD|unix.EV_CLEAR)
	s.conns[fd] = conn
	_, err := unix.Kevent(s.kqueue, changes[:], nil, nil)
	return os.NewSyscallError("kevent", err)
}

// at returns what an event of the last wait says: its connection, whether there is something to read, and whether the
// peer sends no more.
func (s *eventSet) at(i int) (conn int, readable, ended bool) {
	e := &s.events[i]
	ended = e.Flags&(unix.EV_EOF|unix.EV_ERROR) != 0
	return s.conns[int(e.Ident)], ended || e.Filter == unix.EVFILT_READ, ended
}

// wait waits for events at most the given time, and returns how many there are. Hold is of no consequence.
func (s *eventSet) wait(most time.Duration, _ bool) (int, error) {
	ts := unix.NsecToTimespec(int64(most))
	n, err := unix.Kevent(s.kqueue, nil, s.events[:], &ts)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, os.NewSyscallError("kevent", err)
}

// await waits until there is an event, or the time has passed. Hold is of no consequence.
func (s *eventSet) await(d time.Duration, _ bool) error {
	poll := []unix.PollFd{{Fd: int32(s.kqueue), Events: unix.POLLIN}}
	_, err := unix.Poll(poll, int(d.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return os.NewSyscallError("poll", err)
}

// nap sleeps for about the given time.
func nap(d time.Duration) { time.Sleep(d) }

// setTimerSlack does nothing: macOS has no such setting.
func setTimerSlack() error { return nil }

// hurry does nothing: macOS has no such setting.
func hurry() {}

// pinThread fails: macOS does not restrict threads to processors.
func pinThread(int) error { return fmt.Errorf("macOS cannot: %w", errors.ErrUnsupported) }

// newSocket returns a stream socket that does not block.
func newSocket(family int) (fd int, err error) {
	if fd, err = unix.Socket(family, unix.SOCK_STREAM, 0); err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	if err = unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// bindLate does nothing: macOS chooses the port when the socket is bound.
func bindLate(int) error { return nil }
