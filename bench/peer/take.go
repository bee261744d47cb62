package peer

import "github.com/kestrelmq/kestrel/loadtest"

// Take returns base as a group that takes items in the way of the server's protocol. JetStream and
// nsqd are asked for so many at a time, in one request.
func (s Server) Take(base loadtest.Group) loadtest.Group {
	base.Operation = loadtest.Get
	switch s.Protocol {
	case loadtest.Beanstalk:
		base.Operation = loadtest.Consume
	case loadtest.JetStream, loadtest.NSQ:
		base.Operation, base.Burst, base.Pipeline = loadtest.CloseOpen, base.Pipeline, 1
	}
	return base
}

// Pushes reports whether the server hands out items unasked, as long as there is room.
func (s Server) Pushes() bool { return s.Protocol == loadtest.NSQ }
