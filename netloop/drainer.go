package netloop

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/netloop/sealed"
)

// This file has the drainer, which sends what sockets have not taken, and closes connections that have ended.

// lingerTime is how long a connection that has ended is kept for a peer that has not read
// everything, from the last time it read.
const lingerTime = 10 * time.Second

// drainer waits, on a goroutine of its own, for sockets that take bytes again. It
// wakes the loops of those that are in use, and finishes those that are not.
type drainer struct {
	outlets *outlets
	closed  bool         // of outlets; guarded by mu
	account func(int64)  // takes bytes held, or given back, for the memory limit
	drop    func([]byte) // gives back a large item that a connection was sent from where it lies
	most    int          // connections kept at a time

	mu        sync.Mutex
	watched   map[int]*session   // by descriptor; guarded by mu
	lingering map[int]*lingering // by descriptor; guarded by mu
	stopped   bool               // guarded by mu
	cut       int64              // connections whose clients did not take all replies; guarded by mu
	cutBytes  int64              // of those replies; guarded by mu
}

// lingering is what a connection that has ended still has to send.
type lingering struct {
	rest   [][]byte // in order
	more   unsealed // behind it
	memory int64    // bytes of memory that rest takes, without item
	item   []byte   // a large item that rest is a part of; nil: none. Others may be sent it as well
	until  time.Time
	// sending says that run sends without holding mu: until it is false nobody else looks at rest and more, or closes the
	// descriptor. Guarded by mu.
	sending bool
}

func newDrainer(account func(int64), drop func([]byte), most int) (*drainer, error) {
	outlets, err := openOutlets()
	if err != nil {
		return nil, err
	}
	return &drainer{
		outlets: outlets, account: account, drop: drop, most: most,
		watched: map[int]*session{}, lingering: map[int]*lingering{},
	}, nil
}

// watch wakes the loop of s, once, when fd takes bytes.
func (d *drainer) watch(fd int, s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.watched[fd] != nil
	d.watched[fd] = s
	d.outlets.arm(fd, again)
}

// forget ends watching fd, before it is closed.
func (d *drainer) forget(fd int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watched[fd] != nil {
		delete(d.watched, fd)
		d.outlets.forget(fd)
	}
}

// linger sends rest, in order, on a copy of fd, and then closes the copy, which ends the connection. The
// parts take so many bytes of memory beside item, which linger gives back when it needs it no more.
func (d *drainer) linger(fd, memory int, item []byte, more unsealed, rest ...[]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		d.lost(item, append(rest, more.plain...))
		return
	}
	for len(d.lingering) >= d.most && d.endOldest() {
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		d.lost(item, append(rest, more.plain...))
		return
	}
	l := &lingering{rest: rest, more: more, memory: int64(memory), item: item, until: time.Now().Add(lingerTime)}
	d.lingering[own] = l
	d.account(l.memory)
	d.outlets.arm(own, false)
}

// run serves until stop is called.
func (d *drainer) run() {
	for {
		fds, err := d.outlets.wait(time.Second)
		if err != nil {
			return // the set is closed
		}
		for _, fd := range fds {
			d.ready(fd)
		}
		d.mu.Lock()
		d.endOverdue(time.Now())
		stopped := d.stopped
		d.mu.Unlock()
		if stopped {
			d.close()
			return
		}
	}
}

// ready is called when fd takes bytes, or has failed. It sends without holding mu, which loops wait for.
func (d *drainer) ready(fd int) {
	l := d.lingerer(fd)
	if l == nil {
		return
	}
	errno := l.send(fd)
	d.mu.Lock()
	defer d.mu.Unlock()
	l.sending = false
	if (len(l.rest) > 0 || l.more.stream != nil) && (errno == 0 || errno == syscall.EAGAIN || errno == syscall.EINTR) {
		l.until = time.Now().Add(lingerTime)
		d.outlets.arm(fd, true)
		return
	}
	d.end(fd)
}

