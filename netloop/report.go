package netloop

// report makes an answer about all queues, of which there may be so many that it takes a second and
// some ten megabytes. It appends the next piece to dst, until that is about pieceSize, and reports
// whether there is more to come.
//
// Pieces are made on goroutines of their own, one after the other, and each is sent before the next
// is made. So the other sessions of the loop wait for a copy of one piece at most, and of an answer
// that the client does not read little more than Options.MaxPending is kept. Between the pieces
// the session runs nothing: the answer is one, and keeps its place among those to a pipeline.
type report func(dst []byte) (piece []byte, more bool)

// pieceSize is how many bytes of a report are made and sent at a time.
const pieceSize = 64 << 10

// reporting is a report on its way.
type reporting struct {
	next  report
	piece []byte
	more  bool
}

// startReport answers with a report.
func (s *session) startReport(next report) {
	s.wait.report = &reporting{next: next}
	s.makePiece()
}

// makePiece has the next piece made.
func (s *session) makePiece() {
	r := s.wait.report
	s.startJob(func() error {
		r.piece, r.more = r.next(r.piece[:0])
		return nil
	}, (*session).pieceMade)
}

// pieceMade takes in a piece that has been made. The next one is made when this one has left, and
// the client has room for it: see unstall.
func (s *session) pieceMade(error) {
	r := s.wait.report
	s.out = append(s.out, r.piece...)
	if !r.more {
		s.wait.report = nil
		return
	}
	s.wait.kind = waitReport
	s.to(stalled)
	s.loop.mark(s)
}
