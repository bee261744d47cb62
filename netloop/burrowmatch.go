package netloop

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// Requests about all messages of a queue that match: GET lists them, POST changes and DELETE removes them. A loop
// does the first few itself, and leaves the rest to a job. A reply is made whole, because the clients of 2011 want
// its length first. Only a long list is sent in chunks.

const (
	// matchPiece is how many bytes of items, about, a loop matches itself.
	matchPiece = 16 << 10
	// wholeMatch is how many bytes of messages are gathered for a reply with a length. A request that changes
	// messages and shows them ends there, as if it had been its limit.
	wholeMatch = 4 << 20
)

// burrowMatch begins a request about the messages that match.
func burrowMatch(s *session) {
	b, l := s.burrow, s.loop
	op := b.req.Op
	switch {
	case !op.Changes() && s.readsBlocked():
		s.refuse(errGetUnavailable)
		return
	case op.Changes() && s.writesBlocked():
		s.refuse(errDeleteUnavailable)
		return
	}
	if !op.Changes() {
		l.counters.CmdGet++
	}
	b.until = atOnce
	if wait := min(b.req.Wait, burrowLongest); wait > 0 {
		b.until = l.clock + moment(wait*1000)
	}
	s.beginMatch()
}

// beginMatch is match for a request that may have to wait.
func (s *session) beginMatch() {
	b, l := s.burrow, s.loop
	if b.until > l.clock && !b.amongWaiters() {
		if err := b.watch.begin(s, b.name); err != nil {
			s.refuse(err)
			return
		}
	}
	s.match()
}

// match does the request once.
func (s *session) match() {
	b, l := s.burrow, s.loop
	a := b.answer
	a.gather(s, s.walking())
	a.text = append(a.text[:0], '[')
	if !a.step(l.now, matchPiece) {
		a.word(b.req.Detail)
		s.matched(nil)
		return
	}
	s.ownAnswer()
	detail, most, standing := b.req.Detail, s.roomToMatch(), s.standing(b.need())
	s.startJob(func() error {
		a.word(detail)
		return l.server.matchRest(a, detail, most, standing)
	}, func(s *session, err error) {
		s.noteJobDenied(err)
		if err == nil && !b.req.Op.Changes() {
			err = s.stillDenied()
		}
		s.matched(err)
	})
}

// roomToMatch counts what a job is going to gather as owed to the client, and returns how many bytes that may be. It
// is little if all replies take much. A long list then goes on in chunks.
func (s *session) roomToMatch() (most int) {
	most = wholeMatch
	if s.loop.server.owed.Load()+wholeMatch > s.share() {
		most = matchPiece
	}
	s.gathers(most)
	return most
}

// matchRest goes on with a walk until it is over, a has enough for a reply, or there is no room for the next message. It
// ends when a reload has taken the client's right.
func (srv *Server) matchRest(a *burrowAnswer, detail burrow.Detail, most int, client *standing) error {
	for a.more && len(a.text) < most {
		a.walk.Wait()
		if srv.cutOff.Load() {
			return engine.ErrClosed
		}
		if err := client.denied(); err != nil {
			return err
		}
		if a.step(engine.Now(), pieceSize); a.refused() {
			break
		}
		a.word(detail)
	}
	return nil
}

// walking returns a walk past the messages that match.
func (s *session) walking() *engine.Scan {
	b, e := s.burrow, s.loop.engine
	m := engine.Match{Limit: int(b.req.Limit), Hidden: b.req.MatchHidden}
	if len(b.req.Marker) > 0 {
		if id, ok := s.position(b.req.Marker); ok {
			m.From = id + 1
		}
	}
	switch b.req.Op {
	case burrow.OpDeleteMessages:
		return e.Removing(b.name, s.clientID, m)
	case burrow.OpUpdateMessages:
		if to := s.changes(); to != (engine.Changes{}) {
			return e.Changing(b.name, s.clientID, m, to)
		}
	}
	return e.List(b.name, m)
}

// position returns the place of the message with that id.
func (s *session) position(id []byte) (place uint64, ok bool) {
	b := s.burrow
	if id[0] == reservedPrefix {
		which, ok := s.whichOf(id)
		return which.ID, ok
	}
	return s.loop.engine.Find(s.loop.now, b.name, id)
}

// matched answers a request whose walk is over, or has filled a reply. If nothing matches it waits.
func (s *session) matched(err error) {
	b, l := s.burrow, s.loop
	a := b.answer
	s.gathers(0)
	n, t, failed := a.walk.Result()
	s.work += n
	if b.req.Op.Changes() {
		s.claim(t)
		s.chargeItems(n, 0)
	} else {
		s.after(t)
	}
	if err == nil {
		err = failed
	}
	if err != nil && n > 0 && b.req.Op.Changes() && b.req.Detail != burrow.DetailNone {
		s.noteRefused(err)
		err = nil // as at the limit: nobody else shows what was changed, and the next request hears the error
	}
	if n > 0 || err != nil && err != engine.ErrNoSuchItem || s.noRoom {
		l.engine.CancelWait(&s.wait.waiter)
	}
	switch {
	case err != nil && err != engine.ErrNoSuchItem:
		s.refuse(err)
	case n == 0 && s.noRoom:
		s.notTaken()
	case n == 0:
		l.counters.GetMisses++
		s.waitForMatch()
	case b.req.Detail == burrow.DetailNone:
		s.countMatches(n)
		s.burrowEmpty(204)
	case a.more && !b.req.Op.Changes():
		s.countMatches(n)
		s.listOn(a)
	default:
		s.countMatches(n)
		a.text = append(a.text, ']')
		s.burrowLong(a)
	}
}

