package netloop

import "github.com/kestrelmq/kestrel/engine"

// maxRounds is how often a tick goes round while other goroutines post news, before what clients
// have sent has its turn.
const maxRounds = 4

// maxWrite is how many bytes of the journal a loop writes itself at most. It hands over what is more, a
// large item that a job has put for instance, whoever it belongs to: what comes behind has to wait for it.
const maxWrite = 1 << 20

// tick ends a turn.
func (l *loop) tick() {
	l.goOn()
	l.settle()
	l.turns++
	if l.watch.finish(&l.counters) {
		l.publish()
	}
	l.giveBackSpaces()
}

// settle takes in what other goroutines have posted, ends waits whose time is over, commits once for
// everything that was done, and lets the replies leave, one write for each connection.
func (l *loop) settle() {
	for round := 1; ; round++ {
		l.begin()
		l.heedNews()
		l.endIdle()
		if l.draining {
			l.quitIdle()
		}
		l.publish()
		l.commit()
		l.latencies.settle(l.began, l.watch.end("sending replies", nil))
		l.ledger.settle()
		l.awake.Store(false)
		// What was posted before awake went false has rung in vain.
		if l.mailbox.empty() && !l.heldIsReady() {
			break
		}
		if round == maxRounds || l.watch.at >= maxRounds*maxShare {
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
	var failed *failure
	l.watch.end("ends of sessions", nil)
	written := engine.Ticket{Written: t.Written}
	long := l.engine.Unwritten(written) > maxWrite
	if long {
		l.server.writer.request(l, written)
	} else if err := l.engine.Commit(written); err != nil {
		failed = &failure{written, err}
	}
	if !l.engine.Committed(engine.Ticket{Synced: t.Synced}) {
		if long || !l.server.inline.now() {
			l.server.syncer.request(l, t)
		} else if err := l.syncNow(t); err != nil {
			failed = &failure{t, err}
		}
	}
	if t != (engine.Ticket{}) {
		l.watch.end("commit", nil)
	}
	if failed != nil {
		l.latencies.forget()
	}
	dirty := l.dirty
	l.dirty = l.cleaned[:0]
	others := dirty[:0]
	for _, s := range dirty {
		if s.served { // or producers would always be a reply ahead, and queues stay as long as they are
			l.release(s, failed)
		} else {
			others = append(others, s)
		}
	}
	for _, s := range others {
		l.release(s, failed)
	}
	clear(dirty)
	l.cleaned = dirty
}

// syncNow waits for the sync that t asks for.
func (l *loop) syncNow(t engine.Ticket) error {
	began := l.watch.end("commit", nil)
	err := l.engine.Commit(t)
	l.server.inline.took(l.watch.end("sync", nil).Sub(began))
	return err
}

// release lets the replies of a dirty session leave, if they may. Failed is the commit of the turn, if
// that has failed.
func (l *loop) release(s *session, failed *failure) {
	s.dirty, s.served = false, false
	switch {
	case s.state == closed:
	case s.held:
		s.countOutput()
	case len(s.out) == 0 || l.engine.Committed(s.ticket):
		l.deliver(s, nil)
	case failed.concerns(l.engine, s.ticket):
		l.deliver(s, failed.err)
	default:
		l.hold(s)
	}
}

// hold keeps the replies of s until their ticket is good.
func (l *loop) hold(s *session) {
	s.shrinkOutput()
	s.held, s.heldSize, s.heldTicket = true, len(s.out), s.ticket
	l.held = append(l.held, s)
	s.countOutput()
}

// heldIsReady reports whether a commit that sessions are held for has come to an end.
func (l *loop) heldIsReady() bool {
	failed := l.failure.Load()
	for _, s := range l.held {
		if l.engine.Committed(s.heldTicket) || failed.concerns(l.engine, s.heldTicket) {
			return true
		}
	}
	return false
}

// flushHeld sends what is held for a commit that has come to an end.
func (l *loop) flushHeld() {
	failed := l.takeFailure()
	if len(l.held) == 0 {
		return
	}
	kept, turn := l.held[:0], l.newShare()
	for _, s := range l.held {
		switch {
		case s.state == closed:
			s.held = false
		case failed == nil && turn.spent(): // it keeps its place
		case l.engine.Committed(s.heldTicket):
			l.endHold(s, nil)
			l.watch.end("sending replies", s)
		case failed.concerns(l.engine, s.heldTicket):
			l.endHold(s, failed)
		}
		if s.held {
			kept = append(kept, s)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}

// endHold sends what s is held for. Its commit is good, or has failed. If the client has been busy
// meanwhile, s is still held: what came later waits for a ticket of its own.
func (l *loop) endHold(s *session, failed *failure) {
	var err error
	if failed != nil {
		err = failed.err
	}
	if s.heldSize == len(s.out) || failed.concerns(l.engine, s.ticket) {
		s.held = false
		l.deliver(s, err)
		return
	}
	if err != nil {
		s.heldSize = s.retract(s.heldSize, err)
	}
	l.send(s, s.out[:s.heldSize])
	s.sent(s.heldSize)
	if s.state == closed {
		s.held = false
		return
	}
	s.countOutput()
	s.heldSize, s.heldTicket = len(s.out), s.ticket
	l.server.syncer.request(l, s.ticket)
}

// deliver sends all replies of s. If the commit that they waited for has failed, those that claim
// what it was for are replaced.
func (l *loop) deliver(s *session, err error) {
	if err != nil {
		s.retract(len(s.out), err)
	}
	s.claims = s.claims[:0]
	if err != nil || l.engine.Committed(s.ticket) { // or a later reply still waits for it
		s.ticket = engine.Ticket{}
	}
	made := len(s.out)
	if made > 0 {
		l.send(s, s.out)
	}
	s.dropOutput()
	if s.state != closed {
		s.countOutput()
		if s.owed == 0 {
			s.taken = min(s.taken+made, provenSize)
		}
	}
	switch s.state {
	case stalled:
		l.later(s)
	case closing:
		s.sink.close()
	}
}

// goOn runs what is stalled, those first that have waited longest. Who has to wait again comes behind
// the others, and not before the next turn.
func (l *loop) goOn() {
	if len(l.behind) == 0 {
		return
	}
	l.begin()
	done, turn := 0, l.newShare()
	for n := len(l.behind); done < n && !turn.spent(); done++ {
		s := l.behind[done]
		s.behind = false
		l.guard(s, (*session).unstall)
		l.watch.end("requests that had to wait", s)
	}
	rest := copy(l.behind, l.behind[done:])
	clear(l.behind[rest:])
	l.behind = l.behind[:rest]
}

// unfinished reports whether another turn is to come without an event.
func (l *loop) unfinished() bool { return len(l.behind) > 0 || len(l.news) > 0 }

// heedNews takes in what other goroutines have posted, and ends waits whose time is over.
func (l *loop) heedNews() {
	if len(l.news) == 0 {
		l.news = l.mailbox.take()
	}
	for turn := l.newShare(); len(l.news) > 0 && !turn.spent(); {
		s := l.news[0]
		l.news = l.news[1:]
		l.guard(s, (*session).heed)
		l.watch.end("news of a session", s)
	}
	for turn := l.newShare(); !turn.spent(); {
		s := l.deadlines.due(l.clock)
		if s == nil {
			break
		}
		l.guard(s, (*session).deadlinePassed)
		l.watch.end("deadline", s)
	}
}

// quitIdle closes the sessions of a draining loop that have nothing left to do.
func (l *loop) quitIdle() {
	for s := l.sessions.head; s != nil; s = s.newerIdle {
		if s.state == idle && len(s.in) == 0 && s.skip == 0 && !s.items.reading {
			s.quit()
		}
	}
}

// endIdle closes sessions that have completed no request for too long. Time in which the server
// owes a reply does not count.
func (l *loop) endIdle() {
	for range maxEnds {
		if at := l.nextIdle(); at == 0 || at > l.clock {
			return
		}
		s := l.sessions.head
		if s.state == waiting {
			l.touch(s)
			continue
		}
		l.touch(s)
		s.quit()
	}
}

// maxEnds is how many sessions a turn ends because they are idle. The others come a millisecond later.
const maxEnds = 64
