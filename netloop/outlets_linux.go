package netloop

import (
	"time"

	"golang.org/x/sys/unix"
)

// outlets are the sockets that the drainer waits for, until they take bytes.
type outlets struct {
	epoll  int
	event  int // descriptor that wake writes to
	events [64]unix.EpollEvent
	fds    []int
}

func openOutlets() (o *outlets, err error) {
	o = &outlets{}
	if o.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if o.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(o.epoll)
		return nil, err
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(o.event)}
	if err = unix.EpollCtl(o.epoll, unix.EPOLL_CTL_ADD, o.event, &ev); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// arm has wait report fd once. If again is set, it has been armed before, and not been forgotten. It
// fails for a descriptor that is closed, of which its loop will hear.
func (o *outlets) arm(fd int, again bool) {
	op := unix.EPOLL_CTL_ADD
	if again {
		op = unix.EPOLL_CTL_MOD
	}
	unix.EpollCtl(o.epoll, op, fd, &unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(fd)})
}

// forget ends arm, before fd is closed.
func (o *outlets) forget(fd int) { unix.EpollCtl(o.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// wait returns the sockets that take bytes, or have failed, and waits for them at most so long. The slice
// is valid until the next call. One goroutine at a time may call it.
func (o *outlets) wait(most time.Duration) ([]int, error) {
	n, err := unix.EpollWait(o.epoll, o.events[:], int(most/time.Millisecond))
	if err != nil && err != unix.EINTR {
		return nil, err
	}
	o.fds = o.fds[:0]
	for _, ev := range o.events[:max(n, 0)] {
		o.fds = append(o.fds, int(ev.Fd))
	}
	return o.fds, nil
}

// wake ends every wait from now on.
func (o *outlets) wake() { unix.Write(o.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (o *outlets) close() {
	unix.Close(o.event)
	unix.Close(o.epoll)
}
