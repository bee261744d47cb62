package netloop

// A client may send ahead of its replies. Requests come while the session does not run any, because it waits, or
// because the client does not read. Up to MaxPending bytes of them are buffered, and what two reads bring. One request
// more may have begun within these bytes, and come whole, if it says how large it is.

// begun is that request: it begins at in[at], and has size bytes at most. Zero means that none is known.
type begun struct{ at, size int }

// maxBegunWalk is how many requests are looked at to find it. It bounds the time that this takes a loop.
const maxBegunWalk = 1024

// isTooFarAhead reports whether the client has sent so much ahead of its replies that it may send nothing more.
// It is for a session that waits for its client.
func (s *session) isTooFarAhead() bool {
	most := s.inStart + s.loop.server.opts.MaxPending + readSize
	if len(s.in) <= most {
		return false
	}
	if b := s.begun; b.at+b.size > s.inStart && len(s.in) <= most+b.size {
		return false
	}
	s.begun = s.findBegun(most)
	return len(s.in) > most+s.begun.size
}

// findBegun returns the request that has begun before most and is not whole there.
func (s *session) findBegun(most int) begun {
	at := s.inStart
	for range maxBegunWalk {
		size := s.proto.extent(s, s.in[at:])
		if size == 0 {
			break
		}
		if at+size > most {
			return begun{at, size}
		}
		at += size
	}
	return begun{}
}
