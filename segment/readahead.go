package segment

import (
	"errors"
	"io"
)

// ReadAhead is the memory through which runs are read past the page cache: a piece of one file, in
// whole blocks. Readers that are never used at the same time may share one. The zero value is ready.
//
// How much is read grows as long as what is asked for follows what was read before, as the kernel
// does it for cached files: who looks at headers alone does not pay for bodies.
type ReadAhead struct {
	buf  []byte
	of   *RunReader // whose file buf is a piece of; nil if it is of none
	from int64      // offset in the file at which buf begins
}

// minReadAhead is how many bytes are read where nothing was read before. The most are readAhead.
const minReadAhead = 16 << 10

// readAt fills b from an offset in the file of r. Up to end, nothing changes any more; of what lies
// behind, nothing is kept: it may be a block that is being written.
func (a *ReadAhead) readAt(r *RunReader, b []byte, offset, end int64) (n int, err error) {
	for n < len(b) && err == nil {
		at := offset + int64(n)
		if a.of == r && at >= a.from && at < a.from+int64(len(a.buf)) {
			n += copy(b[n:], a.buf[at-a.from:])
		} else {
			err = a.fetch(r, at, max(end, offset+int64(len(b))))
		}
	}
	if known := max(end-a.from, 0); known < int64(len(a.buf)) {
		a.buf = a.buf[:known]
	}
	return n, err
}

// fetch reads the piece of the file of r that begins with the block of an offset, up to end at most.
// It returns io.EOF if there is nothing at that offset.
func (a *ReadAhead) fetch(r *RunReader, offset, end int64) error {
	if follows := a.of == r && offset == a.from+int64(len(a.buf)); follows {
		r.size = min(2*r.size, readAhead)
	} else {
		r.size = minReadAhead
	}
	a.of = nil
	from := offset &^ (blockSize - 1)
	size := min(int64(r.size), wholeBlocks(end)-from)
	if int64(cap(a.buf)) < size {
		a.buf = BlockBuffer(r.size)
	}
	n, err := r.file.ReadAt(a.buf[:size], from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if from+int64(n) <= offset {
		return io.EOF
	}
	a.of, a.from, a.buf = r, from, a.buf[:n]
	return nil
}

// forget drops what was read of the file of r.
func (a *ReadAhead) forget(r *RunReader) {
	if a.of == r {
		a.of = nil
	}
}
