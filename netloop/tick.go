package netloop

import "github.com/kestrelmq/kestrel/engine"

// This file has the tick: it commits what a turn did, and sends the replies.

// maxRounds is how many rounds a tick may take while other goroutines post news. Then the requests of clients have
// their turn.
const maxRounds = 4

// maxWrite is the most bytes of the journal that a loop writes itself. It leaves more, such as a large item, to the
// server's writer, also if another loop's session has put it.
const maxWrite = 1 << 20

// maxEnds is how many sessions one round of a turn ends. The next turn ends more.
const maxEnds = 64

// fewReplies is to how many sessions a turn sends replies in the part of its commit. That many take no time worth a look
// at the clock.
const fewReplies = 4

// tick ends a turn. It goes on with stalled sessions, and then wraps up.
func (l *loop) tick() {
	l.goOn()
	l.wrapUp()
	l.turns++
	if l.watchdog.finish(&l.counters) {
		l.copyCounters()
	}
	l.giveBackSpaces()
}

// wrapUp handles the news that other goroutines have posted, and ends waits whose time is over. It then commits once
// for everything that the turn did, and sends the replies with one write for each connection. If more news has come
// meanwhile, it goes round again.
func (l *loop) wrapUp() {
	for round := 1; ; round++ {
		l.begin()
		l.heedNews()
		l.giveWayIfAsked()
		l.endIdle()
		if l.draining {
			l.quitIdle()
		}
		l.copyCounters()
		l.commit()
		l.latencies.measure(l.began, l.watchdog.time())
		l.ledger.report()
		l.awake.Store(false)
		// Goroutines that posted or asked before awake went false have not woken the loop.
		if l.mailbox.empty() && l.bySize.asked.Load() == 0 && !l.heldIsReady() {
			break
		}
		if round == maxRounds || l.watchdog.at >= maxRounds*maxShare {
			l.ring()
			break
		}
		l.awake.Store(true)
		l.now = 0
	}
	l.setAlarm()
	l.now = 0
}

