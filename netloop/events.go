package netloop

import (
	"context"
	"errors"
	"io"

	"github.com/panjf2000/gnet/v2"
)

// soloEvents is how many events in a row must be of one connection for it to be taken for the only
// busy one. Its turns then end at once, instead of with the next batch of events, which spares a
// wake-up.
const soloEvents = 8

// events drives the loops from gnet's callbacks. gnet calls them on the goroutine of the event loop
// that the connection belongs to.
type events struct {
	gnet.BuiltinEventEngine
	server *Server
}

// driver is the gnet side of a loop. It belongs to the loop's goroutine.
type driver struct {
	*loop
	events    gnet.EventLoop
	scheduled bool  // a tick will be run by gnet
	last      *conn // whose event came last
	solo      int   // events in a row that were of last
}

// Run implements gnet.Runnable: it is what gnet runs when a tick was scheduled.
func (d *driver) Run(context.Context) error {
	d.scheduled = false
	d.tick()
	return nil
}

// schedule has gnet run a tick after the next batch of events.
func (d *driver) schedule() {
	if !d.scheduled {
		d.scheduled = true
		d.events.Execute(context.Background(), d) // fails only when the loop has ended
	}
}

// endTurn ends the turn that an event of c was part of: at once if c seems to be alone.
func (d *driver) endTurn(c *conn) {
	if d.last != c {
		d.last, d.solo = c, 0
	}
	d.solo++
	if d.solo > soloEvents && !d.scheduled {
		d.tick()
		return
	}
	d.schedule()
}

// OnOpen implements gnet.EventHandler.
func (e *events) OnOpen(g gnet.Conn) ([]byte, gnet.Action) {
	c := g.Context().(*conn)
	d := e.server.driverOf(g.EventLoop())
	c.driver, c.gnet, c.fd = d, g, g.Fd()
	c.session.loop, c.session.sink = d.loop, c
	d.open(&c.session)
	d.schedule()
	if e.server.opts.TraceSessions {
		e.server.log.Info("session begins", "peer", c.peer())
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (e *events) OnTraffic(g gnet.Conn) gnet.Action {
	c := g.Context().(*conn)
	d := c.driver
	d.begin()
	d.receive(c)
	d.endTurn(c)
	return gnet.None
}

func (d *driver) receive(c *conn) {
	defer d.rescue(&c.session)
	buf, err := c.gnet.Next(-1)
	if err == nil {
		c.session.receive(buf)
	}
}

// OnClose implements gnet.EventHandler. The socket is still open, so that a client that has only
// shut down its sending side gets the replies that are due.
func (e *events) OnClose(g gnet.Conn, err error) gnet.Action {
	c := g.Context().(*conn)
	d := c.driver
	if e.server.opts.TraceSessions {
		e.server.log.Info("session ends", "peer", c.peer())
	}
	d.begin()
	canRead := err == nil || errors.Is(err, io.EOF)
	d.gone(&c.session, canRead)
	c.release(canRead)
	if d.last == c {
		d.last = nil
	}
	d.schedule()
	e.server.connections.Add(-1)
	return gnet.None
}
