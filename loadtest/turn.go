package loadtest

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// drive sends batches until the window ends and returns when all of them are answered.
func (t *thread) drive(w window) error {
	t.left, t.end, t.outstanding = w.operations, w.end, 0
	now := t.now()
	for i := range t.conns {
		if err := t.send(&t.conns[i], now); err != nil {
			return err
		}
	}
	nextTick := now + tickInterval
	for t.outstanding > 0 {
		now, err := t.turn()
		if err != nil {
			return err
		}
		if now >= nextTick {
			if err := t.tick(now); err != nil {
				return err
			}
			nextTick = now + tickInterval
		}
	}
	return nil
}

// turn waits for events and handles them. It returns the time of its end.
func (t *thread) turn() (time.Duration, error) {
	n, err := t.wait()
	begin := t.now()
	if n == 0 || err != nil {
		return begin, err
	}
	for i := range t.events[:n] {
		if err := t.handle(&t.events[i]); err != nil {
			return begin, err
		}
	}
	end := t.now()
	t.napper.handling = average(t.napper.handling, (end-begin)/time.Duration(n))
	return end, nil
}

// now returns the time since the start of the run.
func (t *thread) now() time.Duration { return time.Since(t.start) }

// tick looks at the stop flag and for batches that are not answered.
func (t *thread) tick(now time.Duration) error {
	if t.stop.Load() {
		return errStopped
	}
	for i := range t.conns {
		c := &t.conns[i]
		if c.count > 0 && now-c.sentAt > t.plan.opts.ReplyWait {
			return fmt.Errorf("connection %d: %w", c.index, ErrStalled)
		}
	}
	return nil
}

// send sends the next batch of a connection that has none in flight, unless the window has ended.
func (t *thread) send(c *conn, now time.Duration) error {
	if t.left == 0 || now >= t.end {
		return nil
	}
	count := int(min(t.left, int64(t.plan.opts.Pipeline)))
	t.left -= int64(count)
	t.outstanding++
	c.prepare(t.plan, count, now)
	return t.flush(c)
}

// flush writes what the kernel takes of a batch; the rest goes when the socket is writable again.
func (t *thread) flush(c *conn) error {
	for len(c.unsent) > 0 {
		n, errno := rawWrite(c.fd, c.unsent)
		switch errno {
		case 0:
			c.unsent = c.unsent[n:]
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			err := fmt.Errorf("connection %d: %w", c.index, os.NewSyscallError("sendto", errno))
			return t.lastWords(c, err)
		}
	}
	return nil
}

// lastWords returns what a server that broke the connection has said before, if it was not a due
// reply, and otherwise err.
func (t *thread) lastWords(c *conn, err error) error {
	if n, _ := rawRead(c.fd, t.buf); n > 0 {
		if _, replyErr := c.receive(t.plan, t.tally, t.buf[:n]); replyErr != nil {
			return replyErr
		}
	}
	return err
}

// handle does what an event asks for.
func (t *thread) handle(event *unix.EpollEvent) error {
	const readable = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	c := &t.conns[event.Fd]
	if len(c.unsent) > 0 {
		if err := t.flush(c); err != nil {
			return err
		}
	}
	if event.Events&readable == 0 {
		return nil
	}
	ended := event.Events&(readable&^unix.EPOLLIN) != 0
	for {
		n, errno := rawRead(c.fd, t.buf)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("connection %d: %w", c.index, os.NewSyscallError("recvfrom", errno))
		case n == 0 && c.count == 0:
			return nil
		case n == 0:
			return fmt.Errorf("connection %d: %d of %d replies: %w", c.index,
				c.repliesWhole(), c.count, io.ErrUnexpectedEOF)
		}
		if err := t.arrived(c, int(event.Fd), t.buf[:n]); err != nil {
			return err
		}
		if n < len(t.buf) && !ended {
			return nil // drained: what arrives later is another event
		}
	}
}

// arrived hands bytes to a connection, conns[i]. When they complete its batch it records the
// latency and sends the next batch.
func (t *thread) arrived(c *conn, i int, chunk []byte) error {
	if c.count == 0 {
		return c.wrong("bytes without a request", chunk, nil)
	}
	done, err := c.receive(t.plan, t.tally, chunk)
	if err != nil || !done {
		return err
	}
	now := t.now()
	latency := now - c.sentAt
	t.napper.latency = average(t.napper.latency, latency)
	if err := t.tally.latency.RecordValue(max(int64(latency), 1)); err != nil {
		return err
	}
	c.count = 0
	t.outstanding--
	c.batches++
	if r := t.plan.opts.Reconnect; r > 0 && c.batches >= r {
		unix.Close(c.fd)
		c.fd = -1
		if err := t.connect(i); err != nil {
			return fmt.Errorf("connection %d: %w", c.index, err)
		}
	}
	return t.send(c, now)
}
