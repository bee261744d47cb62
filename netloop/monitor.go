package netloop

import (
	"errors"

	"github.com/kestrelmq/kestrel/engine"
)

// monitor delivers items of the queue called name as open reads. It ends at the deadline, after
// limit items (no limit if negative), or at the limit of open reads. spelt is what the client calls
// the queue.
func (s *session) monitor(name, spelt []byte, deadline moment, limit int) {
	if s.readsShort() {
		s.loop.counters.RepliesRefused++
		s.refuse(engine.ErrOutOfMemory)
		return
	}
	room := max(s.loop.server.opts.MaxOpenReads-s.countReads(name), 0)
	if limit < 0 || limit > room {
		limit = room
	}
	s.deliverMany(name, spelt, engine.OpenRead, terms{}, deadline, limit)
}

// deliverMany hands items of the queue called name to the protocol, and keeps them among the
// session's reads. It ends at the deadline, after limit items (no limit if negative), or when the
// protocol wants no more.
func (s *session) deliverMany(
	name, spelt []byte, access engine.Access, on terms, deadline moment, limit int,
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
	w.spelt = append(w.spelt[:0], spelt...)
	w.name = append(w.name[:0], name...)
	s.name = w.spelt
	s.continueMonitor()
}

// continueMonitor delivers what is there and waits for more, or ends the monitor. It stops for a
// while when the client does not read.
func (s *session) continueMonitor() {
	w, l := &s.wait, s.loop
	w.kind = noWait
	waits, deadline := w.until != atOnce, w.until
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
		most := w.remaining
		if most < 0 || most > maxFetched {
			most = maxFetched
		}
		if s.id.usage != nil && s.reserves(w.access) {
			var err error
			if most, err = s.reserveReads(s.halfOfReads(most)); err != nil && !w.delivered {
				s.refuse(err)
				return
			}
			if most == 0 {
				break // it has all that its user may have
			}
		}
		before := len(s.out)
		n, got, err := s.tryMany(w.name, w.access, wait, most)
		s.releaseReserved(got.Waiting)
		w.remaining -= n
		w.delivered = w.delivered || n > 0
		s.work += (len(s.out) - before) / replyWork
		if s.body.pending() {
			s.pauseMonitor()
			return
		}
		if got.Waiting {
			s.beginWait(waitMonitor, w.name, w.spelt, w.access, deadline)
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

// waitedFor words what has come of a wait for items, or waits again for what is left of its time, in milliseconds.
func (s *session) waitedFor(kind waitKind, ref engine.ReadRef, err error, left int32) {
	switch {
	case isDenied(err) && kind == waitMonitor:
		s.continueMonitor() // which ends it
	case errors.Is(err, engine.ErrBacklog), errors.Is(err, engine.ErrNotAdmitted), isDenied(err):
		s.refuse(err)
	case s.collect(ref):
		if kind == waitMonitor {
			s.wait.remaining--
			s.wait.delivered = true
			s.continueMonitor()
		}
	case !s.isLost(ref):
		s.notTaken()
	case kind == waitMonitor:
		s.continueMonitor()
	default:
		s.fetchAgain(left)
	}
}

// isLost reports whether the item that a wait has brought, and that was not collected, was overwritten or removed
// meanwhile. There may be another one.
func (s *session) isLost(ref engine.ReadRef) bool { return !ref.IsZero() && !s.noRoom }

// fetchAgain goes on with a fetch that has lost its item. It is the same request, and counts once.
func (s *session) fetchAgain(left int32) {
	w, c := &s.wait, &s.loop.counters
	gets, peeks := c.CmdGet, c.CmdPeek
	s.releaseReserved(false)
	if v := w.several; v != nil && len(v.names) > 0 {
		s.fetchNamed(w.access, left)
	} else {
		s.fetch(w.name, w.spelt, w.access, left, 1)
	}
	c.CmdGet, c.CmdPeek = gets, peeks
}

// collect hands the item that the wait has brought to the protocol. It reports false if there is
// none.
func (s *session) collect(ref engine.ReadRef) bool {
	w, l := &s.wait, s.loop
	t, ok := l.engine.Collect(l.now, ref, s.ask(engine.FetchRequest{Access: w.access}), s)
	if !ok {
		if !s.isLost(ref) {
			l.counters.GetMisses++
		}
		return false
	}
	l.counters.GetHits++
	s.after(t)
	if w.access.Holds() {
		s.opened(w.name, ref)
	}
	s.releaseReserved(false)
	return true
}
