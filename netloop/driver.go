package netloop

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kestrelmq/kestrel/netloop/sealed"
)

// This file has the driver of a loop on sockets: it reads from them, and hands the bytes to their sessions.

// readSize is how many bytes of a connection are read at a time.
const readSize = 64 << 10

// driver runs a loop on sockets. The loop's goroutine owns its fields, unless a comment says otherwise.
type driver struct {
	*loop
	poller  poller
	conns   []*conn // by descriptor
	late    []*conn // not in the bulk, and no turn has had time to read from them yet; oldest first
	bulk    bulk
	unread  []*conn // they may have more to read, in the next turn
	light   bool    // a connection that is not in the bulk was read in this turn
	paced   paced
	buf     []byte      // for one read
	plain   []byte      // over TLS: the plaintext of buf
	sealed  []byte      // over TLS: the ciphertext of a reply
	opened  func() bool // whether a connection over TLS has had its time; see receiveSealed
	stopped bool        // run must end
	todo    []func()    // taken from tasks

	mu    sync.Mutex
	tasks []func()    // for the loop's goroutine, in order; guarded by mu
	asked atomic.Bool // tasks has something; changed under mu
}

var _ turns = (*driver)(nil)

// run serves connections until stop ends it.
func (d *driver) run() {
	if err := d.poller.run(d); err != nil {
		panic(fmt.Sprintf("netloop: wait for events: %v", err))
	}
}

// happened implements turns: the poller has an event of a socket. It reads from the connection at once, unless the
// connection moves much, or the turn has no time left: then a list has it. The descriptor may belong to another
// connection by now, or to none: then a read finds nothing.
func (d *driver) happened(fd int, ended bool) {
	if fd >= len(d.conns) {
		return
	}
	c := d.conns[fd]
	if c == nil {
		return
	}
	d.begin()
	if ended {
		c.ended = true
	}
	if c.paced != 0 {
		d.endPace(c)
	}
	switch {
	case c.heavy:
		d.bulk.join(c)
	case len(d.late) > 0 || d.share.spent():
		d.readLater(c)
	default:
		d.readLight(c)
	}
}

// readLight reads from a connection that is not in the bulk.
func (d *driver) readLight(c *conn) {
	d.light = true
	d.readable(c)
}

// readLater notes that c, which is not in the bulk, has something to read. The poller does not report it again.
func (d *driver) readLater(c *conn) {
	if !c.late {
		c.late = true
		d.late = append(d.late, c)
	}
}

// readLate reads from the late connections, as far as the turn has time for them.
func (d *driver) readLate() {
	if len(d.late) == 0 {
		return
	}
	done := 0
	for ; done < len(d.late) && !d.share.spent(); done++ {
		c := d.late[done]
		c.late = false
		if !c.gone {
			d.readLight(c)
		}
	}
	rest := copy(d.late, d.late[done:])
	clear(d.late[rest:])
	d.late = d.late[:rest]
}

// serveBulk implements turns. It sends the replies of connections that are not in the bulk before it serves the bulk. If
// the turn ends in a sync, it serves the whole bulk first, because one sync then covers all of them.
func (d *driver) serveBulk() (waits bool) {
	d.begin()
	d.readLate()
	d.endPaces()
	if d.light {
		d.bulk.lastLight = d.began
	}
	limit := d.bulk.limit(d.began)
	switch {
	case d.syncsInline():
		limit = math.MaxInt
	case d.light && len(d.bulk.conns)+len(d.resuming) > 0:
		d.wrapUp()
		d.begin()
	}
	d.light = false
	d.bulk.serve(limit, d.newShare(), d.readable)
	for _, c := range d.unread {
		d.bulk.join(c)
	}
	clear(d.unread)
	d.unread = d.unread[:0]
	return d.syncsInline()
}

// finish implements turns.
func (d *driver) finish() afterTurn {
	d.runTasks()
	d.tick()
	switch {
	case d.stopped:
		return thenEnds
	case len(d.bulk.conns)+len(d.late)+len(d.todo) > 0 || d.unfinished():
		return thenGoesOn
	}
	return thenWaits
}

// syncsInline reports whether the tick will sync on the loop's goroutine. Then the poller looks once more for new
// requests. Otherwise their clients would wait for this sync, and then for one of their own.
func (d *driver) syncsInline() bool {
	return d.ticket.Synced > 0 && d.server.inline.now()
}

// do makes the loop's goroutine call f before the next tick, or soon after it if the turn has no time left. Any
// goroutine may call do.
func (d *driver) do(f func()) {
	d.mu.Lock()
	d.tasks = append(d.tasks, f)
	d.asked.Store(true)
	d.mu.Unlock()
	d.poller.ring()
}

// runTasks calls the functions that do has taken, in order, as far as the turn has time for them.
func (d *driver) runTasks() {
	for turn := d.newShare(); !turn.spent(); {
		if len(d.todo) == 0 {
			if d.todo = d.takeTasks(); len(d.todo) == 0 {
				return
			}
		}
		task := d.todo[0]
		d.todo = d.todo[1:]
		task()
		d.watchdog.end("task", nil)
	}
}

func (d *driver) takeTasks() []func() {
	if !d.asked.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	tasks := d.tasks
	d.tasks = nil
	d.asked.Store(false)
	return tasks
}

