package netloop

import (
	"strconv"
	"time"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// Requests about one message.

// which returns the message that the request names; ok is false if it cannot exist. Items without a key have the id
// @N.ID: the number of their queue, and their own. A queue that is made anew has another number.
func (s *session) which() (w engine.Which, ok bool) { return s.whichOf(s.burrow.req.ID) }

// whichOf returns the message that has that id.
func (s *session) whichOf(id []byte) (w engine.Which, ok bool) {
	if len(id) == 0 || id[0] != reservedPrefix {
		return engine.Which{Key: id}, true
	}
	number, rest, found := cutDot(id[1:])
	n, err := strconv.ParseUint(string(number), 10, 64)
	i, err2 := strconv.ParseUint(string(rest), 10, 64)
	if !found || err != nil || err2 != nil {
		return w, false
	}
	have, exists := s.loop.engine.QueueNumber(s.burrow.name)
	return engine.Which{ID: i}, exists && have == n
}

// cutDot cuts s around its first dot.
func cutDot(s []byte) (before, after []byte, found bool) {
	for i, c := range s {
		if c == '.' {
			return s[:i], s[i+1:], true
		}
	}
	return s, nil, false
}

// expiryOf returns when an item expires that lives for ttl seconds; 0 is never.
func (s *session) expiryOf(ttl int64) engine.Time {
	if ttl == 0 {
		return 0
	}
	return s.loop.now.After(time.Duration(ttl) * time.Second)
}

func burrowPut(s *session) {
	b := s.burrow
	ttl := int64(burrowTTL)
	if b.req.HasTTL {
		ttl = b.req.TTL
	}
	if b.req.ID[0] == reservedPrefix {
		s.refuse(engine.ErrBadKey)
		return
	}
	extra := &b.answer.extra
	*extra = engine.PutExtra{Key: b.req.ID, Delay: time.Duration(b.req.Hide) * time.Second}
	p := engine.PutRequest{Data: b.answer.body, Expiry: s.expiryOf(ttl), Extra: extra}
	if len(p.Data) > largePut {
		s.ownAnswer()
		extra.Key = b.req.ID
		s.putOneLater(b.name, p, (*session).burrowStored)
		return
	}
	s.burrowStored(s.put(b.name, p))
}

// burrowStored answers the put that was done last.
func (s *session) burrowStored(t engine.Ticket, err error) {
	if err != nil {
		s.refuse(err)
		return
	}
	s.claim(t)
	if s.loop.replaced > 0 {
		s.burrowEmpty(204)
		return
	}
	s.burrowEmpty(201)
}

func burrowGet(s *session) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	s.loop.counters.CmdGet++
	s.gatherOne(func(s *session, err error) {
		if err == nil {
			s.loop.counters.GetHits++
			s.answerOne()
			return
		}
		s.loop.counters.GetMisses++
		s.burrowMissing(err)
	})
}

// gatherOne has the message that the request names in the answer, and calls done: now, or when it has come from
// the disk. A deletion then has removed it: what the answer shows is what is gone.
func (s *session) gatherOne(done func(*session, error)) {
	a := s.burrow.answer
	a.gather(s, nil)
	a.look = engine.LookRequest{
		Delivery: &a.delivery, Remove: s.burrow.req.Op == burrow.OpDeleteMessage, ClientID: s.clientID,
	}
	s.lookOne(done)
}

// lookOne does the look of the answer. A job waits for what is on disk alone. Then the loop looks again, so that nothing
// is removed if the client has gone.
func (s *session) lookOne(done func(*session, error)) {
	b, l := s.burrow, s.loop
	which, ok := s.which()
	if !ok {
		done(s, engine.ErrNoSuchItem)
		return
	}
	b.answer.look.Which = which
	t, err := l.engine.Look(l.now, b.name, &b.answer.look, b.answer)
	if err == engine.ErrComing {
		s.awaitOne(func(s *session, err error) {
			if err != nil {
				done(s, err)
				return
			}
			s.lookOne(done)
		})
		return
	}
	s.after(t)
	s.claiming = s.claiming || b.answer.look.Remove
	b.answer.look = engine.LookRequest{}
	done(s, err)
}

// awaitOne has a job wait for the item of the answer's look. It asks for the right again then, unless the request has
// changed the item before.
func (s *session) awaitOne(done func(*session, error)) {
	a, l, changed := s.ownAnswer(), s.loop, s.claiming
	s.startJob(func() error { return l.engine.Await(&a.look) }, func(s *session, err error) {
		if s.claiming = changed; err == nil && !changed {
			err = s.stillDenied()
		}
		done(s, err)
	})
}

