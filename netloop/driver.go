package netloop

import (
	"fmt"
	"math"
	"sync"
	"syscall"

	"github.com/kestrelmq/kestrel/netloop/sealed"
)

// readSize is how many bytes of a connection are read at a time.
const readSize = 64 << 10

// driver runs a loop on sockets. Its fields belong to the loop's goroutine, except where it says
// otherwise.
type driver struct {
	*loop
	poller  poller
	conns   []*conn // by descriptor
	late    []*conn // not in line, and the turn had no time for them; oldest first
	line    line
	unread  []*conn // there may be more to read from them, in the next turn
	light   bool    // a connection that is not in line was read in this turn
	paced   paced
	buf     []byte   // what is being read
	plain   []byte   // the plaintext of it, over TLS
	sealed  []byte   // what is being sent, over TLS
	stopped bool     // run is to end
	todo    []func() // taken from tasks

	mu    sync.Mutex
	tasks []func() // for the loop's goroutine, in order; guarded by mu
}

var _ turns = (*driver)(nil)

// run serves until stop was called.
func (d *driver) run() {
	if err := d.poller.run(d); err != nil {
		panic(fmt.Sprintf("netloop: wait for events: %v", err))
	}
}

// happened implements turns. It reads from a connection that has something to be read, or has it join
// the line if it moves much. A descriptor may be another connection's by now, or nobody's; then there is
// nothing to be read.
func (d *driver) happened(fd int, ended bool) {
	if fd >= len(d.conns) || d.conns[fd] == nil {
		return
	}
	d.begin()
	c := d.conns[fd]
	if ended {
		c.ended = true
	}
	if c.paced != 0 {
		d.endPace(c)
	}
	switch {
	case c.heavy:
		d.line.join(c)
	case len(d.late) > 0 || d.share.spent():
		d.readLater(c)
	default:
		d.readLight(c)
	}
}

// readLight reads from a connection that is not in line.
func (d *driver) readLight(c *conn) {
	d.line.light, d.light = d.began, true
	d.readable(c)
}

// readLater has c, which is not in line, read when its turn comes: nothing reports again what is there.
func (d *driver) readLater(c *conn) {
	if !c.late {
		c.late = true
		d.late = append(d.late, c)
	}
}

// readLate reads from those that wait for it, as far as the turn has time for them.
func (d *driver) readLate() {
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

// serve implements turns. Connections that are not in line do not wait for what those in line do,
// unless the turn ends in a sync: that takes all along.
func (d *driver) serve() (waits bool) {
	d.begin()
	d.readLate()
	d.endPaces()
	limit := d.line.limit(d.began)
	switch {
	case d.syncsInline():
		limit = math.MaxInt
	case d.light && len(d.line.conns)+len(d.behind) > 0:
		d.settle()
		d.begin()
	}
	d.light = false
	d.line.serve(limit, d.newShare(), d.readable)
	for _, c := range d.unread {
		d.line.join(c)
	}
	clear(d.unread)
	d.unread = d.unread[:0]
	return d.syncsInline()
}

// finish implements turns.
func (d *driver) finish() next {
	d.runTasks()
	d.tick()
	switch {
	case d.stopped:
		return nextIsNone
	case len(d.line.conns)+len(d.late)+len(d.todo) > 0 || d.unfinished():
		return nextGoesOn
	}
	return nextWaits
}

// syncsInline reports whether the tick will sync, on the loop's goroutine. It is then worth looking
// once more for clients that have just sent something: they would wait for a sync that is under way,
// and then for one of their own.
func (d *driver) syncsInline() bool {
	return d.ticket.Synced > 0 && d.server.inline.now()
}

// do has the loop's goroutine call f, between two turns at the latest. Any goroutine may call it.
func (d *driver) do(f func()) {
	d.mu.Lock()
	d.tasks = append(d.tasks, f)
	d.mu.Unlock()
	d.poller.ring()
}

// runTasks calls what do was given, in order, as far as the turn has time for it.
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
		d.watch.end("task", nil)
	}
}

