package netloop

// This file has the beginning and the end of a session.

// open takes in a new session.
func (l *loop) open(s *session) {
	l.begin()
	l.counters.Connections++
	s.tally = tally{number: l.server.numbered.Add(1), since: l.now}
	s.wait.heapIndex = -1
	s.reads.ledger = &l.ledger
	l.engine.Account(sessionSize)
	s.lastRequest = l.clock
	if s.id.unknown {
		s.awaitIdentity()
	}
	l.sessions.add(s)
	if s.id.names != nil { // a reload may have come since the handshake
		if s.id.user = l.server.opts.Access.Users().WithCertificate(s.id.names); s.id.user == nil {
			l.log.Info("connection closed: its user is gone", "peer", s.sink.peer())
			s.quit()
		}
	}
	if s.id.user != nil { // its certificate says so
		if err := s.become(s.id.user); err != nil {
			s.takeOutput()
			s.out = append(s.out, s.proto.tooMany()...)
			s.quit()
		}
	}
}

// leave begins the end of a session whose client sends nothing more: it is closed when the replies
// that are due have left. It reports false if there are none. Work that is under way ends first, because its reply is due
// as well. That is a job, a report, or requests that wait for a later turn, or behind a large item.
func (l *loop) leave(s *session) bool {
	more := s.inStart < len(s.in) || s.wait.kind == waitMonitor // else the drainer has the rest
	if s.answering() || s.state == stalled && more && !s.readsTooLittle() {
		s.leaving = true
		return true
	}
	l.begin()
	s.stopWaiting()
	if len(s.out) == 0 {
		return false
	}
	s.quit()
	return true
}

// endSession ends a session whose connection has ended or is about to. If its peer may still read,
// replies that are due leave first.
func (l *loop) endSession(s *session, canRead bool) {
	if s.state == closed {
		return
	}
	l.begin()
	if s.waits != nil {
		s.endAccountWait()
	}
	waits := s.state == waiting
	s.state = closed // nothing more is run
	l.deadlines.remove(s)
	if canRead && len(s.out) > 0 {
		l.deliver(s, l.engine.Commit(s.ticket))
	}
	if waits && l.cancel(s) {
		l.counters.WaitsDropped++
	}
	l.dropReads(s)
	s.leaveUsage()
	s.dropGet()
	s.dropHolders()
	s.dropSeveral()
	s.dropInput()
	s.dropOutput()
	s.endReport()
	if !waits || s.wait.kind != waitJob { // else the answer is the job's
		s.dropAnswer()
	}
	l.engine.Account(-sessionSize)
	s.uncountOutput() // what is unsent is the drainer's now, or nobody's
	l.sessions.remove(s)
}