// countMatches counts messages that were shown.
func (s *session) countMatches(n int) {
	if !s.burrow.req.Op.Changes() {
		s.loop.counters.GetHits += int64(n)
	}
}

// listOn sends what there is of a long list, and then the rest in chunks. A client of HTTP/1.0 knows no chunks:
// the end of the connection ends the list. If there is no room for the next message, or a reload has taken the right to
// it, the connection ends inside the list.
func (s *session) listOn(a *burrowAnswer) {
	r := s.burrow.frame
	old := s.burrow.head.Old()
	r.Status, r.Type, r.Chunked, r.Close = 200, burrow.JSON, !old, r.Close || old
	r.Unsized = old
	detail := s.burrow.req.Detail
	srv := s.loop.server
	s.burrow.frame.Close = r.Close
	first, cut, sent := burrow.AppendReply(nil, r), false, 0 // bytes of the text
	var denied *access.Denied
	s.gathers(cap(a.text))
	a.release()
	s.startReportThen(func(user *access.User, dst []byte) (piece []byte, more bool) {
		if name := a.session.burrow.name; !user.May(access.Peek, name) {
			denied = &access.Denied{Right: access.Peek, Queue: string(name)}
			return dst, false
		}
		dst = append(dst, first...)
		first = nil
		if sent == len(a.text) && a.more {
			if a.text, sent = a.text[:0], 0; cap(a.text) > maxPooledBuffer {
				a.text = nil
			}
			a.release()
			a.session.noRoom = false
			a.walk.Wait()
			a.step(engine.Now(), pieceSize)
			if cut = a.refused(); cut {
				return dst, false
			}
			a.more = a.more && !srv.cutOff.Load()
			a.word(detail)
		}
		n := min(len(a.text)-sent, pieceSize)
		dst = appendListPiece(dst, a.text[sent:sent+n], old)
		if sent += n; sent < len(a.text) || a.more {
			return dst, true
		}
		dst = appendListPiece(dst, []byte{']'}, old)
		if !old {
			dst = append(dst, burrow.LastChunk...)
		}
		return dst, false
	}, func(s *session) {
		switch {
		case cut:
			s.loop.counters.RepliesRefused++
			s.burrow.frame.Close = true
		case denied != nil:
			s.loop.noteDenied(s, denied)
			s.burrow.frame.Close = true
		}
		s.endBurrow()
	})
}

// appendListPiece appends a piece of a list that is sent in chunks, or to a client that knows none.
func appendListPiece(dst, piece []byte, old bool) []byte {
	if old {
		return append(dst, piece...)
	}
	return burrow.AppendChunk(dst, piece)
}

// waitForMatch answers that nothing matches, or waits for something that does.
//
// A request that hides or removes the next visible message is among the waiters of its queue, beside gets and opens.
// Each item goes to one of them. Others watch the queue: they hear that an item has become visible, and match again.
// A watch begins before its request matches, so that it misses nothing.
func (s *session) waitForMatch() {
	b, l := s.burrow, s.loop
	if b.until <= l.clock || l.draining {
		l.engine.CancelWait(&s.wait.waiter)
		s.burrowText(404, s.whatIsMissing())
		return
	}
	if !s.mayWait() {
		l.engine.CancelWait(&s.wait.waiter)
		s.refuse(s.waitsQuota())
		return
	}
	err := s.stillDenied()
	if err == nil {
		err = s.admitWait()
	}
	if err != nil {
		l.engine.CancelWait(&s.wait.waiter)
		s.refuse(err)
		return
	}
	s.copyRequest()
	if !b.amongWaiters() {
		s.wait.meter, s.wait.began, s.wait.matched = nil, l.clock, (*session).matchWaited
		s.beginWait(waitMatch, b.name, nil, engine.Peek, b.until)
		if !b.watch.arm() { // something has come meanwhile: match again in the next turn
			l.post(s, waitEnded)
		}
		return
	}
	s.terms = terms{}
	b.answer.gather(s, nil)
	got, err := l.engine.Fetch(l.now, b.name, s.fetchRequest(engine.Hold, true), b.answer)
	switch {
	case err == nil:
		s.after(got.Ticket)
		s.matchOpened(got.Read)
	case got.Waiting:
		s.wait.meter, s.wait.began, s.wait.matched = got.Meter, l.clock, (*session).matchWaited
		s.beginWait(waitMatch, b.name, nil, engine.Hold, b.until)
	case err == engine.ErrEmpty:
		s.burrowText(404, s.whatIsMissing()) // the server stops
	case err == engine.ErrNotTaken:
		s.notTaken()
	default:
		s.refuse(err)
	}
}