// commit first sends the held replies whose commit has ended. It then writes the journal for what the turn did, and
// syncs it if the loop does that itself. It sends the replies whose tickets are good then, and holds the others.
func (l *loop) commit() {
	l.releaseHeld() // it may run requests, and their tickets are due in this turn
	t := l.ticket
	l.ticket = engine.Ticket{}
	for _, s := range l.dirty {
		if !s.held { // the syncer has the ticket of a held session
			t = t.Merge(s.ticket) // it may be from an earlier turn that had no reply yet
		}
	}
	var failed *failure
	written := engine.Ticket{Written: t.Written}
	long := l.engine.Unwritten(written) > maxWrite
	if long {
		l.server.writer.request(l, written)
	} else if err := l.engine.Commit(written); err != nil {
		failed = &failure{written, err}
	}
	if !l.engine.Committed(engine.Ticket{Synced: t.Synced}) {
		if long || !l.server.inline.now() || l.engine.Unwritten(t) > maxWrite {
			l.server.syncer.request(l, t)
		} else if err := l.syncNow(t); err != nil {
			failed = &failure{t, err}
		}
	}
	part := "sending replies"
	if t != (engine.Ticket{}) {
		if len(l.dirty) > fewReplies {
			l.watchdog.end("commit", nil)
		} else {
			part = "commit"
		}
	}
	if failed != nil {
		l.latencies.forget()
	}
	dirty := l.dirty
	l.dirty = l.cleaned[:0]
	others := dirty[:0]
	for _, s := range dirty {
		if s.served { // consumers first: otherwise producers stay a reply ahead, and queues never get shorter
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
	l.watchdog.end(part, nil)
}

// syncNow syncs the journal up to t on the loop's goroutine.
func (l *loop) syncNow(t engine.Ticket) error {
	l.watchdog.end("commit", nil)
	began := l.watchdog.at
	err := l.engine.Commit(t)
	l.watchdog.end("sync", nil)
	l.server.inline.took(l.watchdog.at - began)
	return err
}

// release sends the replies of a dirty session if its ticket is good, and otherwise holds them. failed is the error of
// the turn's commit, or nil.
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

// heldIsReady reports whether a commit that holds sessions has ended, well or not.
func (l *loop) heldIsReady() bool {
	failed := l.failure.Load()
	for _, s := range l.held {
		if l.engine.Committed(s.heldTicket) || failed.concerns(l.engine, s.heldTicket) ||
			l.failed.concerns(l.engine, s.heldTicket) {
			return true
		}
	}
	return false
}

// releaseHeld sends the held replies whose commit has ended, as far as the turn has time for them. The others keep their
// place, and the failure of their commit waits for them.
func (l *loop) releaseHeld() {
	failed := l.takeFailure()
	if len(l.held) == 0 {
		return
	}
	kept, turn := l.held[:0], l.newShare()
	for _, s := range l.held {
		switch {
		case s.state == closed:
			s.held = false
		case turn.spent():
			l.failed = failed
		case l.engine.Committed(s.heldTicket):
			l.endHold(s, nil)
			l.watchdog.end("sending replies", s)
		case failed.concerns(l.engine, s.heldTicket):
			l.endHold(s, failed)
			l.watchdog.end("sending replies", s)
		}
		if s.held {
			kept = append(kept, s)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}

// endHold sends the held replies of s, whose commit has ended: well if failed is nil. If the client has sent more
// requests meanwhile, their replies wait for a ticket of their own, and s is held for that.
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

// deliver sends all replies of s. If their commit has failed with err, it replaces the claims among them.
func (l *loop) deliver(s *session, err error) {
	if err != nil {
		s.retract(len(s.out), err)
	}
	s.claims = s.claims[:0]
	if err != nil && s.state != waiting || l.engine.Committed(s.ticket) { // otherwise a later reply still waits for it
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

// goOn runs the stalled sessions that may go on, the one that has waited longest first. A session that stalls again
// joins the end, and has its turn in the next turn of the loop at the earliest.
func (l *loop) goOn() {
	if len(l.resuming) == 0 {
		return
	}
	l.begin()
	done, turn := 0, l.newShare()
	for n := len(l.resuming); done < n && !turn.spent(); done++ {
		s := l.resuming[done]
		s.resuming = false
		l.guard(s, (*session).unstall)
		l.watchdog.end("requests that had to wait", s)
	}
	rest := copy(l.resuming, l.resuming[done:])
	clear(l.resuming[rest:])
	l.resuming = l.resuming[:rest]
}

// unfinished reports whether the loop has work for another turn without an event.
func (l *loop) unfinished() bool { return len(l.resuming) > 0 || len(l.news) > 0 }

// heedNews handles what other goroutines have posted, and ends waits whose time is over.
func (l *loop) heedNews() {
	if len(l.news) == 0 {
		l.news = l.mailbox.take()
	}
	for turn := l.newShare(); len(l.news) > 0 && !turn.spent(); {
		s := l.news[0]
		l.news = l.news[1:]
		l.guard(s, (*session).heed)
		l.watchdog.end("news of a session", s)
	}
	for turn := l.newShare(); !turn.spent(); {
		s := l.deadlines.due(l.clock)
		if s == nil {
			break
		}
		l.guard(s, (*session).deadlinePassed)
		l.watchdog.end("deadline", s)
	}
}

// quitIdle closes sessions of a draining loop that have nothing left to do, up to maxEnds of them.
func (l *loop) quitIdle() {
	ended := 0
	for s := l.sessions.head; s != nil; s = s.newerIdle {
		if s.state != idle || len(s.in) > 0 || s.skip > 0 || s.items.reading {
			continue
		}
		if ended == maxEnds {
			l.ring()
			return
		}
		s.quit()
		l.watchdog.end("end of a session", s)
		ended++
	}
}

// endIdle closes sessions whose clients have completed no request for too long. Time in which the server owes a
// reply does not count.
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
		l.watchdog.end("end of a session", s)
	}
}
