package netloop

// unsent is what a socket has not taken yet, oldest first, in pieces: none grows, and none is moved when
// the socket takes a little.
type unsent struct {
	pieces [][]byte
	sent   int // bytes of the first piece that the socket has taken
	size   int // bytes that are not sent
	memory int // bytes of memory that the pieces take
}

// minPiece is the capacity, in bytes, of a piece at least.
const minPiece = 1 << 10

// add appends a copy of p.
func (u *unsent) add(p []byte) {
	u.size += len(p)
	if n := len(u.pieces); n > 0 {
		last := u.pieces[n-1]
		fits := min(cap(last)-len(last), len(p))
		u.pieces[n-1], p = append(last, p[:fits]...), p[fits:]
	}
	if len(p) > 0 {
		piece := append(make([]byte, 0, max(len(p), minPiece)), p...)
		u.memory += cap(piece)
		u.pieces = append(u.pieces, piece)
	}
}

// writeTo passes the pieces to write, which returns what it has not taken, until it takes no more.
func (u *unsent) writeTo(write func([]byte) []byte) {
	for len(u.pieces) > 0 {
		first := u.pieces[0]
		rest := write(first[u.sent:])
		u.size -= len(first) - u.sent - len(rest)
		if u.sent = len(first) - len(rest); len(rest) > 0 {
			return
		}
		u.memory -= cap(first)
		u.pieces[0] = nil
		u.pieces, u.sent = u.pieces[1:], 0
	}
	u.pieces = nil
}

// rest returns what is not sent, in order. Nothing may be added afterwards.
func (u *unsent) rest() [][]byte {
	if len(u.pieces) > 0 {
		u.pieces[0], u.sent = u.pieces[0][u.sent:], 0
	}
	return u.pieces
}
