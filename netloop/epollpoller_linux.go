package netloop

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has the poller that waits with epoll itself.

// maxEvents is how many events one wait returns at most. What is ready beyond them comes with the
// next one: the kernel goes round.
const maxEvents = 256

// epollPoller is a poller that calls epoll itself. A turn is one wait, and a second look if the turn
// waits for the disk.
type epollPoller struct {
	bell
	epoll  int
	events []unix.EpollEvent
	open   bool
}

var _ poller = (*epollPoller)(nil)

func (p *epollPoller) start() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	p.events, p.open = make([]unix.EpollEvent, maxEvents), true
	if err = p.bell.start(); err == nil {
		err = p.control(unix.EPOLL_CTL_ADD, p.bell.fd, unix.EPOLLIN|unix.EPOLLET)
	}
	if err != nil {
		p.close()
	}
	return err
}

func (p *epollPoller) control(op, fd int, events uint32) error {
	return unix.EpollCtl(p.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *epollPoller) add(fd int) error { return p.control(unix.EPOLL_CTL_ADD, fd, readEvents) }
func (p *epollPoller) mute(fd int)      { p.control(unix.EPOLL_CTL_MOD, fd, unix.EPOLLET) }
func (p *epollPoller) unmute(fd int)    { p.control(unix.EPOLL_CTL_MOD, fd, readEvents) }
func (p *epollPoller) remove(fd int)    { p.control(unix.EPOLL_CTL_DEL, fd, 0) }

func (p *epollPoller) run(t turns) error {
	for then := thenWaits; then != thenEnds; then = t.finish() {
		events, err := p.await(then)
		if err != nil {
			return err
		}
		p.report(t, events)
		if t.serveBulk() {
			p.report(t, p.ready())
			t.serveBulk()
		}
	}
	return nil
}

// await returns the events that a turn begins with.
func (p *epollPoller) await(then afterTurn) ([]unix.EpollEvent, error) {
	if then == thenGoesOn {
		return p.ready(), nil
	}
	return p.wait()
}

func (p *epollPoller) report(t turns, events []unix.EpollEvent) {
	for i := range events {
		if fd := int(events[i].Fd); fd == p.bell.fd {
			p.heard()
		} else {
			t.happened(fd, events[i].Events&endEvents != 0)
		}
	}
}

// wait returns what has happened, as soon as there is anything; the slice is valid until the next
// call. An error means that the set is of no use any more.
func (p *epollPoller) wait() ([]unix.EpollEvent, error) {
	if events := p.waitRaw(briefWait); len(events) > 0 {
		return events, nil
	}
	for {
		n, err := unix.EpollWait(p.epoll, p.events, -1)
		if err != unix.EINTR {
			return p.events[:max(n, 0)], err
		}
	}
}

// ready is wait that returns nothing rather than wait.
func (p *epollPoller) ready() []unix.EpollEvent { return p.waitRaw(0) }

// waitRaw waits for events, for millis milliseconds at most.
//
// It is a raw system call. The scheduler does not learn that the goroutine waits, and so does not take
// its processor away. That would cost more than the wait is worth while events keep coming. To stop
// the world the scheduler sends a signal, which ends the call.
func (p *epollPoller) waitRaw(millis int) []unix.EpollEvent {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(millis), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

func (p *epollPoller) close() {
	p.bell.close()
	if p.open {
		unix.Close(p.epoll)
		p.open = false
	}
}
