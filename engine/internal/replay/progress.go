package replay

import (
	"sync/atomic"

	"github.com/kestrelmq/kestrel/segment"
)

// Progress shows other goroutines how far a start has come with the journal, or a look at a damaged directory with all
// files. The zero value is ready; each is for one of them.
type Progress struct {
	read  atomic.Int64
	total atomic.Int64

	before map[uint64]int64 // bytes of the segments before this one; of the goroutine that reads
}

// Bytes returns how many bytes have been read, and how many there are to read. Both are zero until that is known. The
// last segment of the journal counts with the room that it reserves: what has been read whole may end below its total.
func (p *Progress) Bytes() (read, total int64) { return p.read.Load(), p.total.Load() }

// Begin learns what there is to read in dir. What cannot be learned is left to the reader to report.
func (p *Progress) Begin(fsys segment.FS, dir string) {
	segments, err := segment.List(fsys, dir)
	if err != nil {
		return
	}
	p.before = make(map[uint64]int64, len(segments))
	total := int64(0)
	for _, s := range segments {
		p.before[s.Number] = total
		total += s.Size
	}
	p.total.Store(total)
}

// At notes that the journal has been read up to f.
func (p *Progress) At(f segment.Frame) { p.read.Store(p.before[f.Segment] + f.Offset) }

// Expect notes that there are n more bytes to read.
func (p *Progress) Expect(n int64) {
	if p != nil {
		p.total.Add(n)
	}
}

// Add notes that n more bytes have been read.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.read.Add(n)
	}
}
