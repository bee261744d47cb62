package segment

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// ReadMode says how runs that were written past the page cache are read back.
type ReadMode uint8

// The modes.
const (
	// ReadMapped maps what is read in sequence, where the file system and the kernel can.
	ReadMapped ReadMode = iota
	// ReadDirect reads whole blocks past the page cache.
	ReadDirect
)

// String is the name of the mode: mmap or direct.
func (m ReadMode) String() string {
	if m == ReadDirect {
		return "direct"
	}
	return "mmap"
}

// ParseReadMode returns the mode of that name.
func ParseReadMode(name string) (ReadMode, error) {
	for _, m := range [...]ReadMode{ReadMapped, ReadDirect} {
		if name == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown way to read %q: want %s or %s", name, ReadMapped, ReadDirect)
}

// ReadAhead is the memory through which runs are read that were written past the page cache. It is a piece of one file
// in whole blocks, and mapped pieces of files that are read in sequence. Readers that are never used at the same time
// may share one. The zero value is ready, and maps nothing.
//
// How much is read grows as long as what is asked for follows what was read before, as the kernel does it for cached
// files. So a reader of headers alone does not pay for bodies.
type ReadAhead struct {
	buf  []byte
	of   *RunReader // whose file buf is a piece of; nil if it is of none
	from int64      // offset in the file at which buf begins

	maps *pieces // nil to map nothing
	read struct{ mapped, direct atomic.Int64 }
}

// Read returns how many bytes were copied out of maps, and how many were read otherwise. Any goroutine
// may call it.
func (a *ReadAhead) Read() (mapped, direct int64) { return a.read.mapped.Load(), a.read.direct.Load() }

// NewReadAhead returns a ReadAhead for a mode.
func NewReadAhead(mode ReadMode) *ReadAhead {
	if mode == ReadDirect {
		return new(ReadAhead)
	}
	return &ReadAhead{maps: &pieces{size: pieceSize}}
}

const (
	// minReadAhead is how many bytes are read where nothing was read before.
	minReadAhead = 16 << 10
	// maxReadAhead is how many bytes are read at a time at most.
	maxReadAhead = 1 << 20
)

// readAt fills b from an offset in the file of r. Up to end, nothing changes any more; of what lies
// behind, nothing is kept: it may be a block that is being written.
func (a *ReadAhead) readAt(r *RunReader, b []byte, offset, end int64) (n int, err error) {
	for n < len(b) && err == nil {
		at := offset + int64(n)
		if a.maps != nil && r.size >= mapFrom && r.follows(at) {
			if mapped := a.maps.read(r, b[n:], at, end); mapped > 0 {
				n += mapped
				a.read.mapped.Add(int64(mapped))
				r.next, r.viaMap = at+int64(mapped), true
				continue
			}
		}
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
	if r.size > 0 && r.follows(offset) {
		r.size = min(2*r.size, maxReadAhead)
	} else {
		r.size = minReadAhead
	}
	a.of = nil
	from := offset &^ (blockSize - 1)
	size := min(int64(r.size), WholeBlocks(end)-from)
	if int64(cap(a.buf)) < size {
		a.buf = BlockBuffer(r.size)
	}
	n, err := r.file.ReadAt(a.buf[:size], from)
	a.read.direct.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if from+int64(n) <= offset {
		return io.EOF
	}
	a.of, a.from, a.buf = r, from, a.buf[:n]
	r.next = from + int64(n)
	return nil
}

// forget drops what was read of the file of r.
func (a *ReadAhead) forget(r *RunReader) {
	if a.of == r {
		a.of = nil
	}
	if a.maps != nil {
		a.maps.forget(r)
	}
}
