package netloop

import (
	"errors"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// terms are what a client asks of a fetch beyond its access. They are those of the fetch being run, or
// waiting.
type terms struct {
	lease time.Duration // as in engine.FetchRequest
	meta  bool          // what there is to know of an item comes in front of it
}

// leaseOf is a lease of so many milliseconds, or that of the queue's options if there are none.
func leaseOf(millis int64) time.Duration {
	if millis == 0 {
		return engine.DefaultLease
	}
	return time.Duration(millis) * time.Millisecond
}

// isLeaseRefusal reports whether err refuses what a client asked of a lease or a delay: it may ask for
// something else.
func isLeaseRefusal(err error) bool {
	return errors.Is(err, engine.ErrNotHeld) || errors.Is(err, engine.ErrNoLease) ||
		errors.Is(err, engine.ErrBadLease) || errors.Is(err, engine.ErrDelayTooLong)
}

// leaseReason words such an error.
func leaseReason(err error) string { return strings.TrimPrefix(err.Error(), "engine: ") }

// countReads is how many open reads the connection has of the queue called name. Leases that have lapsed
// are forgotten.
func (s *session) countReads(name []byte) int {
	n := s.reads.count(name)
	if n == 0 {
		return 0
	}
	if q := s.reads.of(name); q.leased {
		s.reads.keep(q, s.loop.engine.StillOpen(s.loop.now, q.refs[q.head:]))
		n = q.len()
	}
	return n
}

// endClaim is claim, for a reply that says that a read has ended: if nothing of that is in the journal, the
// reply is true in any case.
func (s *session) endClaim(t engine.Ticket) {
	if t != (engine.Ticket{}) {
		s.claim(t)
	}
}

// returnOldest gives the connection's oldest open read of the queue back, if it has one.
func (s *session) returnOldest(name []byte, how engine.Return) error {
	if s.countReads(name) == 0 {
		return nil
	}
	q := s.reads.of(name)
	t, _, err := s.loop.engine.Return(s.loop.now, q.refs[q.head:q.head+1], how)
	if err != nil {
		return err
	}
	s.reads.take(name)
	s.endClaim(t)
	return nil
}

// returnLease gives the item that a receipt holds back.
func (s *session) returnLease(name []byte, receipt uint64, how engine.Return) error {
	t, err := s.loop.engine.ReturnLease(s.loop.now, name, receipt, how)
	if err == nil {
		s.endClaim(t)
	}
	return err
}

// confirmLease confirms the item that a receipt holds.
func (s *session) confirmLease(name []byte, receipt uint64) error {
	t, err := s.loop.engine.ConfirmLease(s.loop.now, name, receipt)
	if err == nil {
		s.endClaim(t)
		s.loop.latencies.count(CommandConfirm, nil, t, 1)
	}
	return err
}

// extendLease has the lease with a receipt, or the connection's oldest one of the queue if that is 0, end d
// from now. It returns when that is.
func (s *session) extendLease(name []byte, receipt uint64, d time.Duration) (due engine.Time, err error) {
	l := s.loop
	if receipt != 0 {
		due, t, err := l.engine.ExtendLease(l.now, name, receipt, d)
		if err == nil {
			s.endClaim(t)
		}
		return due, err
	}
	if s.countReads(name) > 0 {
		q := s.reads.of(name)
		for _, ref := range q.refs[q.head:] {
			if due, ok := l.engine.ExtendRead(l.now, ref, d); ok {
				return due, nil
			}
		}
	}
	return 0, engine.ErrNotHeld
}
