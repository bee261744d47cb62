package loadtest

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// greet does the exchange that connections of some protocols begin with.
func (t *thread) greet(c *conn) error {
	g, ok := c.group.protocol.(greeter)
	if !ok {
		return nil
	}
	out := g.appendGreeting(nil, string(c.name), c.number, c.group.Group)
	if len(out) == 0 {
		return nil
	}
	deadline := time.Now().Add(t.run.opts.ReplyWait)
	for len(out) > 0 {
		n, errno := rawWrite(c.fd, out)
		switch errno {
		case 0:
			out = out[n:]
		case unix.EAGAIN, unix.EINTR:
			if err := awaitReady(c.fd, unix.POLLOUT, deadline); err != nil {
				return err
			}
		default:
			return os.NewSyscallError("sendto", errno)
		}
	}
	var in []byte
	for {
		n, errno := rawRead(c.fd, t.buf)
		switch {
		case errno == unix.EAGAIN, errno == unix.EINTR:
			if err := awaitReady(c.fd, unix.POLLIN, deadline); err != nil {
				return err
			}
			continue
		case errno != 0:
			return os.NewSyscallError("recvfrom", errno)
		case n == 0:
			return fmt.Errorf("greeting: %w", io.ErrUnexpectedEOF)
		}
		in = append(in, t.buf[:n]...)
		answer, err := g.greeted(in, c.group.Group)
		if err != nil {
			return err
		}
		if answer > 0 {
			return t.unasked(c, in[answer:])
		}
	}
}

// awaitReady waits until a descriptor is ready, or the deadline.
func awaitReady(fd int, events int16, deadline time.Time) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(poll, int(max(time.Until(deadline), time.Millisecond).Milliseconds()))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return os.NewSyscallError("poll", unix.ETIMEDOUT)
		default:
			return nil
		}
	}
}
