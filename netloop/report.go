package netloop

import (
	"github.com/valyala/bytebufferpool"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// report makes an answer about all queues, of which there may be so many that it takes a second and
// some ten megabytes. It appends the next piece to dst, until that is about pieceSize, and reports
// whether there is more to come. user is who asks: a reload between two pieces may have changed it.
//
// Pieces are made on goroutines of their own, one after the other, and each is sent before the next
// is made. So the other sessions of the loop wait for a copy of one piece at most. Of an answer that the client does
// not read, the server keeps little more than Options.MaxPending. Between the pieces the session runs nothing: the
// answer is one, and keeps its place among those to a pipeline.
type report func(user *access.User, dst []byte) (piece []byte, more bool)

// pieceSize is how many bytes of a report are made and sent at a time.
const pieceSize = 64 << 10

// reportSize is about how many bytes a report takes until its end, beside those of its pieces that have not left. They
// are a piece that is being made, and a list of the queues.
func reportSize(queues int64) int { return pieceSize + pieceSize/4 + 8*int(queues) }

// reporting is a report on its way.
type reporting struct {
	next  report
	then  func(*session) // called behind the last piece; nil: nothing is
	size  int            // as counted in the ledger
	piece *bytebufferpool.ByteBuffer
	more  bool
}

// startReport answers with a report, unless there is no memory for it.
func (s *session) startReport(next report) { s.startReportThen(next, nil) }

// startReportThen is startReport for a reply that then comes after.
func (s *session) startReportThen(next report, then func(*session)) {
	l := s.loop
	size := reportSize(l.engine.QueueCount())
	if l.ledger.tight(size) {
		l.counters.RepliesRefused++
		s.refuse(engine.ErrOutOfMemory)
		return
	}
	l.ledger.add(size)
	s.wait.report = &reporting{next: next, size: size, then: then}
	s.makePiece()
}

// endReport forgets the report on its way, if there is one.
func (s *session) endReport() {
	if r := s.wait.report; r != nil {
		s.loop.ledger.add(-r.size)
		s.wait.report = nil
	}
}

// makePiece has the next piece made.
func (s *session) makePiece() {
	r := s.wait.report
	r.piece = s.loop.buffers.outputs.take()
	user := s.id.user
	s.startJob(func() error {
		r.piece.B, r.more = r.next(user, r.piece.B[:0])
		return nil
	}, (*session).pieceMade)
}

// pieceMade takes in a piece that has been made. The next one is made when this one has left, and
// the client has room for it: see unstall.
func (s *session) pieceMade(error) {
	r, l := s.wait.report, s.loop
	s.out = append(s.out, r.piece.B...)
	l.buffers.outputs.give(r.piece)
	r.piece = nil
	if !r.more {
		s.endReport()
		if r.then != nil {
			r.then(s)
		}
		return
	}
	s.wait.kind = waitReport
	s.to(stalled)
	l.makeDirty(s)
}