// take begins the session of a connection.
func (d *driver) take(c *conn) {
	c.driver = d
	c.session.loop, c.session.sink = d.loop, c
	if err := d.poller.add(c.fd); err != nil {
		d.log.Warn("connection lost before it was open", "err", err)
		c.gone = true
		syscall.Close(c.fd)
		d.server.discount(c.listener)
		return
	}
	for c.fd >= len(d.conns) {
		d.conns = append(d.conns, nil)
	}
	d.conns[c.fd] = c
	d.open(&c.session)
	if d.server.tracing.Load() {
		d.log.Info("session begins", "peer", c.peer())
	}
	if c.tls != nil {
		d.receiveSealed(c, nil) // what came along with the end of the handshake
		d.openLater(c)
	}
}

// readable reads from c once, and returns how many bytes that moved, in requests and replies together. If c may
// have more to read, it notes that in unread, because the poller does not report it again.
func (d *driver) readable(c *conn) (moved int) {
	if c.paced != 0 || c.deaf {
		return 0 // the end of its pace, or of its job, makes the poller report it
	}
	if c.session.yielded {
		d.unread = append(d.unread, c)
		return 0 // the session has not run yet what the client sent before
	}
	before := len(c.session.out)
	n, errno, left := 0, syscall.Errno(0), c.tls != nil && c.tls.HasMore()
	if !left {
		n, errno = receiveNow(c.fd, d.buf)
	}
	more := errno == syscall.EINTR
	switch {
	case left: // first, and then what the socket has
		more = !d.receiveSealed(c, nil)
		moved = leftSize + max(len(c.session.out)-before, 0)
		d.pace(c)
	case errno == syscall.EAGAIN:
		c.ended = false // the event was of an earlier connection with this descriptor
		return 0
	case more:
	case errno != 0:
		d.end(c, false)
	case n == 0:
		d.inputEnded(c)
	case c.tls != nil:
		ended := d.receiveSealed(c, d.buf[:n])
		moved = n + max(len(c.session.out)-before, 0)
		d.pace(c)
		more = !ended && (c.ended || n == len(d.buf) || c.tls.HasMore())
	default:
		d.receive(c, d.buf[:n])
		moved = n + max(len(c.session.out)-before, 0)
		d.pace(c)
		more = c.ended || n == len(d.buf)
	}
	if more && !c.gone && c.paced == 0 {
		d.unread = append(d.unread, c)
	}
	d.watchdog.end("reading from a client", &c.session)
	if c.heavy = moved >= heavySize; c.session.catchUp {
		c.heavy, moved = true, max(moved, catchUpSize)
	}
	return moved
}

func (d *driver) receive(c *conn, buf []byte) {
	d.guard(&c.session, func(s *session) { s.receive(buf) })
}

// leftSize is how many bytes a connection counts as having moved whose TLS had left something: it takes time like many.
const leftSize = heavySize

// maxTLSBuffer is the most bytes that each of a driver's two buffers for TLS keeps.
const maxTLSBuffer = 4 * readSize

// receiveSealed takes ciphertext from c. It reports whether the client's input has ended.
func (d *driver) receiveSealed(c *conn, in []byte) (ended bool) {
	plain, err := c.tls.Open(d.plain[:0], in, d.opened)
	if d.plain = plain[:0]; cap(plain) > maxTLSBuffer {
		d.plain = nil
	}
	if out := c.tls.Take(); len(out) > 0 && !c.answer(out) {
		d.counters.NotProtocol++
		d.end(c, false)
		return true
	}
	memory := int(c.tls.Memory())
	d.ledger.add(memory - c.tlsMemory)
	c.tlsMemory = memory
	if len(plain) > 0 {
		d.receive(c, plain)
	}
	switch {
	case c.gone:
		return true
	case err == nil:
		return false
	case sealed.IsEnd(err):
		d.inputEnded(c)
	default:
		d.counters.NotProtocol++
		d.end(c, false)
	}
	return true
}

// inputEnded handles the end of what the client of c sends. If replies are due, the session stays until they have
// left, which may take a sync in a later turn. The driver does not wait for that.
func (d *driver) inputEnded(c *conn) {
	if !d.leave(&c.session) {
		d.end(c, true)
		return
	}
	d.poller.remove(c.fd)
}

// end ends the session of c, and then closes the socket. So a client that has only shut down its sending side gets
// the replies that are due.
func (d *driver) end(c *conn, canRead bool) {
	if c.gone {
		return
	}
	if d.server.tracing.Load() {
		d.log.Info("session ends", "peer", c.peer())
	}
	d.endSession(&c.session, canRead)
	c.release(canRead)
	d.conns[c.fd] = nil
	d.poller.remove(c.fd)
	syscall.Close(c.fd)
	d.server.discount(c.listener)
}

// stop ends every session, and then run. A turn ends as many as it has time for, and later turns the others.
func (d *driver) stop() {
	d.begin()
	turn := d.newShare()
	for _, c := range d.conns {
		if c == nil {
			continue
		}
		if turn.spent() {
			d.do(d.stop)
			return
		}
		d.end(c, true)
		d.watchdog.end("end of a session", nil)
	}
	d.stopped = true
}

// drain ends the waits of sessions. From now on the loop closes sessions that have nothing left to do. A wait without
// a deadline goes on. An item is on its way from the disk, and an end would say that the queue is empty.
//
// A turn ends as many waits as it has time for. Later turns end the others, and no new ones begin.
func (d *driver) drain() {
	d.begin()
	d.draining = true
	turn := d.newShare()
	for s := d.sessions.head; s != nil; {
		next := s.newerIdle // read now: the end of a wait makes s the newest
		if s.state == waiting && s.wait.kind != waitJob && s.wait.heapIndex >= 0 {
			if turn.spent() {
				d.do(d.drain)
				return
			}
			d.guard(s, (*session).deadlinePassed)
			d.watchdog.end("end of a wait", s)
		}
		s = next
	}
}
