package loadtest

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// drive sends batches until the window ends and returns when all of them are answered.
func (t *thread) drive() error {
	t.active, t.outstanding, t.hungry, t.interval = len(t.conns), 0, 0, 0
	now := t.now()
	t.progress, t.progressAt = t.run.received(), now
	t.start(now)
	for i := range t.conns {
		c := &t.conns[i]
		c.abandoned, c.left = false, c.quota(t.window.warm)
		if c.group.Hits || c.group.Drain {
			t.hungry++
		}
	}
	t.held = t.window.headStart
	for i := range t.conns {
		if t.held && t.conns[i].group.Operation.Puts() {
			continue
		}
		if err := t.next(&t.conns[i], now); err != nil {
			return err
		}
	}
	nextTick := now + tickInterval
	for t.active > 0 {
		now, err := t.turn()
		if err != nil {
			return err
		}
		if t.held && t.run.released.Load() {
			if err := t.release(now); err != nil {
				return err
			}
		}
		if now >= nextTick {
			if err := t.tick(now); err != nil {
				return err
			}
			nextTick = now + tickInterval
		}
	}
	for i := range t.pacers {
		t.tally.unsent += t.pacers[i].left(t.now())
	}
	return nil
}

// start sets the time at which the window begins.
func (t *thread) start(now time.Duration) {
	t.begin = now
	t.ends = t.ends[:0]
	for _, length := range t.window.lengths {
		end := time.Duration(unbounded)
		if length > 0 {
			end = now + length
		}
		t.ends = append(t.ends, end)
	}
	for i := range t.pacers {
		p := &t.pacers[i]
		p.start(now, t.ends[p.group.index], t.random)
	}
}

