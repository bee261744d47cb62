package netloop

import (
	"slices"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// confirmPiece is how many reads are confirmed with a shard locked. For one request a loop confirms no
// more than that itself; a job confirms the others, piece by piece.
const confirmPiece = 1024

// confirmMany confirms the connection's oldest n open reads of the queue, or none of them if there are
// fewer, and calls done with the outcome: now, or when a job has ended.
func (s *session) confirmMany(name []byte, n int, done func(*session, error)) {
	if n <= confirmPiece || s.countReads(name) < n {
		done(s, s.confirmOldest(name, n))
		return
	}
	refs := s.reads.takeOldest(name, n)
	s.confirmLater(func() (t engine.Ticket) {
		for piece := range slices.Chunk(refs, confirmPiece) {
			u, _ := s.loop.engine.ConfirmAll(engine.Now(), piece) // one that has ended by itself counts too
			t = t.Merge(u)
		}
		return t
	}, done)
}

// confirmLater has confirm run in a job. The reply that done words waits for the ticket.
func (s *session) confirmLater(confirm func() engine.Ticket, done func(*session, error)) {
	began := s.loop.began
	var t engine.Ticket
	s.startJob(func() error {
		t = confirm()
		return nil
	}, func(s *session, err error) {
		s.claim(t)
		s.loop.latencies.late(CommandConfirm, t, began)
		done(s, err)
	})
}

// thriftConfirmLater is thriftConfirm of many ids.
func (s *session) thriftConfirmLater(req *thrift.Request) {
	queue, ids, l, size := slices.Clone(req.Queue), req.IDs, s.loop, int64(0)
	if s.pinned = s.holdsInput(); !s.pinned {
		if size = int64(8 * ids.Len()); l.engine.MemoryLeft() < size {
			s.proto.refuse(s, engine.ErrOutOfMemory)
			return
		}
		l.engine.Account(size)
		ids = ids.Clone()
	}
	total := 0
	s.confirmLater(func() (t engine.Ticket) {
		defer l.engine.Account(-size)
		var refs []engine.ReadRef
		for from := 0; from < ids.Len(); from += confirmPiece {
			var found int
			piece := ids.Slice(from, min(from+confirmPiece, ids.Len()))
			refs, found = l.server.reliable.take(queue, piece, refs[:0])
			u, _ := l.engine.ConfirmAll(engine.Now(), refs)
			t, total = t.Merge(u), total+found
		}
		return t
	}, func(s *session, _ error) {
		s.out = thrift.AppendCount(s.out, s.thrift.call, int32(total))
	})
}