func (d *driver) takeTasks() []func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	tasks := d.tasks
	d.tasks = nil
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
	}
}

// readable reads from c once, and returns how many bytes that moved: those read, and those of the
// replies. If there may be more, c is noted: the poller does not report it again.
func (d *driver) readable(c *conn) (moved int) {
	if c.paced != 0 || c.deaf {
		return 0 // the end of its pace, or of its job, reports what is there
	}
	if c.session.yielded {
		d.unread = append(d.unread, c)
		return 0 // it has not run what it sent before
	}
	before := len(c.session.out)
	n, errno := receiveNow(c.fd, d.buf)
	more := errno == syscall.EINTR
	switch {
	case errno == syscall.EAGAIN:
		c.ended = false // that was said of an earlier connection with this descriptor
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
		more = !ended && (c.ended || n == len(d.buf))
	default:
		d.receive(c, d.buf[:n])
		moved = n + max(len(c.session.out)-before, 0)
		d.pace(c)
		more = c.ended || n == len(d.buf)
	}
	if more && !c.gone && c.paced == 0 {
		d.unread = append(d.unread, c)
	}
	d.watch.end("reading from a client", &c.session)
	c.heavy = moved >= heavySize
	return moved
}

func (d *driver) receive(c *conn, buf []byte) {
	d.guard(&c.session, func(s *session) { s.receive(buf) })
}

// maxKept is how many bytes a driver keeps for what it seals and opens.
const maxKept = 4 * readSize

// receiveSealed takes ciphertext from c. It reports whether nothing more comes.
func (d *driver) receiveSealed(c *conn, in []byte) (ended bool) {
	plain, err := c.tls.Open(d.plain[:0], in)
	if d.plain = plain[:0]; cap(plain) > maxKept {
		d.plain = nil
	}
	if out := c.tls.Take(); len(out) > 0 {
		c.sendSealed(out)
	}
	held := int(c.tls.Memory())
	d.ledger.hold(held - c.tlsHeld)
	c.tlsHeld = held
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

// inputEnded is called when the client of c sends nothing more. Replies that are due leave first, if it
// takes a sync in a later turn: nobody waits for that here.
func (d *driver) inputEnded(c *conn) {
	if !d.leave(&c.session) {
		d.end(c, true)
		return
	}
	d.poller.remove(c.fd)
}

// end ends the session of c and closes it. The socket is open until then, so that a client that has
// only shut down its sending side gets the replies that are due.
func (d *driver) end(c *conn, canRead bool) {
	if c.gone {
		return
	}
	if d.server.tracing.Load() {
		d.log.Info("session ends", "peer", c.peer())
	}
	d.gone(&c.session, canRead)
	c.release(canRead)
	d.conns[c.fd] = nil
	d.poller.remove(c.fd)
	syscall.Close(c.fd)
	d.server.discount(c.listener)
}

// stop ends every session, and then run.
func (d *driver) stop() {
	for _, c := range d.conns {
		if c != nil {
			d.end(c, true)
		}
	}
	d.stopped = true
}

// drain ends what sessions wait for; from now on, those that have nothing left to do are closed. What
// has no deadline does not wait for an item, but for the disk to give one back: to end it would say that
// the queue is empty.
//
// A turn ends so many waits as it has time for; the others follow, for no new ones begin.
func (d *driver) drain() {
	d.begin()
	d.draining = true
	turn := d.newShare()
	for s := d.sessions.head; s != nil; {
		next := s.newerIdle // of now: a wait that ends makes s the newest
		if s.state == waiting && s.wait.kind != waitJob && s.wait.heapIndex >= 0 {
			if turn.spent() {
				d.do(d.drain)
				return
			}
			d.guard(s, (*session).deadlinePassed)
			d.watch.end("end of a wait", s)
		}
		s = next
	}
}
