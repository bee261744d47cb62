package netloop

import "slices"

const (
	// maxPace is how long a connection is not read at most, in milliseconds: a disk that does not
	// come back is no reason to keep a client waiting without end.
	maxPace = 1000
	// paceLogInterval is how long it is not logged again, in milliseconds.
	paceLogInterval = 10_000
)

// paced are the connections of a driver that put to a queue which is ahead of the disk, see
// engine.Stored. Nothing is read from them until the disk has caught up: what they send stays in the
// kernel's buffers, in the end in theirs, and they wait as for a slow network. Everybody else is
// served.
type paced struct {
	conns  []*conn
	looked moment // whether they may go on
	logged moment
}

// pace stops reading from c if its session has got ahead of the disk.
func (d *driver) pace(c *conn) {
	if len(c.session.ahead) == 0 || c.gone {
		return
	}
	c.paced = d.clock
	d.poller.mute(c.fd)
	p := &d.paced
	p.conns = append(p.conns, c)
	d.pacing = true
	d.counters.Paced++
	if p.logged == 0 || d.clock-p.logged >= paceLogInterval {
		p.logged = d.clock
		d.log.Warn("clients slowed down: they put faster than the disk writes", "queue", string(c.session.ahead))
	}
}

// endPaces reads again from connections that have waited long enough. It looks once a millisecond.
func (d *driver) endPaces() {
	p := &d.paced
	if len(p.conns) == 0 || p.looked == d.clock {
		return
	}
	p.looked = d.clock
	p.conns = slices.DeleteFunc(p.conns, func(c *conn) bool {
		if !c.gone && d.clock < c.paced+maxPace && d.engine.Ahead(c.session.ahead) {
			return false
		}
		d.listen(c)
		return true
	})
	d.pacing = len(p.conns) > 0
}

// endPace reads from c again, because it has ended: a peer that is gone is no producer.
func (d *driver) endPace(c *conn) {
	d.paced.conns = slices.DeleteFunc(d.paced.conns, func(o *conn) bool { return o == c })
	d.listen(c)
}

func (d *driver) listen(c *conn) {
	c.paced, c.session.ahead = 0, c.session.ahead[:0]
	if !c.gone && !c.deaf {
		d.poller.unmute(c.fd)
	}
}
