package netloop

import "golang.org/x/sys/unix"

// EventLoops returns what event loops can wait with on this system: values of Options.EventLoop.
func EventLoops() []string { return []string{EventLoopGnet, EventLoopEpoll} }

// newPoller returns the poller of one loop.
func (o Options) newPoller() poller {
	if o.EventLoop == EventLoopEpoll {
		return &epollPoller{}
	}
	return &gnetPoller{}
}

// What a poller asks of epoll, and what it makes of the answer.
const (
	readEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	failEvents = unix.EPOLLHUP | unix.EPOLLERR
	endEvents  = unix.EPOLLRDHUP | failEvents
)

// briefWait is, in milliseconds, how long a loop without events keeps its processor: less than the
// 10 after which the scheduler would want it back.
const briefWait = 8

// openBell returns an event descriptor. A write to it fails only after 2^64 rings.
func openBell() (fd, to int, err error) {
	fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	return fd, fd, err
}
