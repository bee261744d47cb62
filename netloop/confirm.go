package netloop

import (
	"slices"

	"github.com/kestrelmq/kestrel/engine"
)

// This file confirms open reads for a request, however many.

// confirmPiece is how many reads are confirmed with a shard locked. For one request a loop confirms no
// more than that itself; a job confirms the others, piece by piece.
const confirmPiece = 1024

// confirmMany confirms the connection's oldest n open reads of the queue, or none of them if there are fewer. It calls
// done with the outcome, now, or when a job has ended.
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
