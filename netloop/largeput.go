package netloop

import "github.com/kestrelmq/kestrel/engine"

// A large item is copied, for its queue and the journal together, and then written: that takes tens of
// milliseconds for the largest. A job does it, for every protocol, and the loop goes on with others.

// largePut is how many bytes of items a loop puts itself at most, for one request.
const largePut = 256 << 10

// putLater puts to the queue called name, in a job, the items that each yields, up to the first that is
// refused. It calls done on the loop with how many items were stored, what the reply must wait for, and
// the error. The items have size bytes together, about, and may alias the input: it stays as it is
// until the job has ended. If the session does not hold it, they are a copy.
func (s *session) putLater(
	name []byte, size int, each func(yield func(engine.PutRequest) bool),
	done func(s *session, n int, t engine.Ticket, err error),
) {
	if s.writesBlocked() {
		done(s, 0, engine.Ticket{}, errSetUnavailable)
		return
	}
	e, client, began := s.loop.engine, s.clientID, s.loop.began
	if e.MemoryLeft() < int64(size) {
		done(s, 0, engine.Ticket{}, engine.ErrOutOfMemory)
		return
	}
	copied := int64(0)
	if s.pinned = s.holdsInput(); !s.pinned {
		copied = int64(size)
		e.Account(copied)
	}
	to := append([]byte(nil), name...)
	var t engine.Ticket
	ahead, n := false, 0
	s.startJob(func() error {
		defer e.Account(-copied)
		for p := range each {
			if s.writesBlocked() {
				return errSetUnavailable
			}
			s.wait.jobPuts++
			p.ClientID = client
			put, err := e.PutAll(engine.Now(), to, []engine.PutRequest{p})
			t, ahead = t.Merge(put.Ticket), ahead || put.Ahead
			if err != nil {
				return err
			}
			n++
		}
		return nil
	}, func(s *session, err error) {
		s.loop.latencies.late(CommandPut, t, began)
		s.afterPut(to, t, ahead)
		done(s, n, t, err)
	})
}

// putOneLater is putLater for one item, which lies in the input.
func (s *session) putOneLater(
	name []byte, p engine.PutRequest, done func(s *session, t engine.Ticket, err error),
) {
	if !s.holdsInput() {
		p.Data = append([]byte(nil), p.Data...)
	}
	s.putLater(name, len(p.Data), func(yield func(engine.PutRequest) bool) { yield(p) },
		func(s *session, _ int, t engine.Ticket, err error) { done(s, t, err) })
}

// holdsInput reports whether the request being run lies in the session's own buffer, and not in that of
// the loop.
func (s *session) holdsInput() bool { return len(s.in) > 0 }

// unpin has the input be the loop's again: the job that used it has ended.
func (s *session) unpin() {
	if !s.pinned {
		return
	}
	s.pinned = false
	if s.inStart == len(s.in) || s.state == closing || s.state == closed {
		s.dropInput()
	}
}
