package netloop

import (
	"net"
	"syscall"

	"github.com/kestrelmq/kestrel/netloop/sealed"
)

// conn is the socket of a session, and its sink. It belongs to the loop's goroutine. Its field unsent holds
// what the socket does not take; the drainer reports when the socket takes more.
type conn struct {
	driver    *driver
	fd        int
	tls       *sealed.Stream // nil: plain
	unsent    unsent
	heavy     bool      // its last read moved much
	inBulk    bool      // of the driver
	late      bool      // in driver.late
	ended     bool      // the peer sends no more; some of what it sent may be unread
	deaf      bool      // the driver does not read it while a job of its session runs
	watched   bool      // the drainer knows of fd
	broken    bool      // the peer is gone: the next read will find that
	gone      bool      // fd is closed, or about to be: it may be another client's by now
	paced     moment    // since when the driver does not read it, see type paced; zero: it reads
	session   session   // behind what each read touches, as it begins with that too
	rests     moment    // until when it is not read because of quotas, if it is paced; zero: they are no reason
	tlsMemory int       // bytes of TLS, as counted in the loop's ledger
	answers   int       // bytes of it that are no replies, and were added to unsent since that was empty
	addr      net.Addr  // of the peer
	listener  *listener // that accepted it; nil for a socket of a test
}

var _ sink = (*conn)(nil)

// send implements sink.
func (c *conn) send(p []byte) {
	if c.gone || c.broken || len(p) == 0 {
		return
	}
	if c.tls != nil {
		p = c.seal(p)
	}
	c.sendSealed(p)
}

// seal returns the ciphertext of p, until the next call.
func (c *conn) seal(p []byte) []byte {
	d := c.driver
	out := c.tls.Seal(d.sealed[:0], p)
	if d.sealed = out[:0]; cap(out) > maxTLSBuffer {
		d.sealed = nil
	}
	return out
}

// sendSealed sends bytes as the wire carries them: over TLS, ciphertext.
func (c *conn) sendSealed(p []byte) {
	if c.unsent.size == 0 {
		p = c.write(p)
	}
	if len(p) > 0 && !c.broken {
		c.unsent.add(p)
		c.watch()
	}
}

// maxAnswers is how many bytes a peer may leave unread of what TLS says of its own accord, such as answers to updates of
// keys. No request is behind them, so nothing else bounds them.
const maxAnswers = 64 << 10

// answer sends what the stream says of its own accord. It returns false if the peer asks for that and does not read it.
func (c *conn) answer(p []byte) bool {
	if c.unsent.size == 0 {
		c.answers = 0
	}
	c.sendSealed(p)
	if c.unsent.size > 0 {
		c.answers += len(p)
	}
	return c.answers <= maxAnswers
}

// sendUnsent implements sink.
func (c *conn) sendUnsent() {
	if c.gone || c.broken || c.unsent.size == 0 {
		return
	}
	c.unsent.writeTo(c.write)
	switch {
	case c.broken:
		c.unsent = unsent{}
	case c.unsent.size > 0:
		c.watch()
	}
}

// write writes as much of p as the socket takes and returns the rest.
func (c *conn) write(p []byte) []byte {
	n, err := sendNow(c.fd, p)
	if err != 0 && err != syscall.EAGAIN && err != syscall.EINTR && err != syscall.ENOBUFS {
		c.broken, c.session.unheard = true, true
		return nil
	}
	return p[n:]
}

func (c *conn) watch() {
	c.watched = true
	c.driver.server.drainer.watch(c.fd, &c.session)
}

// listen implements sink.
func (c *conn) listen(on bool) {
	c.deaf = !on
	switch {
	case c.gone || c.paced != 0:
	case on:
		c.driver.poller.unmute(c.fd)
		c.driver.openLater(c)
	default:
		c.driver.poller.mute(c.fd)
	}
}

// unsentBytes implements sink.
func (c *conn) unsentBytes() int { return c.unsent.size }

// memory implements sink.
func (c *conn) memory() int { return c.unsent.memory }

// close implements sink.
func (c *conn) close() {
	if !c.gone {
		c.driver.end(c, true)
	}
}

// release ends the use of fd before the driver closes it. If the peer may still read, and has not taken everything,
// the drainer sends it the rest.
func (c *conn) release(canRead bool) {
	c.gone = true
	if c.watched {
		c.driver.server.drainer.forget(c.fd)
	}
	rest, memory, b := c.unsent.rest(), c.unsent.memory, &c.session.body
	var plain [][]byte
	if b.pending() {
		if plain = [][]byte{b.rest, []byte(b.tail)}; c.tls == nil {
			rest, plain = append(rest, plain...), nil
		}
		memory += cap(b.reply)
	}
	switch linger := canRead && !c.broken; {
	case linger && c.unsent.size+len(b.rest) > 0:
		c.driver.server.drainer.linger(c.fd, memory+c.tlsMemory, b.item, unsealed{c.tls, plain}, rest...)
		b.item = nil // the drainer holds it now
	case linger && c.tls != nil:
		c.write(c.tls.Close(nil)) // a few bytes, for which the socket almost always has room
	}
	c.driver.ledger.add(-c.tlsMemory)
	c.tlsMemory = 0
	c.session.dropBody()
	c.unsent = unsent{}
}

// peer implements sink.
func (c *conn) peer() string {
	if c.addr == nil {
		return "unknown" // a socket that no listener has accepted
	}
	if _, unix := c.addr.(*net.UnixAddr); unix && c.listener != nil {
		return c.listener.Name() // the peer's end has no name
	}
	return c.addr.String()
}