// release starts the connections that waited for the window to begin.
func (t *thread) release(now time.Duration) error {
	t.held = false
	t.start(now)
	t.cpuBefore = cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
	for i := range t.conns {
		if c := &t.conns[i]; c.group.Operation.Puts() {
			if err := t.next(c, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// quota returns how many operations a window has for the connection.
func (c *conn) quota(warm bool) int64 {
	n := c.group.Operations
	if warm {
		n = c.group.WarmupOperations
	}
	if n == 0 {
		return unbounded
	}
	connections := int64(c.group.Connections)
	share := n / connections
	if int64(c.index) < n%connections {
		share++
	}
	return share
}

// turn waits for events and handles them, and sends what is due. It returns the time of its end.
func (t *thread) turn() (time.Duration, error) {
	n, err := t.wait()
	begin := t.now()
	if err != nil {
		return begin, err
	}
	for i := range n {
		if err := t.handle(t.events.at(i)); err != nil {
			return begin, err
		}
	}
	end := begin
	if n > 0 {
		end = t.now()
		t.napper.handling = average(t.napper.handling, (end-begin)/time.Duration(n))
	}
	if len(t.pacers) > 0 {
		return end, t.dispatch(end)
	}
	return end, nil
}

// now returns the time since the start of the run.
func (t *thread) now() time.Duration { return time.Since(t.run.start) }

// tick looks at the stop flag, for batches that are not answered, for items that do not come, and
// for the end of an interval.
func (t *thread) tick(now time.Duration) error {
	if t.run.stop.Load() {
		return errStopped
	}
	for i := range t.conns {
		c := &t.conns[i]
		switch {
		case c.count == 0:
		case t.waits(c) && t.over(c, now):
			if err := t.abandon(c, now); err != nil {
				return err
			}
		case c.group.endless && c.kind(0).reads():
		case now-c.sentAt > t.run.opts.ReplyWait+c.group.Wait:
			return fmt.Errorf("queue %q, %v connection %d: %w", c.name, c.group.Operation, c.index,
				ErrStalled)
		}
	}
	if err := t.starving(now); err != nil {
		return err
	}
	if t.run.opts.OnInterval == nil || t.window.warm {
		return nil
	}
	if k := int((now - t.begin) / t.run.opts.Interval); k > t.interval && !t.held {
		t.run.reports <- report{thread: t.index, interval: k, tally: t.tally}
		t.interval = k
		t.tally = t.run.newTally(t)
	}
	return nil
}

// waits reports whether the connection waits for an item, maybe in vain.
func (t *thread) waits(c *conn) bool {
	g := c.group
	return c.kind(0).reads() && (g.endless || g.Drain && g.Wait > 0 && !t.window.warm)
}

// abandon ends the window for a connection that waits for items of which there will be none. Its
// request stays unanswered, or its answer comes too late to matter.
func (t *thread) abandon(c *conn, now time.Duration) error {
	c.abandoned = true
	if c.group.endless {
		c.early = append(c.early, c.tail...)
	}
	c.count = 0
	t.outstanding--
	c.open.reset()
	return t.leave(c, now)
}

// starving returns a *LostError if the thread's consumers are owed items that do not come.
func (t *thread) starving(now time.Duration) error {
	ledger := t.run.opts.Ledger
	received := t.run.received()
	if received != t.progress || t.hungry == 0 || ledger == nil || t.run.producing.Load() > 0 {
		t.progress, t.progressAt = received, now
		return nil
	}
	if now-t.progressAt < t.run.opts.DrainWait {
		return nil
	}
	if err := ledger.Check(); err != nil {
		return err
	}
	return fmt.Errorf("loadtest: consumers expect more items than were put: %w", ErrStalled)
}

// next has a connection without a batch in flight do what comes next in the window.
func (t *thread) next(c *conn, now time.Duration) error {
	c.skip()
	if !t.mayGo(c, now) {
		return t.leave(c, now)
	}
	g := c.group
	limit := int64(g.Pipeline)
	if g.Rate > 0 {
		if c.step == 0 {
			c.idleAt = now
			t.pacers[c.pacer].idle.push(int32(c.slot))
			return nil
		}
		limit = int64(len(g.cycle) - c.step)
	} else if c.step != 0 && t.over(c, now) {
		limit = min(limit, int64(len(g.cycle)-c.step))
	}
	if c.left > 0 {
		limit = min(limit, c.left)
	} else {
		limit = int64(len(g.cycle) - c.step)
	}
	c.due = c.due[:0]
	return t.fly(c, c.size(int(limit)), now, now)
}

// over reports whether no more cycles of the connection are to begin.
func (t *thread) over(c *conn, now time.Duration) bool {
	return now >= t.ends[c.group.index] || c.group.Drain && !t.window.warm && t.run.drained()
}

// mayGo reports whether the connection has more to do in the window.
func (t *thread) mayGo(c *conn, now time.Duration) bool {
	return c.left > 0 && (c.step != 0 || !t.over(c, now)) || c.mustFinish()
}

// mustFinish reports whether reliable reads are to be confirmed, though nothing is left to be done.
func (c *conn) mustFinish() bool {
	g := c.group
	next := g.cycle[c.step]
	return c.step != 0 && (g.Hits || g.stepwise) && (next == confirmRequest || next == confirmAllRequest)
}

// leave ends the window for a connection, after a confirm of what it has open.
func (t *thread) leave(c *conn, now time.Duration) error {
	g := c.group
	if g.Operation == CloseOpen && c.open.len() > 0 && t.run.opts.Protocol == Memcache {
		c.step = 1
		return t.fly(c, 1, now, now)
	}
	t.active--
	if g.Rate > 0 && c.left <= 0 {
		t.pacers[c.pacer].spent = true
	}
	if g.Operation.Puts() {
		t.run.producing.Add(-1)
	}
	if g.Hits || g.Drain {
		t.hungry--
	}
	return nil
}

// fly sends a batch of count requests, the first of which is due at the given time.
func (t *thread) fly(c *conn, count int, now, due time.Duration) error {
	if !c.group.Hits {
		c.left -= int64(count)
	}
	t.outstanding++
	for {
		c.prepare(count, now, t.run.start.Add(due))
		if err := t.send(c); err != nil {
			return err
		}
		if c.group.Kill == 0 || c.kind(0) != closeOpenRequest || t.random.Float64() >= c.group.Kill {
			return t.catchUp(c)
		}
		if c.lastOpen {
			c.consumer.expect(c.last, false)
			c.lastOpen = false
		}
		if err := t.reconnect(c.slot); err != nil {
			return err
		}
	}
}

// unasked takes bytes that arrived while no request was on the way. A server that pushes may send
// items then, others only what means nothing.
func (t *thread) unasked(c *conn, chunk []byte) error {
	if c.group.endless {
		c.early = append(c.early, chunk...)
		return nil
	}
	if c.abandoned {
		return nil
	}
	for len(chunk) > 0 {
		got, n := c.group.protocol.parseReply(chunk, &c.now)
		if got.outcome != noise {
			return c.wrong("bytes without a request", chunk, nil)
		}
		chunk = chunk[n:]
	}
	return nil
}

// catchUp takes what a server has sent unasked before the request that it now answers.
func (t *thread) catchUp(c *conn) error {
	if len(c.early) == 0 {
		return nil
	}
	chunk := c.early
	c.early = nil
	return t.arrived(c, chunk)
}

// send writes what the kernel takes of a batch; the rest goes when the socket is writable again.
func (t *thread) send(c *conn) error {
	for len(c.unsent) > 0 {
		n, errno := rawWrite(c.fd, c.unsent)
		switch errno {
		case 0:
			c.unsent = c.unsent[n:]
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			err := fmt.Errorf("%v connection %d: %w", c.group.Operation, c.index,
				os.NewSyscallError("sendto", errno))
			return t.lastWords(c, err)
		}
	}
	return nil
}

// lastWords returns what a server that broke the connection has said before, if it was not a due
// reply, and otherwise err.
func (t *thread) lastWords(c *conn, err error) error {
	if n, _ := rawRead(c.fd, t.buf); n > 0 {
		if _, replyErr := c.receive(t.tally, t.buf[:n], t.now()); replyErr != nil {
			return replyErr
		}
	}
	return err
}

// handle does what an event asks for.
func (t *thread) handle(conn int, readable, ended bool) error {
	c := &t.conns[conn]
	if len(c.unsent) > 0 {
		if err := t.send(c); err != nil {
			return err
		}
	}
	if !readable {
		return nil
	}
	for {
		n, errno := rawRead(c.fd, t.buf)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("%v connection %d: %w", c.group.Operation, c.index,
				os.NewSyscallError("recvfrom", errno))
		case n == 0 && c.count == 0:
			return nil
		case n == 0:
			return fmt.Errorf("%v connection %d: %d of %d replies: %w", c.group.Operation, c.index,
				c.answered, c.count, io.ErrUnexpectedEOF)
		}
		if err := t.arrived(c, t.buf[:n]); err != nil {
			return err
		}
		if n < len(t.buf) && !ended {
			return nil // drained: what arrives later is another event
		}
	}
}

// arrived hands bytes to a connection. When they complete its batch, the next one is sent.
func (t *thread) arrived(c *conn, chunk []byte) error {
	if c.count == 0 {
		return t.unasked(c, chunk)
	}
	now := t.now()
	done, err := c.receive(t.tally, chunk, now)
	if err != nil || !done {
		return err
	}
	t.napper.latency = average(t.napper.latency, now-c.sentAt)
	if c.group.Hits {
		c.left -= c.taken
	}
	c.count = 0
	t.outstanding--
	c.batches++
	if r := c.group.Reconnect; r > 0 && c.batches >= r && (c.step == 0 || !c.group.opens()) {
		if err := t.reconnect(c.slot); err != nil {
			return err
		}
	}
	return t.next(c, now)
}
