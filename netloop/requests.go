package netloop

import (
	"slices"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// receive takes bytes from the client. It runs the whole requests in buf, and buffers the rest. Then the next commit of
// the loop concerns the session.
func (s *session) receive(buf []byte) {
	s.loop.counters.BytesRead += int64(len(buf))
	s.tally.received += int64(len(buf))
	s.tally.last = s.loop.now
	if len(s.in) > 0 || s.state != idle {
		s.buffer(buf)
		s.resume()
	} else if n := s.handle(buf); n < len(buf) {
		s.buffer(buf[n:])
	}
	s.loop.makeDirty(s)
}

// resume runs the requests that the session has buffered. If the client's input has ended, it then ends the session,
// unless a reply is still being made.
func (s *session) resume() {
	if s.state == idle && s.body.pending() {
		s.to(stalled)
	}
	if s.state == idle && s.inStart < len(s.in) {
		s.inStart += s.handle(s.in[s.inStart:])
		if s.inStart == len(s.in) || s.state == closing {
			s.dropInput()
		}
	}
	if s.leaving && s.state != stalled && !s.answering() {
		s.stopWaiting()
		s.quit()
	}
}

// handle runs the requests in in, as far as the session's state allows, and returns how many bytes they took.
func (s *session) handle(in []byte) int {
	s.takeOutput()
	used := 0
	for s.state == idle && used < len(in) {
		if s.skip > 0 {
			n := min(s.skip, int64(len(in)-used))
			s.skip -= n
			used += int(n)
			continue
		}
		rest := in[used:]
		if len(rest) < s.need {
			break
		}
		if s.spent() {
			s.yielded = true
			s.to(stalled)
			s.loop.later(s)
			break
		}
		before := len(s.out)
		s.replyStart = before
		n := s.proto.next(s, rest)
		s.endReply(s.replyStart)
		if n == 0 {
			break
		}
		used += n
		s.tally.requests++
		s.need = 0
		s.loop.touch(s)
		if len(s.out) >= s.owed+smallReply {
			s.countOutput()
		}
		if s.state == idle && (len(s.out) > before || s.body.pending()) && s.owesTooMuch() {
			s.to(stalled)
		}
		s.work += 1 + int(uint(n)/workSize) + int(uint(max(len(s.out)-before, 0))/replyWork)
	}
	s.putGathered()
	return used
}

// unstall goes on with a stalled session, if the client has read enough.
func (s *session) unstall() {
	if s.state != stalled {
		return
	}
	if !s.sendBody() || s.owesTooMuch() {
		s.yielded = false // from now on it waits for its client
		return
	}
	if s.spent() {
		s.loop.later(s)
		return
	}
	s.yielded = false
	s.to(idle)
	s.takeOutput()
	s.loop.makeDirty(s)
	switch s.wait.kind {
	case waitMonitor:
		s.continueMonitor()
	case waitReport:
		s.makePiece()
	}
	s.resume()
}

// heed handles the news of a session that the loop has taken out of its mailbox.
func (s *session) heed() {
	if s.news&writable != 0 {
		s.sink.sendUnsent()
		if s.state != closed {
			s.countOutput()
		}
		s.unstall()
	}
	if s.news&waitEnded != 0 {
		s.waitOver()
	}
}

// waitOver ends a wait: its item or its result has come, or never will.
func (s *session) waitOver() {
	w, l := &s.wait, s.loop
	kind, ref, err := w.kind, w.waiter.Read, w.waiter.Err
	w.kind = noWait
	s.uncountWait()
	if v := w.several; v != nil && v.waiting && kind == waitFetch {
		ref, err = s.endSeveral()
	} else if v != nil {
		v.names = v.names[:0] // what is over was a wait at one queue
	}
	if kind == waitJob {
		l.counters.CmdSet += w.jobPuts // also if the client has gone
		if s.state != waiting || w.jobFault != nil {
			s.unpin()
		}
		if s.state == waiting && !s.leaving {
			s.sink.listen(true)
		}
		if w.jobFault != nil {
			panic(w.jobFault)
		}
	}
	if s.state != waiting {
		if kind == waitJob {
			s.dropAnswer()
			l.engine.CancelWait(&w.waiter) // the watch of a request that was being matched
			return
		}
		release := engine.Return{How: engine.Release} // the client never saw the item
		if _, ended, _ := l.engine.Return(l.now, []engine.ReadRef{ref}, release); ended > 0 {
			l.counters.DeliveredToDead++
		}
		s.dropSeveral()
		return
	}
	left := int32(0)
	if w.heapIndex >= 0 {
		left = int32(max(w.deadline-l.clock, 0))
	}
	l.deadlines.remove(s)
	l.touch(s) // a session is not idle while the server owes it a reply
	s.to(idle)
	s.takeOutput()
	l.makeDirty(s)
	s.replyStart = len(s.out)
	if kind != waitJob && (s.id.user != nil || s.unheard) {
		ref, err = s.stillMayHave(ref, err)
	}
	switch kind {
	case waitJob:
		s.jobOver()
	case waitPeek:
		l.headItem = l.headItem[:0]
		if err == nil && !s.collect(ref) {
			if err = engine.ErrEmpty; s.isLost(ref) {
				err = errLost
			}
		}
		w.peeked(s, err)
	case waitMatch:
		w.matched(s, ref, err)
	case waitFetch, waitMonitor:
		s.waitedFor(kind, ref, err, left)
	}
	s.releaseReserved(s.state == waiting)
	s.endReply(s.replyStart)
	s.resume()
}

// jobOver words the outcome of a job. The protocol may then begin another job, which uses the same input.
func (s *session) jobOver() {
	defer func() {
		if s.wait.kind != waitJob {
			s.unpin()
		}
	}()
	s.wait.jobDone(s, s.wait.jobResult)
}

// deadlinePassed ends a wait without an item, unless the engine has ended it already: then the news is in the mailbox.
func (s *session) deadlinePassed() {
	l, kind := s.loop, s.wait.kind
	if s.id.unknown {
		l.deadlines.remove(s)
		l.counters.Unidentified++
		s.quit()
		return
	}
	if s.burrow != nil && s.burrow.arriving && s.state != waiting {
		s.requestLate()
		return
	}
	if !l.cancel(s) {
		return
	}
	l.counters.GetMisses++
	l.latencies.wait(s.wait.meter, int64(l.clock-s.wait.began))
	l.touch(s)
	s.nothingCame(kind)
	l.makeDirty(s)
	s.resume()
}

// nothingCame words the outcome of a wait of that kind, which has ended without an item.
func (s *session) nothingCame(kind waitKind) {
	s.to(idle)
	s.takeOutput()
	if kind == waitPeek {
		s.wait.peeked(s, engine.ErrEmpty)
	} else {
		s.proto.none(s)
	}
}

// stopWaiting ends the wait of a session whose client sends nothing more, with the reply that nothing came. By TCP,
// a client that may still read looks like one that is gone, and an item sent to the latter would be lost.
func (s *session) stopWaiting() {
	if s.state != waiting {
		return
	}
	kind := s.wait.kind
	if s.loop.cancel(s) { // else an item is on its way, and comes back
		s.loop.counters.WaitsDropped++
	}
	s.abandonGet() // what it has collected comes back
	s.nothingCame(kind)
}

// reidentify looks the client of s up in a changed list of users. It closes the session if the user is gone. It ends a
// wait, or a text put, that the user has no right to any more.
func (s *session) reidentify(users *access.Users) {
	was := s.id.user
	if was == nil {
		return
	}
	now := s.id.among(users)
	if now == nil {
		s.loop.log.Info("connection closed: its user is gone", "user", was.Name, "peer", s.sink.peer())
		s.quit()
		return
	}
	s.joinAs(now)
	if it := &s.items; it.putting && it.err == nil { // its next lines are not put any more
		it.err = s.denied(need{access.Put, onQueue}, it.name)
	}
	if b := s.burrow; b != nil {
		b.credential = b.credential[:0] // checked anew with the next request
	}
	if s.state == waiting && s.wait.kind != waitJob && !s.mayWaitOn(s.waitRight()) {
		s.deadlinePassed()
	}
}

// waitRight is the right that a wait for items needs.
func (s *session) waitRight() access.Right {
	switch {
	case s.burrow != nil:
		return burrowNeeds[s.burrow.req.Op].right
	case s.wait.access == engine.Peek:
		return access.Peek
	}
	return access.Get
}

// stillMayHave returns what a wait has brought, unless the client is gone, or a reload has taken its right to that
// meanwhile. Then the item comes back, as if the client had never seen it, and the error says why.
func (s *session) stillMayHave(ref engine.ReadRef, err error) (engine.ReadRef, error) {
	n := need{s.waitRight(), onQueue}
	if ref.IsZero() || !s.unheard && s.id.may(n.right, s.wait.name) {
		return ref, err
	}
	s.loop.engine.Return(s.loop.now, []engine.ReadRef{ref}, engine.Return{How: engine.Release})
	if s.unheard {
		return engine.ReadRef{}, errGetUnavailable
	}
	return engine.ReadRef{}, s.denied(n, s.wait.name)
}

// mayWaitOn reports whether the client has a right on every queue that it waits for.
func (s *session) mayWaitOn(right access.Right) bool {
	if v := s.wait.several; v != nil && v.waiting {
		return !slices.ContainsFunc(v.names, func(name []byte) bool { return !s.id.may(right, name) })
	}
	return s.id.may(right, s.wait.name)
}

// endSeveral returns the outcome of a wait for several queues. From here on the wait is one for the queue of the
// item.
func (s *session) endSeveral() (ref engine.ReadRef, err error) {
	w := &s.wait
	which, ref, err := s.loop.engine.EndAny(&w.several.wait)
	w.several.waiting = false
	w.name = append(w.name[:0], w.several.names[which]...)
	w.spelt = append(w.spelt[:0], w.several.sources[which].spelt...)
	s.name = w.spelt
	return ref, err
}
