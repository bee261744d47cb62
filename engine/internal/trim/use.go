package trim

import (
	"cmp"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/segment"
)

// The journal grows by what clients do and by what the engine rewrites. To drop the oldest segments, the engine writes
// the items that still live there, and the state of every queue, once more at the end. One rule bounds all rewriting,
// whatever it is for:
//
//	R1  The engine rewrites n bytes only to drop the oldest segments of the journal, and only if
//	    these have 2n bytes beyond what earlier rewriting still owes.
//
// Rewriting n bytes adds 2n to the debt; dropping segments pays their bytes back. So the debt is never larger than
// the journal. Twice what was ever rewritten is at most what was dropped and what is still there, and that is all
// that was ever written. Hence the engine rewrites no more than clients had written, and the journal that Open found,
// however the two are mixed. An idle engine comes to rest. The price is length: a journal whose live items take n
// bytes may have 2n bytes more; see [Use.Limit].

const (
	// freedPerByte is how many bytes of the journal must become free for each that is rewritten.
	freedPerByte = 2
	// tinyGrowth is how many times its size the journal may have to hold queues that are not worth a file. A hundred
	// thousand of them would otherwise make as many files.
	tinyGrowth = 16
)

// Debt accounts for R1. One goroutine at a time uses it.
type Debt struct {
	Bytes int64 // that must be dropped before more is rewritten at their expense
}

// Affords returns how many bytes may be rewritten to drop that many at the front of the journal.
func (d *Debt) Affords(prefix int64) int64 { return (prefix - d.Bytes) / freedPerByte }

// Wrote accounts for n bytes that were rewritten.
func (d *Debt) Wrote(n int64) { d.Bytes += freedPerByte * n }

// Dropped accounts for segments that were dropped.
func (d *Debt) Dropped(segments []segment.Segment) { d.Bytes = max(d.Bytes-Size(segments), 0) }

// Use is what rewriting all that is live in the journal would take, in bytes.
type Use struct {
	segments []segmentUse // the oldest first
	Reads    int64        // items outside the windows of their queues
	Tiny     int64        // windows that are not worth a file
	State    int64        // what a checkpoint takes
}

// segmentUse is what of it lies in one segment, or begins there.
type segmentUse struct {
	number      uint64
	size        int64 // of the segment
	reads, tiny int64
}

// NewUse returns the use of a journal of these segments in which nothing lives.
func NewUse(segments []segment.Segment) (u Use) {
	for _, s := range segments {
		u.segments = append(u.segments, segmentUse{number: s.Number, size: int64(s.End - s.Base)})
	}
	return u
}

// AddPins adds the reads of a shard.
func (u *Use) AddPins(pins *Pins) {
	for p := range pins.All {
		u.Reads += p.Bytes
		u.at(p.Segment).reads += p.Bytes
	}
}

// AddTiny adds a window of n bytes that begins in a segment and is not worth a file.
func (u *Use) AddTiny(seg uint64, n int64) {
	u.Tiny += n
	u.at(seg).tiny += n
}

// at returns the use of the segment with that number, or of the nearest that there is.
func (u *Use) at(number uint64) *segmentUse {
	i, _ := slices.BinarySearchFunc(u.segments, number, func(s segmentUse, n uint64) int {
		return cmp.Compare(s.number, n)
	})
	return &u.segments[min(i, len(u.segments)-1)]
}

// Plan says what is to let go of the oldest segments, and how many bytes may be rewritten for that.
type Plan struct {
	Target  uint64 // number of the first segment that stays
	Left    int64  // bytes in all
	Windows int64  // of them for windows
	Small   int64  // of those for windows that are small, but not tiny
}

// Plan chooses a prefix of a journal of that size, to be dropped at a price that R1 allows. It is the
// shortest one of at least so many bytes, or the longest there is. It reports false if there is none: the journal
// then has to grow first.
func (u *Use) Plan(journalSize, least int64, d *Debt) (p Plan, ok bool) {
	mostTiny := tinyLimit(journalSize)
	size, reads, tiny := int64(0), int64(0), int64(0)
	for _, s := range u.segments[:len(u.segments)-1] {
		size += s.size
		reads += s.reads
		if tiny += s.tiny; u.Tiny > mostTiny {
			tiny = mostTiny // the others spill
		}
		left := d.Affords(size) - u.State
		if windows := left - reads; windows >= tiny {
			p = Plan{Target: s.number + 1, Left: left, Windows: windows, Small: windows - tiny}
			ok = true
		}
		if ok && size >= least {
			break
		}
	}
	if u.Tiny > mostTiny {
		p.Windows = min(p.Windows, mostTiny)
	}
	return p, ok
}

// Take reports whether n bytes may be rewritten, and accounts for them if so.
func (p *Plan) Take(n int64, d *Debt) bool {
	if n > p.Left {
		return false
	}
	p.Left -= n
	d.Wrote(n)
	return true
}

// tinyLimit is how many bytes of tiny windows a journal of that size holds at most.
func tinyLimit(journalSize int64) int64 { return (tinyGrowth - 1) * journalSize / freedPerByte }

// Limit is how large a journal of that size may be now. Open reads, the state of the queues and what tiny queues hold
// stay in it. By R1 it must be as large again before that can be rewritten.
func (u *Use) Limit(journalSize int64) int64 {
	return journalSize + freedPerByte*(u.Reads+u.State+min(u.Tiny, tinyLimit(journalSize)))
}

// SizeBefore is how many bytes the segments before number hold.
func SizeBefore(segments []segment.Segment, number uint64) (n int64) {
	for _, s := range segments {
		if s.Number < number {
			n += int64(s.End - s.Base)
		}
	}
	return n
}

// LastBytes returns the number of the segment from which on segments hold size bytes, or of the first if they hold less.
func LastBytes(segments []segment.Segment, size int64) uint64 {
	for _, s := range slices.Backward(segments) {
		if size -= int64(s.End - s.Base); size <= 0 {
			return s.Number
		}
	}
	return segments[0].Number
}

// Size is how many bytes segments hold.
func Size(segments []segment.Segment) int64 { return SizeBefore(segments, math.MaxUint64) }
