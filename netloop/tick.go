package netloop

import "github.com/kestrelmq/kestrel/engine"

// maxRounds is how often a tick goes round while other goroutines post news, before what clients
// have sent has its turn.
const maxRounds = 4

// tick ends a turn: it takes in what other goroutines have posted, ends waits whose time is over,
// commits once for everything that was done, and lets the replies leave, one write for each
// connection.
func (l *loop) tick() {
	for round := 1; ; round++ {
		l.begin()
		for _, s := range l.mailbox.take() {
			l.guard(s, (*session).heed)
		}
		for s := l.deadlines.due(l.clock); s != nil; s = l.deadlines.due(l.clock) {
			l.guard(s, (*session).deadlinePassed)
		}
		l.endIdle()
		if l.draining {
			l.quitIdle()
		}
		l.publish()
		l.commit()
		l.latencies.settle(l.began)
		l.ledger.settle()
		l.awake.Store(false)
		// What was posted before awake went false has rung in vain.
		if l.mailbox.empty() && !l.heldIsReady() {
			break
		}
		if round == maxRounds {
			l.ring()
			break
		}
		l.awake.Store(true)
		l.now = 0
	}
	l.setAlarm()
	l.now = 0
}

// commit makes what the turn did good, as far as it can without waiting for others, and sends the
// replies that this covers. The rest is held.
func (l *loop) commit() {
	l.flushHeld() // may run requests, whose ticket is among those of this turn
	t := l.ticket
	l.ticket = engine.Ticket{}
	for _, s := range l.dirty {
		if !s.held { // or it has been asked for
			t = t.Merge(s.ticket) // an earlier turn may have had nothing to say yet
		}
	}
	err := l.engine.Commit(engine.Ticket{Written: t.Written})
	if err == nil && !l.engine.Committed(t) {
		if l.server.syncInline {
			err = l.engine.Commit(t)
		} else {
			l.server.syncer.request(l, t)
		}
	}
	if err != nil {
		l.latencies.forget()
	}
	dirty := l.dirty
	l.dirty = l.cleaned[:0]
	others := dirty[:0]
	for _, s := range dirty {
		if s.served { // or producers would always be a reply ahead, and queues stay as long as they are
			l.release(s, err)
		} else {
			others = append(others, s)
		}
	}
	for _, s := range others {
		l.release(s, err)
	}
	clear(dirty)
	l.cleaned = dirty
}

// release lets the replies of a dirty session leave, if they may.
func (l *loop) release(s *session, err error) {
	s.dirty, s.served = false, false
	switch {
	case s.state == closed:
	case s.held:
		s.countOutput()
	case err != nil || len(s.out) == 0 || l.engine.Committed(s.ticket):
		l.deliver(s, err)
	default:
		l.hold(s)
	}
}

// hold keeps the replies of s until their ticket is good.
func (l *loop) hold(s *session) {
	s.held, s.heldSize, s.heldTicket = true, len(s.out), s.ticket
	l.held = append(l.held, s)
	s.countOutput()
}

// heldIsReady reports whether a commit that sessions are held for has come to an end.
func (l *loop) heldIsReady() bool {
	for _, s := range l.held {
		if l.engine.Committed(s.heldTicket) || l.failure.Load() != nil {
			return true
		}
	}
	return false
}

// flushHeld sends what is held for a commit that has come to an end.
func (l *loop) flushHeld() {
	if len(l.held) == 0 {
		return
	}
	failure := l.failure.Swap(nil)
	if failure != nil {
		l.latencies.forget()
	}
	kept := l.held[:0]
	for _, s := range l.held {
		switch {
		case s.state == closed:
			s.held = false
		case failure != nil:
			s.held = false
			l.deliver(s, *failure)
		case !l.engine.Committed(s.heldTicket):
			kept = append(kept, s)
		case s.heldSize == len(s.out):
			s.held = false
			l.deliver(s, nil)
		default:
			// The client has been busy meanwhile: what came later waits for a ticket of its own.
			l.send(s, s.out[:s.heldSize])
			s.sent(s.heldSize)
			s.countOutput()
			s.heldSize, s.heldTicket = len(s.out), s.ticket
			if s.state != closed {
				kept = append(kept, s)
			} else {
				s.held = false
			}
			l.server.syncer.request(l, s.ticket)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}

// deliver sends all replies of s. If the commit that they waited for has failed, those that claim
// what it was for are replaced.
func (l *loop) deliver(s *session, err error) {
	if err != nil {
		s.retract(err)
	}
	s.claims = s.claims[:0]
	if err != nil || l.engine.Committed(s.ticket) { // or a later reply still waits for it
		s.ticket = engine.Ticket{}
	}
	if len(s.out) > 0 {
		l.send(s, s.out)
	}
	s.dropOutput()
	if s.state != closed {
		s.countOutput()
	}
	switch s.state {
	case stalled:
		s.unstall() // for the next tick, so that others have their turn first
		l.publish() // it may have run requests, and there may be no other turn for long
	case closing:
		s.sink.close()
	}
}

func (l *loop) send(s *session, p []byte) {
	l.counters.BytesWritten += int64(len(p))
	s.sink.send(p)
}
