package netloop

import (
	"time"

	"golang.org/x/sys/unix"
)

// outlets are the sockets that the drainer waits for, until they take bytes.
type outlets struct {
	kqueue int
	events [64]unix.Kevent_t
	fds    []int
}

// wakeIdent names the event of wake, among those that are no descriptor's.
const wakeIdent = 0

func openOutlets() (o *outlets, err error) {
	o = &outlets{}
	if o.kqueue, err = unix.Kqueue(); err != nil {
		return nil, err
	}
	unix.CloseOnExec(o.kqueue)
	if err = o.change(wakeIdent, unix.EVFILT_USER, unix.EV_ADD, 0); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *outlets) change(ident, filter, flags int, fflags uint32) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, ident, filter, flags)
	ev.Fflags = fflags
	_, err := unix.Kevent(o.kqueue, []unix.Kevent_t{ev}, nil, nil)
	return err
}

// arm has wait report fd once. It fails for a descriptor that is closed, of which its loop will hear.
func (o *outlets) arm(fd int, _ bool) {
	o.change(fd, unix.EVFILT_WRITE, unix.EV_ADD|unix.EV_ONESHOT, 0)
}

// forget ends arm, before fd is closed.
func (o *outlets) forget(fd int) { o.change(fd, unix.EVFILT_WRITE, unix.EV_DELETE, 0) }

// wait returns the sockets that take bytes, or have failed, and waits for them at most so long. The slice
// is valid until the next call. One goroutine at a time may call it.
func (o *outlets) wait(most time.Duration) ([]int, error) {
	ts := unix.NsecToTimespec(int64(most))
	n, err := unix.Kevent(o.kqueue, nil, o.events[:], &ts)
	if err != nil && err != unix.EINTR {
		return nil, err
	}
	o.fds = o.fds[:0]
	for _, ev := range o.events[:max(n, 0)] {
		if ev.Filter == unix.EVFILT_WRITE {
			o.fds = append(o.fds, int(ev.Ident))
		}
	}
	return o.fds, nil
}

// wake ends every wait from now on.
func (o *outlets) wake() { o.change(wakeIdent, unix.EVFILT_USER, 0, unix.NOTE_TRIGGER) }

func (o *outlets) close() { unix.Close(o.kqueue) }
