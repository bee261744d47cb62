package netloop

import (
	"time"

	"github.com/kestrelmq/kestrel/codec/burrow"
)

// A request has requestTime to arrive, and a second more for so many bytes of it that have come. A client that sends
// a header a byte at a time, for ever, is cut off.
const (
	requestTime = 30 * time.Second
	requestRate = 4 << 10 // bytes a second
)

// awaitRest notes that a request has begun to arrive.
func (s *session) awaitRest() {
	b, l := s.burrow, s.loop
	if !b.arriving {
		b.arriving, b.since = true, l.clock
	}
	if s.wait.heapIndex < 0 {
		l.deadlines.add(s, l.clock.after(requestTime))
	}
}

// arrived notes that the request at the start of the input is whole, or refused.
func (s *session) arrived() {
	if b := s.burrow; b.arriving {
		b.arriving = false
		if !s.id.unknown {
			s.loop.deadlines.remove(s)
		}
	}
}

// requestLate ends a connection whose request takes too long to arrive.
func (s *session) requestLate() {
	b, l := s.burrow, s.loop
	l.deadlines.remove(s)
	until := b.since.after(requestTime) + moment((len(s.in)-s.inStart)/requestRate*1000)
	if s.state == stalled { // nothing is read from it
		until = l.clock.after(requestTime)
	}
	if until > l.clock {
		l.deadlines.add(s, until)
		return
	}
	s.takeOutput()
	b.frame = burrow.Reply{Close: true}
	s.burrowText(408, "The request took too long to arrive.")
}
