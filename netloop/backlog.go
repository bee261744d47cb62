package netloop

// backlog is what a socket has not taken yet, oldest first, in pieces: none grows, and none is moved when
// the socket takes a little.
type backlog struct {
	pieces [][]byte
	sent   int // bytes of the first piece that the socket has taken
	size   int // bytes that are not sent
	held   int // bytes of memory that the pieces take
}

// minPiece is the capacity, in bytes, of a piece at least.
const minPiece = 1 << 10

// add appends a copy of p.
func (b *backlog) add(p []byte) {
	b.size += len(p)
	if n := len(b.pieces); n > 0 {
		last := b.pieces[n-1]
		fits := min(cap(last)-len(last), len(p))
		b.pieces[n-1], p = append(last, p[:fits]...), p[fits:]
	}
	if len(p) > 0 {
		piece := append(make([]byte, 0, max(len(p), minPiece)), p...)
		b.held += cap(piece)
		b.pieces = append(b.pieces, piece)
	}
}

// writeTo passes the pieces to write, which returns what it has not taken, until it takes no more.
func (b *backlog) writeTo(write func([]byte) []byte) {
	for len(b.pieces) > 0 {
		first := b.pieces[0]
		rest := write(first[b.sent:])
		b.size -= len(first) - b.sent - len(rest)
		if b.sent = len(first) - len(rest); len(rest) > 0 {
			return
		}
		b.held -= cap(first)
		b.pieces[0] = nil
		b.pieces, b.sent = b.pieces[1:], 0
	}
	b.pieces = nil
}

// rest returns what is not sent, in order. Nothing may be added afterwards.
func (b *backlog) rest() [][]byte {
	if len(b.pieces) > 0 {
		b.pieces[0], b.sent = b.pieces[0][b.sent:], 0
	}
	return b.pieces
}
