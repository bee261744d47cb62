package netloop

import "slices"

// This file has the driver not read, for a while, from connections that are ahead of the disk or over a quota.

const (
	// maxPace is for how many milliseconds at most the driver does not read from a connection. If the disk does not
	// come back, the client must not wait for ever.
	maxPace = 1000
	// minRest is how long a connection rests at least behind a request that a quota has refused, in milliseconds.
	minRest = 10
	// paceLogInterval is how long it is not logged again, in milliseconds.
	paceLogInterval = 10_000
)

// paced are the connections of a driver that it does not read for a while. What they send stays in the kernel's
// buffers, in the end in theirs, and they wait as for a slow network. Everybody else is served.
//
// Some put to a queue which is ahead of the disk, see engine.Stored. They wait until the disk has caught up. Others
// have sent requests that a quota refused, and rest a millisecond for each of them. So a client that does not heed
// refusals costs the loop little, and others do not feel it.
type paced struct {
	conns  []*conn
	logged moment
}

// pace stops reading from c if its session has got ahead of the disk, or over a quota.
func (d *driver) pace(c *conn) {
	s := &c.session
	if len(s.ahead) == 0 && s.overQuotas == 0 || c.gone {
		return
	}
	c.paced = d.clock
	d.poller.mute(c.fd)
	d.paced.conns = append(d.paced.conns, c)
	if s.overQuotas > 0 {
		c.rests = d.clock + min(max(moment(s.overQuotas), minRest), maxPace)
	}
	if len(s.ahead) > 0 {
		d.counters.Paced++
		d.logAhead(s.ahead)
	}
	if at := d.nextLook(c); d.paceEnds == 0 || at < d.paceEnds {
		d.paceEnds = at
	}
}

// logAhead logs that a client puts to a queue ahead of the disk, unless it logged that a moment ago.
func (d *driver) logAhead(queue []byte) {
	if p := &d.paced; p.logged == 0 || d.clock-p.logged >= paceLogInterval {
		p.logged = d.clock
		d.log.Warn("clients slowed down: they put faster than the disk writes", "queue", string(queue))
	}
}

// nextLook returns when c may be read again: in a millisecond if that is for the disk to say.
func (d *driver) nextLook(c *conn) moment {
	if c.rests > d.clock {
		return c.rests
	}
	return d.clock + 1
}

// endPaces reads again from connections that have waited long enough.
func (d *driver) endPaces() {
	if d.paceEnds == 0 || d.clock < d.paceEnds {
		return
	}
	d.paceEnds = 0
	d.paced.conns = slices.DeleteFunc(d.paced.conns, func(c *conn) bool {
		if d.waits(c) {
			if at := d.nextLook(c); d.paceEnds == 0 || at < d.paceEnds {
				d.paceEnds = at
			}
			return false
		}
		d.listen(c)
		return true
	})
}

// waits reports whether c, which is paced, is not to be read yet.
func (d *driver) waits(c *conn) bool {
	return !c.gone && (d.clock < c.rests || d.isAhead(c))
}

// isAhead reports whether c has put to a queue which is ahead of the disk still, and has not waited for that for too long.
func (d *driver) isAhead(c *conn) bool {
	return len(c.session.ahead) > 0 && d.clock < c.paced+maxPace && d.engine.Ahead(c.session.ahead)
}

// endPace reads from c again, because it has ended: a peer that is gone is no producer.
func (d *driver) endPace(c *conn) {
	d.paced.conns = slices.DeleteFunc(d.paced.conns, func(o *conn) bool { return o == c })
	d.listen(c)
}

func (d *driver) listen(c *conn) {
	c.paced, c.rests, c.session.overQuotas, c.session.ahead = 0, 0, 0, c.session.ahead[:0]
	if !c.gone && !c.deaf {
		d.poller.unmute(c.fd)
		d.openLater(c)
	}
}
