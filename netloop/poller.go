package netloop

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxEvents is how many events one wait returns at most. What is ready beyond them comes with the
// next one: the kernel goes round.
const maxEvents = 256

// briefWait is, in milliseconds, how long a loop without events keeps its processor: less than the
// 10 after which the scheduler would want it back.
const briefWait = 8

// poller is the epoll set of one event loop, and a bell that ends its wait. It belongs to the loop's
// goroutine, but for ring.
type poller struct {
	epoll  int
	events []unix.EpollEvent

	mu   sync.Mutex
	bell int  // event descriptor; guarded by mu
	open bool // guarded by mu
}

func (p *poller) start() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if p.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(p.epoll)
		return err
	}
	// Edge-triggered, every ring ends one wait, and nobody has to read the descriptor.
	if err := p.control(unix.EPOLL_CTL_ADD, p.bell, unix.EPOLLIN|unix.EPOLLET); err != nil {
		unix.Close(p.bell)
		unix.Close(p.epoll)
		return err
	}
	p.events, p.open = make([]unix.EpollEvent, maxEvents), true
	return nil
}

func (p *poller) control(op, fd int, events uint32) error {
	return unix.EpollCtl(p.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// add has wait tell when there is something to be read from fd, or it has ended, for as long as
// that is so.
func (p *poller) add(fd int) error { return p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) }

// mute has wait tell of fd when it has ended, and not when there is something to be read; unmute ends
// that.
func (p *poller) mute(fd int)   { p.control(unix.EPOLL_CTL_MOD, fd, 0) }
func (p *poller) unmute(fd int) { p.control(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN) }

// remove ends what add has begun. It must come before fd is closed: a copy of it may live on.
func (p *poller) remove(fd int) { p.control(unix.EPOLL_CTL_DEL, fd, 0) }

// ring ends the wait that is under way, or the next one. Any goroutine may call it, at any time.
func (p *poller) ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open { // or the descriptor is somebody else's
		one := [8]byte{1}
		unix.Write(p.bell, one[:]) // fails only after 2^64 rings
	}
}

// wait returns what has happened, as soon as there is anything; the slice is valid until the next
// call. An error means that the set is of no use any more.
func (p *poller) wait() ([]unix.EpollEvent, error) {
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
func (p *poller) ready() []unix.EpollEvent { return p.waitRaw(0) }

// waitRaw waits for events, but no longer than so many milliseconds.
//
// It is a raw system call. The scheduler is not told that the goroutine waits, and so does not take
// the processor away from it, which costs more than the wait is worth as long as events keep
// coming. To stop the world it sends a signal, which ends the call.
func (p *poller) waitRaw(millis int) []unix.EpollEvent {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(millis), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		unix.Close(p.bell)
		unix.Close(p.epoll)
		p.open = false
	}
}