// lingerer returns what is to be sent on fd, or nil if there is nothing. If fd is in use, it wakes its loop.
func (d *drainer) lingerer(fd int) *lingering {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.watched[fd]; s != nil {
		s.loop.post(s, writable)
		return nil
	}
	l := d.lingering[fd]
	if l != nil {
		l.sending = true
	}
	return l
}

// unsealed is what comes behind the rest of a connection over TLS: plaintext, and the end of the stream.
type unsealed struct {
	stream *sealed.Stream // nil: nothing
	plain  [][]byte
}

// next seals the next piece. It is nil if there is none.
func (u *unsealed) next() []byte {
	for u.stream != nil {
		if len(u.plain) == 0 {
			last := u.stream.Close(nil)
			u.stream = nil
			return last
		}
		first := u.plain[0]
		piece := first[:min(bodyPiece, len(first))]
		if u.plain[0] = first[len(piece):]; len(u.plain[0]) == 0 {
			u.plain = u.plain[1:]
		}
		if len(piece) > 0 {
			return u.stream.Seal(nil, piece)
		}
	}
	return nil
}

// send sends what the socket takes, up to bodyTurn bytes: others wait as well.
func (l *lingering) send(fd int) (errno syscall.Errno) {
	for sent := 0; errno == 0 && sent < bodyTurn; {
		if len(l.rest) == 0 {
			more := l.more.next()
			if more == nil {
				break
			}
			l.rest = append(l.rest, more)
		}
		if len(l.rest[0]) == 0 {
			l.rest = l.rest[1:]
			continue
		}
		var n int
		n, errno = sendNow(fd, l.rest[0][:min(len(l.rest[0]), bodyPiece)])
		l.rest[0] = l.rest[0][n:]
		sent += n
	}
	return errno
}

// end closes a connection that lingers. What its client has not taken is lost. The caller holds mu.
func (d *drainer) end(fd int) {
	l := d.lingering[fd]
	d.lost(l.item, append(l.rest, l.more.plain...))
	d.account(-l.memory)
	delete(d.lingering, fd)
	unix.Close(fd)
}

// endOverdue ends the connections whose peers have not read for too long. The caller holds mu.
func (d *drainer) endOverdue(now time.Time) {
	for fd, l := range d.lingering {
		if l.until.Before(now) {
			d.end(fd)
		}
	}
}

// lost counts what is lost of a connection's replies, and gives back the item that it was sent. The caller holds mu.
func (d *drainer) lost(item []byte, rest [][]byte) {
	if item != nil {
		d.drop(item)
	}
	if bytes := sizeOf(rest); bytes > 0 {
		d.cut++
		d.cutBytes += bytes
	}
}

func sizeOf(parts [][]byte) (bytes int64) {
	for _, part := range parts {
		bytes += int64(len(part))
	}
	return bytes
}

// undelivered returns of how many connections the clients did not take all replies, and their bytes.
func (d *drainer) undelivered() (connections, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cut, d.cutBytes
}

// count returns how many connections are kept until their clients have read everything.
func (d *drainer) count() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.lingering))
}

// endOldest ends the connection whose peer has not read for longest, except one that run is sending on. It reports whether
// there was one. The caller holds mu.
func (d *drainer) endOldest() bool {
	oldest := -1
	for fd, l := range d.lingering {
		if !l.sending && (oldest < 0 || l.until.Before(d.lingering[oldest].until)) {
			oldest = fd
		}
	}
	if oldest >= 0 {
		d.end(oldest)
	}
	return oldest >= 0
}

// stop ends run, which may close the drainer as soon as mu is free.
func (d *drainer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if !d.closed { // or the descriptor is somebody else's
		d.outlets.wake()
	}
}

func (d *drainer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for fd := range d.lingering {
		d.end(fd)
	}
	d.outlets.close()
	d.closed = true
}
