package engine

import (
	"sync/atomic"

	"github.com/kestrelmq/kestrel/segment"
)

// Progress shows other goroutines how far Open has come with the journal. The zero value is ready;
// each is for one Open.
type Progress struct {
	read  atomic.Int64
	total atomic.Int64

	before map[uint64]int64 // bytes of the segments before this one; owned by Open
}

// Bytes returns how many bytes of the journal have been read, and how many there are. Both are zero
// until that is known, and the last segment counts with the room that it reserves: a journal that
// has been read whole may end below its total.
func (p *Progress) Bytes() (read, total int64) { return p.read.Load(), p.total.Load() }

// begin learns what there is to read in dir. What cannot be learned is left to Open to report.
func (p *Progress) begin(fs segment.FS, dir string) {
	segments, err := segment.List(fs, dir)
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

// at notes that the journal has been read up to f.
func (p *Progress) at(f segment.Frame) { p.read.Store(p.before[f.Segment] + f.Offset) }
