package netloop

// backlog is what a socket has not taken yet, oldest first, in pieces: none grows, and none is moved when
// the socket takes a little.
type backlog struct {
	pieces [][]byte
	size   int // bytes that are not sent
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
		b.pieces = append(b.pieces, append(make([]byte, 0, max(len(p), minPiece)), p...))
	}
}

// writeTo passes the pieces to write, which returns what it has not taken, until it takes no more.
func (b *backlog) writeTo(write func([]byte) []byte) {
	for len(b.pieces) > 0 {
		first := b.pieces[0]
		rest := write(first)
		b.size -= len(first) - len(rest)
		if len(rest) > 0 {
			b.pieces[0] = rest
			return
		}
		b.pieces[0] = nil
		b.pieces = b.pieces[1:]
	}
	b.pieces = nil
}
