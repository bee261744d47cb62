package segment

// pieces are mapped pieces of runs. A run that is read from one end to the other has two. One is being used up, and
// another goroutine brings the next from the disk meanwhile. They take maxPieces times pieceSize of the page cache at
// most.
//
// A mapped byte is never trusted: it is copied, and the copy is checked. If touching it faults, or the copy is wrong,
// the run is read without maps from then on. Only an error of such a read counts.
//
// A piece ends at a multiple of 2 MiB, where the kernel may have huge pages, or where the known bytes end. What lies
// behind may be changing. Pieces grow with the part of a run that was read in sequence.
type pieces struct {
	size  int64    // of a piece, at most; a multiple of HugePage
	list  []*piece // in the order in which they were opened
	clock int      // +1 for each look
}

const (
	// pieceSize is how large a mapped piece is at most, in bytes.
	pieceSize = 4 << 20
	// minPiece is how many bytes are worth a map.
	minPiece = 512 << 10
	// pieceAlign is what pieces begin at a multiple of: no kernel has larger pages, but for huge ones.
	pieceAlign = 64 << 10
	// mapFrom is how much must have been read in sequence before a run is mapped, in bytes: the last
	// piece that was read otherwise.
	mapFrom = 128 << 10
	// maxPieces is how many there are at most.
	maxPieces = 4
	// pieceIdle is after how many looks at others a piece may be given to another run. Readers that take turns would
	// else take them from each other before they are used.
	pieceIdle = 1 << 10
)

// piece is a piece of a file that is mapped, or about to be.
type piece struct {
	of   *RunReader
	from int64
	size int64
	used int // at which look

	ready chan struct{} // closed when mem or err is there
	mem   []byte
	err   error
}

// covers reports whether p is a piece of the file of r that has an offset.
func (p *piece) covers(r *RunReader, offset int64) bool {
	return p.of == r && p.from <= offset && offset < p.from+p.size
}

// find returns the piece of r that has an offset, or nil.
func (ps *pieces) find(r *RunReader, offset int64) *piece {
	for _, p := range ps.list {
		if p.covers(r, offset) {
			return p
		}
	}
	return nil
}

// read copies to b what is mapped of the file of r from an offset on. The file is known to be written up to end. It
// returns 0 if b has to be read otherwise.
func (ps *pieces) read(r *RunReader, b []byte, offset, end int64) (n int) {
	p := ps.find(r, offset)
	if p == nil {
		if p = ps.open(r, offset, end); p == nil {
			return 0
		}
	}
	ps.clock++
	p.used = ps.clock
	<-p.ready
	if p.err != nil {
		ps.distrust(r)
		return 0
	}
	n, err := copyMapped(b, p.mem[offset-p.from:])
	if err != nil {
		ps.distrust(r)
		return 0
	}
	if at := offset - p.from; at >= p.size/2 { // the next one is ready when this one is used up
		ps.prepare(r, p.from+p.size, end)
	}
	return n
}

// prepare opens the piece of r that begins at from, unless there is one. Of the pieces before it, only the nearest is
// still needed.
func (ps *pieces) prepare(r *RunReader, from, end int64) {
	if ps.find(r, from) != nil {
		return
	}
	for _, p := range ps.list {
		if p.of == r && p.from+p.size < from {
			ps.drop(p)
			break
		}
	}
	ps.open(r, from, end)
}

// open begins to map the piece of the file of r that has an offset. It returns nil if too little is
// written behind it yet, or there is no room for another piece.
func (ps *pieces) open(r *RunReader, offset, end int64) *piece {
	from := offset &^ (pieceAlign - 1)
	to := (from + min(max(from, HugePage), ps.size)) &^ (HugePage - 1)
	size := min(to, end&^(pieceAlign-1)) - from
	m, can := r.file.(Mapper)
	if !can || r.unmapped || size < minPiece || !ps.room(r) {
		return nil
	}
	p := &piece{of: r, from: from, size: size, used: ps.clock, ready: make(chan struct{})}
	ps.list = append(ps.list, p)
	go func() {
		defer close(p.ready)
		p.mem, p.err = m.Map(from, int(size))
	}()
	return p
}

// room makes room for another piece of r, and reports whether there is.
func (ps *pieces) room(r *RunReader) bool {
	if len(ps.list) < maxPieces {
		return true
	}
	for _, p := range ps.list {
		if p.of == r && p.used < ps.clock || ps.clock-p.used > pieceIdle {
			ps.drop(p)
			return true
		}
	}
	return false
}

// distrust has r be read without maps from now on.
func (ps *pieces) distrust(r *RunReader) {
	r.unmapped = true
	ps.forget(r)
}

// forget drops the pieces of r.
func (ps *pieces) forget(r *RunReader) {
	for i := len(ps.list) - 1; i >= 0; i-- {
		if ps.list[i].of == r {
			ps.drop(ps.list[i])
		}
	}
}

// drop gives a piece up, once it is mapped: nobody else looks at it.
func (ps *pieces) drop(p *piece) {
	for i, o := range ps.list {
		if o == p {
			ps.list = append(ps.list[:i], ps.list[i+1:]...)
			break
		}
	}
	<-p.ready
	if p.mem != nil {
		p.of.file.(Mapper).Unmap(p.mem, p.from) // of no consequence: what was read was checked
	}
}
