package netloop

import (
	"errors"

	"github.com/kestrelmq/kestrel/engine"
)

// monitor delivers items of the queue called name as open reads. It ends at the deadline, after
// limit items (no limit if negative), or at the limit of open reads. Reply is what the client calls
// the queue.
func (s *session) monitor(name, reply []byte, deadline moment, limit int) {
	if s.readsShort() {
		s.loop.counters.RepliesRefused++
		s.refuse(engine.ErrOutOfMemory)
		return
	}
	room := max(s.loop.server.opts.MaxOpenReads-s.countReads(name), 0)
	room, err := s.readsQuota(room)
	if err != nil {
		s.refuse(err)
		return
	}
	if limit < 0 || limit > room {
		limit = room
	}
	s.deliverMany(name, reply, engine.OpenRead, terms{}, deadline, limit)
}

// deliverMany hands items of the queue called name to the protocol, and keeps them among the
// session's reads. It ends at the deadline, after limit items (no limit if negative), or when the
// protocol wants no more.
func (s *session) deliverMany(
	name, reply []byte, access engine.Access, on terms, deadline moment, limit int,
) {
	if s.readsBlocked() {
		s.refuse(errMonitorUnavailable)
		return
	}
	s.loop.counters.CmdMonitor++
	s.terms = on
	w := &s.wait
	w.access = access
	w.remaining, w.holds, w.delivered = limit, 0, false
	w.until = deadline
	w.reply = append(w.reply[:0], reply...)
	w.name = append(w.name[:0], name...)
	s.name = w.reply
	s.continueMonitor()
}

// continueMonitor delivers what is there and waits for more, or ends the monitor. It stops for a
// while when the client does not read.
func (s *session) continueMonitor() {
	w, l := &s.wait, s.loop
	w.kind = noWait
	waits, deadline := w.until != noDeadline, w.until
	wait := waits && s.mayWait()
	if !waits {
		deadline = forever
	}
	if s.body.pending() {
		s.pauseMonitor()
		return
	}
	for w.remaining != 0 && deadline > l.clock && !s.readsBlocked() && s.mayGoOn(w.name) {
		if s.thrift.get.count > 0 && s.repliesShort() {
			break // what it has collected is among the replies, and nobody can read it before it ends
		}
		if s.spent() || s.owesTooMuch() {
			s.pauseMonitor()
			return
		}
		before := len(s.out)
		n, got, err := s.tryMany(w.name, w.access, wait, w.remaining)
		w.remaining -= n
		w.delivered = w.delivered || n > 0
		s.work += (len(s.out) - before) / replyWork
		if s.body.pending() {
			s.pauseMonitor()
			return
		}
		if got.Waiting {
			s.beginWait(waitMonitor, w.name, w.reply, w.access, deadline)
			return
		}
		if err == engine.ErrNotTaken && s.growGet() {
			continue
		}
		if err == engine.ErrNotTaken && s.noRoom {
			s.notTaken()
			return
		}
		if err == engine.ErrEmpty && waits && !wait && !w.delivered {
			s.refuse(s.waitsQuota())
			return
		}
		if err == engine.ErrEmpty || err == engine.ErrNotTaken {
			break // no more is there, or wanted; or the server stops
		}
		if err != nil {
			s.refuse(err)
			return
		}
	}
	s.proto.none(s)
}

// pauseMonitor has the monitor go on in a later turn, or when the client has read.
func (s *session) pauseMonitor() {
	s.wait.kind = waitMonitor
	s.to(stalled)
	s.loop.later(s)
}

// waitedFor words what has come of a wait for items.
func (s *session) waitedFor(kind waitKind, ref engine.ReadRef, err error) {
	switch {
	case errors.Is(err, engine.ErrBacklog), errors.Is(err, engine.ErrNotAdmitted):
		s.refuse(err)
	case kind == waitFetch:
		if !s.collect(ref) {
			s.notTaken()
		}
	case s.collect(ref):
		s.wait.remaining--
		s.wait.delivered = true
		s.continueMonitor()
	default:
		s.notTaken()
	}
}

// collect hands the item that the wait has brought to the protocol. It reports false if there is
// none.
func (s *session) collect(ref engine.ReadRef) bool {
	w, l := &s.wait, s.loop
	t, ok := l.engine.Collect(l.now, ref, s.ask(engine.FetchRequest{Access: w.access}), s)
	if !ok {
		l.counters.GetMisses++
		return false
	}
	l.counters.GetHits++
	s.after(t)
	if w.access.Holds() {
		s.opened(w.name, ref)
	}
	return true
}
