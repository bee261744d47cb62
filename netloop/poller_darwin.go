package netloop

import (
	"errors"

	"golang.org/x/sys/unix"
)

// EventLoops returns what event loops can wait with on this system: values of Options.EventLoop.
func EventLoops() []string { return []string{EventLoopGnet} }

// newPoller returns the poller of one loop.
func (o Options) newPoller() poller { return &gnetPoller{} }

// openBell returns the ends of a pipe.
func openBell() (fd, to int, err error) {
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return -1, -1, err
	}
	for _, end := range ends {
		unix.CloseOnExec(end)
		err = errors.Join(err, unix.SetNonblock(end, true))
	}
	if err != nil {
		return -1, -1, errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
	}
	return ends[0], ends[1], nil
}
