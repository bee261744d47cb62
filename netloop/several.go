package netloop

import (
	"bytes"
	"math/rand/v2"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// This file fetches from the first of several queues that has an item.

// From implements engine.AnyReceiver.
func (s *session) From(i int) { s.name = s.wait.several.sources[i].spelt }

// beginSeveral begins a fetch from several queues, which addSource names.
func (s *session) beginSeveral() {
	if s.wait.several == nil {
		s.wait.several = new(several)
		s.loop.engine.Account(severalSize)
	}
	v := s.wait.several
	v.sources, v.names = v.sources[:0], v.names[:0]
}

// addSource adds a queue, and what the client calls it.
func (s *session) addSource(name, spelt []byte, weight int) {
	v := s.wait.several
	n := len(v.sources)
	if n == cap(v.sources) {
		v.sources = append(v.sources, source{})
	}
	v.sources = v.sources[:n+1]
	at := &v.sources[n]
	at.name, at.spelt = append(at.name[:0], name...), append(at.spelt[:0], spelt...)
	at.weight = weight
}

// isTwice reports whether a queue is among the sources twice.
func (v *several) isTwice() bool {
	for i := range v.sources {
		for j := range i {
			if bytes.Equal(v.sources[i].name, v.sources[j].name) {
				return true
			}
		}
	}
	return false
}

// shuffle orders the sources by chance, if there are weights: the larger the weight of a queue, the earlier it tends to
// come. Each is the next with a chance that is its share of the weights that are left. Draw returns a random number
// below its argument.
func (v *several) shuffle(draw func(n int) int) {
	total, weighted := 0, false
	for i := range v.sources {
		weighted = weighted || v.sources[i].weight > 0
		v.sources[i].weight = max(v.sources[i].weight, 1)
		total += v.sources[i].weight
	}
	if !weighted {
		return
	}
	for i := range v.sources {
		at, drawn := i, draw(total)
		for drawn >= v.sources[at].weight {
			drawn -= v.sources[at].weight
			at++
		}
		total -= v.sources[at].weight
		v.sources[i], v.sources[at] = v.sources[at], v.sources[i]
	}
}

// fetchSeveral is fetch from the first of the sources that has an item.
func (s *session) fetchSeveral(how engine.Access, millis int32) {
	v := s.wait.several
	if err := s.refusesSeveral(how); err != nil {
		s.refuse(err)
		return
	}
	v.shuffle(rand.IntN)
	for i := range v.sources {
		v.names = append(v.names, v.sources[i].name)
	}
	s.fetchNamed(how, millis)
}

// fetchNamed is fetchSeveral when the sources are in their order.
func (s *session) fetchNamed(how engine.Access, millis int32) {
	l, v := s.loop, s.wait.several
	v.wait.Notify = s
	if how == engine.Peek {
		l.counters.CmdPeek++
	} else {
		l.counters.CmdGet++
	}
	wait := millis > 0 && s.mayWait()
	request := s.fetchRequest(how, wait)
	got, which, err := l.engine.FetchAny(l.now, v.names, request, &v.wait, s)
	s.after(got.Ticket)
	s.countFetch(how, &got, got.Count, err)
	if err == nil && how.Holds() {
		s.opened(v.names[which], got.Read)
	}
	s.releaseReserved(got.Waiting)
	switch {
	case err == nil:
		l.counters.GetHits++
	case got.Waiting:
		v.waiting = true
		deadline := forever
		if wait {
			deadline = l.clock + moment(millis)
		}
		s.beginWait(waitFetch, v.names[0], v.sources[0].spelt, how, deadline)
	case err == engine.ErrEmpty && millis > 0 && !wait:
		s.refuse(s.waitsQuota())
	case err == engine.ErrEmpty, err == engine.ErrComing:
		if !got.Alias {
			l.counters.GetMisses++
		}
		s.proto.none(s)
	case err == engine.ErrNotTaken:
		s.notTaken()
	default:
		s.refuse(err)
	}
}

// refusesSeveral returns why the session may not fetch from the sources, or nil.
func (s *session) refusesSeveral(how engine.Access) error {
	switch {
	case s.readsBlocked():
		return errGetUnavailable
	case s.wait.several.isTwice():
		return errSameQueue
	case how.Holds() && s.readsShort():
		s.loop.counters.RepliesRefused++
		return engine.ErrOutOfMemory
	}
	right := access.Get
	if how == engine.Peek {
		right = access.Peek
	}
	for i := range s.wait.several.sources {
		if err := s.denied(need{right, onQueue}, s.wait.several.sources[i].name); err != nil {
			return err
		}
		n := s.countReads(s.wait.several.sources[i].name)
		switch {
		case how == engine.Take && n > 0:
			return errReadOpen
		case how == engine.OpenRead && n >= s.loop.server.opts.MaxOpenReads:
			return errTooManyReads
		}
	}
	if s.id.usage != nil && s.reserves(how) {
		_, err := s.reserveReads(1)
		return err
	}
	return nil
}
