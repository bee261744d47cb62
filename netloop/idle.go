package netloop

// idleList holds sessions by the time of their last request, longest ago first.
type idleList struct{ head, tail *session }

func (l *idleList) add(s *session) {
	s.olderIdle, s.newerIdle = l.tail, nil
	if l.tail == nil {
		l.head = s
	} else {
		l.tail.newerIdle = s
	}
	l.tail = s
}

func (l *idleList) remove(s *session) {
	if s.olderIdle == nil {
		l.head = s.newerIdle
	} else {
		s.olderIdle.newerIdle = s.newerIdle
	}
	if s.newerIdle == nil {
		l.tail = s.olderIdle
	} else {
		s.newerIdle.olderIdle = s.olderIdle
	}
	s.olderIdle, s.newerIdle = nil, nil
}

func (l *idleList) moveToBack(s *session) {
	if l.tail != s {
		l.remove(s)
		l.add(s)
	}
}

// touch notes that s has completed a request.
func (l *loop) touch(s *session) {
	if l.server.opts.ClientTimeout > 0 {
		s.lastRequest = l.clock
		l.sessions.moveToBack(s)
	}
}

// nextIdle returns when the session that has been idle for longest may be timed out; zero if never.
func (l *loop) nextIdle() moment {
	if l.server.opts.ClientTimeout == 0 || l.sessions.head == nil {
		return 0
	}
	return l.sessions.head.lastRequest.after(l.server.opts.ClientTimeout)
}