// amongWaiters reports whether the request is among the waiters of its queue.
func (b *burrowState) amongWaiters() bool {
	req := &b.req
	if len(req.Marker) > 0 {
		return false
	}
	return req.Op == burrow.OpDeleteMessages || req.Op == burrow.OpUpdateMessages && req.HasHide && req.Hide > 0
}

// matchWaited goes on with a request whose wait is over: ref is the item that it got as a waiter, if it was one.
func (s *session) matchWaited(ref engine.ReadRef, err error) {
	b, l := s.burrow, s.loop
	b.answer = l.burrowAnswer
	b.answer.begin(s, nil)
	switch {
	case errors.Is(err, engine.ErrDeleted), err == engine.ErrEmpty:
		s.burrowText(404, s.whatIsMissing())
	case err != nil:
		s.refuse(err)
	case ref.IsZero():
		if err := s.stillDenied(); err != nil {
			l.engine.CancelWait(&s.wait.waiter)
			s.refuse(err)
			return
		}
		s.beginMatch()
	default:
		b.answer.gather(s, nil)
		t, ok := l.engine.Collect(l.now, ref, s.ask(engine.FetchRequest{Access: engine.Hold}), b.answer)
		switch {
		case ok:
			s.after(t)
			s.matchOpened(ref)
		case s.isLost(ref):
			s.beginMatch()
		default:
			s.notTaken()
		}
	}
}

// matchOpened does what the request wants with the item that the session has open, and that is in the answer.
func (s *session) matchOpened(ref engine.ReadRef) {
	b, l := s.burrow, s.loop
	a := b.answer
	if b.req.Op == burrow.OpDeleteMessages {
		t, _ := l.engine.Confirm(l.now, ref)
		s.claim(t)
	} else {
		t, err := s.hideOpened(ref)
		if err != nil {
			s.refuse(err)
			return
		}
		s.claim(t)
		a.messages[0].hide = b.req.Hide * 1000
	}
	if b.req.Detail == burrow.DetailNone {
		s.burrowEmpty(204)
		return
	}
	a.text = append(a.text[:0], '[')
	a.word(b.req.Detail)
	a.text = append(a.text, ']')
	s.burrowLong(a)
}

// hideOpened gives the item that is open back, hidden and with the new expiry that the request wants. It sets the expiry
// first, while nobody else can have the item, nor the disk alone. If the item cannot be hidden, it comes back as it was.
func (s *session) hideOpened(ref engine.ReadRef) (t engine.Ticket, err error) {
	b, l := s.burrow, s.loop
	m := &b.answer.messages[0]
	expire := func(at engine.Time) (engine.Ticket, error) {
		which := engine.LookRequest{Which: engine.Which{ID: m.place}, ClientID: s.clientID}
		return l.engine.Change(l.now, b.name, &which, engine.Changes{SetExpiry: true, Expiry: at})
	}
	if b.req.HasTTL {
		t, err = expire(s.expiryOf(b.req.TTL))
	}
	if err == nil {
		hide := engine.Return{How: engine.Release, Delayed: true, Delay: time.Duration(b.req.Hide) * time.Second}
		var u engine.Ticket
		if u, _, err = l.engine.Return(l.now, []engine.ReadRef{ref}, hide); err != nil && b.req.HasTTL { // for too long
			expire(m.expiry)
		}
		t = t.Merge(u)
	}
	if err != nil {
		l.engine.Return(l.now, []engine.ReadRef{ref}, engine.Return{How: engine.Release})
	} else if b.req.HasTTL {
		m.ttl = b.req.TTL * 1000
	}
	return t, err
}

// burrowWatch is how a session hears that an item of a queue has become visible. It begins before the request
// matches. The session learns of what comes then when it has found nothing, and arms the watch.
type burrowWatch struct {
	session *session
	state   atomic.Uint32
}

// States of a burrowWatch.
const (
	watchBegun uint32 = iota // what comes is remembered
	watchArmed               // what comes wakes the session
	watchOver                // something has come
)

// WaitEnded implements engine.Notifier.
func (w *burrowWatch) WaitEnded(*engine.Waiter) {
	if w.state.Swap(watchOver) == watchArmed {
		w.session.loop.post(w.session, waitEnded)
	}
}

// begin watches the queue called name. A watch that has begun goes on.
func (w *burrowWatch) begin(s *session, name []byte) error {
	waiter := &s.wait.waiter
	s.loop.engine.CancelWait(waiter)
	w.session = s
	w.state.Store(watchBegun)
	waiter.Notify = w
	return s.loop.engine.Watch(s.loop.now, name, waiter)
}

// arm reports false if something has come already.
func (w *burrowWatch) arm() bool { return w.state.CompareAndSwap(watchBegun, watchArmed) }