// answerOne answers with the one message in the answer.
func (s *session) answerOne() {
	a, detail := s.burrow.answer, s.burrow.req.Detail
	if detail == burrow.DetailNone {
		s.burrowEmpty(204)
		return
	}
	m := a.message(0)
	switch detail {
	case burrow.DetailID:
		s.burrowBody(burrow.Octets, m.ID)
	case burrow.DetailBody:
		s.burrowOctets(&a.messages[0], m.Body)
	default:
		if detail == burrow.DetailAll && len(m.Body) > largePut {
			s.wordLater()
			return
		}
		a.word(detail)
		s.burrowBody(burrow.JSON, a.text)
	}
}

// burrowOctets answers with the body of the one message. One that has memory of its own is sent from there.
func (s *session) burrowOctets(m *shown, data []byte) {
	if m.large == nil {
		s.burrowBody(burrow.Octets, data)
		return
	}
	r := s.burrow.frame
	r.Status, r.Type, r.Length = 200, burrow.Octets, len(data)
	s.out = burrow.AppendReply(s.out, r)
	s.body = body{item: m.large, rest: m.large}
	m.large = nil // the reply holds it now
	s.endBurrow()
}

// wordLater answers with the one message, which is so large that a job words it.
func (s *session) wordLater() {
	a, detail, claims := s.ownAnswer(), s.burrow.req.Detail, s.claiming
	s.gathers(len(a.message(0).Body))
	s.startJob(func() error {
		a.word(detail)
		return nil
	}, func(s *session, _ error) {
		s.claiming = claims
		s.burrowLong(a)
	})
}

// burrowLong answers with what was worded, which may be long: it is sent from where it lies.
func (s *session) burrowLong(a *burrowAnswer) {
	r := s.burrow.frame
	r.Status, r.Type, r.Length = 200, burrow.JSON, len(a.text)
	s.out = burrow.AppendReply(s.out, r)
	if s.appendReply(a.text) {
		a.text = nil
	}
	s.endBurrow()
}

// burrowUpdate changes ttl and hide of one message.
func burrowUpdate(s *session) {
	if s.writesBlocked() {
		s.refuse(errSetUnavailable)
		return
	}
	b := s.burrow
	to := s.changes()
	if to == (engine.Changes{}) {
		s.gatherOne((*session).burrowUpdated)
		return
	}
	b.answer.look = engine.LookRequest{ClientID: s.clientID}
	s.changeOne(to)
}

// changeOne changes the message that the request names. A job waits for what is on disk alone. Then the loop changes it, if
// the client may still do that.
func (s *session) changeOne(to engine.Changes) {
	b, l := s.burrow, s.loop
	which, ok := s.which()
	if !ok {
		s.burrowMissing(engine.ErrNoSuchItem)
		return
	}
	b.answer.look.Which = which
	t, err := l.engine.Change(l.now, b.name, &b.answer.look, to)
	if err == engine.ErrComing {
		s.awaitOne(func(s *session, err error) {
			if err != nil {
				s.burrowMissing(err)
				return
			}
			s.changeOne(to)
		})
		return
	}
	b.answer.look = engine.LookRequest{}
	s.burrowChanged(t, err)
}

// changes returns what the request changes.
func (s *session) changes() (a engine.Changes) {
	req := &s.burrow.req
	if req.HasTTL {
		a.SetExpiry, a.Expiry = true, s.expiryOf(req.TTL)
	}
	if req.HasHide {
		a.SetDelay, a.Delay = true, time.Duration(req.Hide)*time.Second
	}
	return a
}

// burrowChanged answers an update of one message.
func (s *session) burrowChanged(t engine.Ticket, err error) {
	s.claim(t)
	switch {
	case err != nil:
		s.burrowMissing(err)
	case s.burrow.req.Detail == burrow.DetailNone:
		s.burrowEmpty(204)
	default:
		s.gatherOne((*session).burrowUpdated)
	}
}

// burrowUpdated answers with the message that was updated.
func (s *session) burrowUpdated(err error) {
	if err != nil {
		s.burrowMissing(err)
		return
	}
	s.claiming = true
	s.answerOne()
}

func burrowDelete(s *session) {
	if s.writesBlocked() {
		s.refuse(errDeleteUnavailable)
		return
	}
	if s.burrow.req.Detail == burrow.DetailNone {
		s.removeOne()
		return
	}
	s.gatherOne(func(s *session, err error) {
		if err != nil {
			s.burrowMissing(err)
			return
		}
		s.answerOne()
	})
}

// removeOne removes the message that the request names, and shows nothing of it.
func (s *session) removeOne() {
	which, ok := s.which()
	if !ok {
		s.burrowMissing(engine.ErrNoSuchItem)
		return
	}
	t, err := s.loop.engine.Remove(s.loop.now, s.burrow.name, s.clientID, which)
	s.claim(t)
	if err != nil {
		s.burrowMissing(err)
		return
	}
	s.burrowEmpty(204)
}

// burrowMissing answers a request for one message that was refused: if there is no such message, with what is
// missing.
func (s *session) burrowMissing(err error) {
	if err != engine.ErrNoSuchItem {
		s.refuse(err)
		return
	}
	s.burrowText(404, s.whatIsMissing())
}
