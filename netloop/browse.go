package netloop

import (
	"bytes"
	"errors"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// What is done to single items, by their ids or keys, and lists of them.

// defaultLimit is how many items a list has at most if the client does not say.
const defaultLimit = 100

// gotItem keeps an item that a job has got for its session.
type gotItem struct{ item engine.Item }

// Receive implements engine.Receiver.
func (h *gotItem) Receive(it engine.Item) bool {
	h.item = it
	if !it.HasOwnMemory() {
		h.item = it.Clone()
	}
	return true
}

// cloneWhich returns which with memory of its own.
func cloneWhich(which engine.Which) engine.Which {
	which.Key = bytes.Clone(which.Key)
	return which
}

// lookAt hands one item of the queue called name to the protocol, wherever it is, and leaves it there. Reply is
// what the client calls the queue.
func (s *session) lookAt(name, spelt []byte, which engine.Which) {
	l := s.loop
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	s.name = spelt
	l.counters.CmdPeek++
	t, err := l.engine.Look(l.now, name, &engine.LookRequest{Which: which, Delivery: &s.delivery}, s)
	if err != engine.ErrComing {
		s.looked(t, err)
		return
	}
	name, which = bytes.Clone(name), cloneWhich(which)
	s.wait.spelt = append(s.wait.spelt[:0], spelt...)
	var got gotItem
	s.startJob(func() (err error) {
		t, err = l.engine.Look(engine.Now(), name, &engine.LookRequest{Which: which, Wait: true, Delivery: &s.delivery}, &got)
		return err
	}, func(s *session, err error) {
		s.name = s.wait.spelt
		if err == nil {
			err = s.denied(need{access.Peek, onQueue}, name) // a reload may have come
		}
		if err == nil && !s.Receive(got.item) {
			err = engine.ErrNotTaken
		}
		s.looked(t, err)
	})
}

// looked words the outcome of a look.
func (s *session) looked(t engine.Ticket, err error) {
	s.after(t)
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrNoSuchItem):
		s.proto.none(s)
	case err == engine.ErrNotTaken:
		s.notTaken()
	default:
		s.refuse(err)
	}
}

// remove removes one item for good.
func (s *session) remove(name []byte, which engine.Which) error {
	if s.writesBlocked() {
		return errDeleteUnavailable
	}
	t, err := s.loop.engine.Remove(s.loop.now, name, s.clientID, which)
	s.claim(t)
	return err
}

// changeExpiry changes the expiry of one item, and calls done with the outcome: now, or when it has been read from the
// disk.
func (s *session) changeExpiry(name []byte, which engine.Which, expiry engine.Time, done func(*session, error)) {
	s.changeRead(name, engine.LookRequest{Which: which, ClientID: s.clientID}, expiry, done)
}

// changeRead is changeExpiry of an item that may have been read. If it has not, a job waits for it. Then the loop changes it,
// if the client may still do that.
func (s *session) changeRead(name []byte, which engine.LookRequest, expiry engine.Time, done func(*session, error)) {
	l := s.loop
	if s.writesBlocked() {
		done(s, errSetUnavailable)
		return
	}
	t, err := l.engine.Change(l.now, name, &which, engine.Changes{SetExpiry: true, Expiry: expiry})
	if err != engine.ErrComing {
		s.claim(t)
		done(s, err)
		return
	}
	name, coming := bytes.Clone(name), which
	coming.Which = cloneWhich(which.Which)
	s.startJob(func() error { return l.engine.Await(&coming) }, func(s *session, err error) {
		if err == nil {
			err = s.denied(need{access.Get, onQueue}, name) // a reload may have come
		}
		if err != nil {
			done(s, err)
			return
		}
		s.changeRead(name, coming, expiry, done)
	})
}

// listing is a list of items on its way. Its pieces are made on goroutines of their own, one after the other.
type listing struct {
	e      *engine.Engine
	name   []byte // of the queue
	scan   *engine.Scan
	denied *access.Denied // a reload has taken the right to it
	dst    []byte
	// word appends one item, and end what follows the last, or an error.
	word func(dst []byte, it engine.Item, d *engine.Delivery) []byte
	end  func(dst []byte, err error) []byte
}

// list answers with items of the queue called name, in the order of their ids.
func (s *session) list(name []byte, m engine.Match, l listing) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	if m.Limit == 0 {
		m.Limit = defaultLimit
	}
	s.loop.counters.CmdPeek++
	l.e, l.name = s.loop.engine, bytes.Clone(name)
	l.scan = l.e.List(name, m)
	s.startReportThen(l.piece, func(s *session) {
		if l.denied != nil {
			s.loop.noteDenied(s, l.denied)
		}
	})
}

// Receive implements engine.Receiver.
func (l *listing) Receive(it engine.Item) bool {
	l.dst = l.word(l.dst, it, l.scan.Delivery())
	return true
}

// piece makes the next piece, whose items are committed when it returns.
func (l *listing) piece(user *access.User, dst []byte) (piece []byte, more bool) {
	if !user.May(access.Peek, l.name) {
		l.denied = &access.Denied{Right: access.Peek, Queue: string(l.name)}
		return l.end(dst, l.denied), false
	}
	l.dst = dst
	if more = l.scan.Do(engine.Now(), l, pieceSize); more {
		l.scan.Wait()
	}
	_, t, err := l.scan.Result()
	if err == nil {
		err = l.e.Commit(t)
	}
	switch {
	case err != nil:
		return l.end(l.dst[:len(dst)], err), false
	case !more:
		l.dst = l.end(l.dst, nil)
	}
	piece, l.dst = l.dst, nil
	return piece, more
}
