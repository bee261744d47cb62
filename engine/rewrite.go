package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// The journal grows by what clients do and by what the engine rewrites: to drop the oldest segments,
// it writes the items that are still live there, and the state of every queue, once more at the end.
// One rule bounds all rewriting, whatever it is for:
//
//	R1  The engine rewrites n bytes only to drop the oldest segments of the journal, and only if
//	    these have 2n bytes beyond what earlier rewriting still owes.
//
// Rewriting n bytes adds 2n to the debt; dropping segments pays their bytes back. So the debt is never
// larger than the journal, and twice what was ever rewritten is at most what was ever dropped and what
// is still there, which is all that was ever written. Hence the engine rewrites no more than clients
// had written, and the journal that Open found, however the two are mixed; an idle engine comes to rest.
// The price is length: a journal whose live items take n bytes may have 2n bytes more; see journalLimit.

const (
	// rewriteShare is how many bytes of the journal must become free for each that is rewritten.
	rewriteShare = 2
	// keepOverhead is how many bytes a keep record takes beside the body of its item, at most: the
	// numbers in it have seven bytes each at most for a very long time.
	keepOverhead = 1 + 2*7 + item.PlainLongSize + 2 + item.FlagsSize + item.TimeSize
)

// rewriting accounts for R1. The goroutine of maintain owns it.
type rewriting struct {
	debt int64 // bytes that must be dropped before more is rewritten at their expense
}

// affords returns how many bytes may be rewritten to drop that many at the front of the journal.
func (r *rewriting) affords(prefix int64) int64 { return (prefix - r.debt) / rewriteShare }

// wrote accounts for n bytes that were rewritten.
func (r *rewriting) wrote(n int64) { r.debt += rewriteShare * n }

// dropped accounts for n bytes of segments that were dropped.
func (r *rewriting) dropped(n int64) { r.debt = max(r.debt-n, 0) }

// journalUse is what rewriting all that is live in the journal would take, in bytes.
type journalUse struct {
	segments []segmentUse // the oldest first
	reads    int64        // items outside the windows of their queues
	tiny     int64        // windows that are not worth a file
	state    int64        // what a checkpoint takes
}

// segmentUse is what of it lies in one segment, or begins there.
type segmentUse struct {
	number      uint64
	size        int64 // of the segment
	reads, tiny int64
}

// measureUse looks at every queue.
func (e *Engine) measureUse(segments []segment.Segment) (u journalUse) {
	for _, s := range segments {
		u.segments = append(u.segments, segmentUse{number: s.Number, size: int64(s.End - s.Base)})
	}
	e.eachShard(func(sh *shard, queues []*queue) {
		for _, q := range queues {
			sh.mu.Lock()
			u.addQueue(q)
			sh.mu.Unlock()
		}
		sh.mu.Lock()
		defer sh.mu.Unlock()
		for _, p := range sh.pins {
			u.reads += p.bytes
			u.at(p.segment).reads += p.bytes
		}
	})
	return u
}

// addQueue adds what q takes, but for its reads. The caller holds the shard's mutex.
func (u *journalUse) addQueue(q *queue) {
	if !q.inJournal() {
		return
	}
	u.state += q.stateSize()
	n := q.rewriteSize()
	if n > tinyBytes || !q.isSmall() {
		return
	}
	if segment, ok := q.windowSegment(); ok {
		u.tiny += n
		u.at(segment).tiny += n
	}
}

// at returns the use of the segment with that number, or of the nearest that there is.
func (u *journalUse) at(number uint64) *segmentUse {
	i, _ := slices.BinarySearchFunc(u.segments, number, func(s segmentUse, n uint64) int {
		return cmp.Compare(s.number, n)
	})
	return &u.segments[min(i, len(u.segments)-1)]
}

// letGo says what is to let go of the oldest segments, and how many bytes may be rewritten for that.
type letGo struct {
	target  uint64 // number of the first segment that stays
	left    int64  // bytes in all
	windows int64  // of them for windows
	small   int64  // of those for windows that are small, but not tiny
}

// plan chooses a prefix of a journal of that size that can be dropped at a price that R1 allows: the
// shortest one of at least so many bytes, or the longest there is. It reports false if there is none:
// the journal then has to grow first.
func (u *journalUse) plan(journalSize, least int64, r *rewriting) (l letGo, ok bool) {
	mostTiny := tinyLimit(journalSize)
	size, reads, tiny := int64(0), int64(0), int64(0)
	for _, s := range u.segments[:len(u.segments)-1] {
		size += s.size
		reads += s.reads
		if tiny += s.tiny; u.tiny > mostTiny {
			tiny = mostTiny // the others spill
		}
		left := r.affords(size) - u.state
		if windows := left - reads; windows >= tiny {
			l = letGo{target: s.number + 1, left: left, windows: windows, small: windows - tiny}
			ok = true
		}
		if ok && size >= least {
			break
		}
	}
	if u.tiny > mostTiny {
		l.windows = min(l.windows, mostTiny)
	}
	return l, ok
}

// tinyLimit is how many bytes of tiny windows a journal of that size holds at most.
func tinyLimit(journalSize int64) int64 { return (keepGrowth - 1) * journalSize / rewriteShare }

// journalLimit is how large a journal of that size may be now: open reads, the state of the queues
// and what tiny queues hold stay in it, and by R1 it must be as large again before that can be
// rewritten.
func (u *journalUse) journalLimit(journalSize int64) int64 {
	return journalSize + rewriteShare*(u.reads+u.state+min(u.tiny, tinyLimit(journalSize)))
}

// takeRewrite reports whether n bytes may be rewritten, and accounts for them if so.
func (e *Engine) takeRewrite(l *letGo, n int64) bool {
	if n > l.left {
		return false
	}
	l.left -= n
	e.rewriting.wrote(n)
	return true
}

// stateSize is how many bytes a checkpoint takes for q, at most. The caller holds the shard's mutex.
func (q *queue) stateSize() int64 {
	n := int64(2 + numberSize(q.number) + numberSize(q.nextID) + numberSize(uint64(q.created)) + len(q.name))
	if b := q.backlog; b != nil {
		n += int64(len(b.runs)+len(b.spent))*record.MaxSpillSize + int64(len(b.gone))*record.MaxRemoveSize
	}
	if q.spilled {
		n += (1 + q.returned.Len() + q.open.Len() + q.moving.Len()) * record.MaxRemoveSize
		if q.aside != nil {
			n += int64(q.aside.Len()) * record.MaxRemoveSize
		}
	}
	return n
}

// bytesBefore is how many bytes the segments before number hold.
func bytesBefore(segments []segment.Segment, number uint64) (n int64) {
	for _, s := range segments {
		if s.Number < number {
			n += int64(s.End - s.Base)
		}
	}
	return n
}

// allBytes is how many bytes segments hold.
func allBytes(segments []segment.Segment) int64 { return bytesBefore(segments, math.MaxUint64) }

// rewriteSize is how many bytes it takes to rewrite the window of the queue, at most.
func (q *queue) rewriteSize() int64 {
	w := &q.window
	each := 1 + numberSize(q.number) + numberSize(q.nextID) + item.PlainImageSize + item.FlagsSize
	return w.Bytes + w.Bytes/math.MaxUint8*3 + w.Count*int64(each) + w.Expiring*item.TimeSize
}

// isSmall reports whether the queue is to be rewritten rather than spilled. The caller holds the
// shard's mutex.
func (q *queue) isSmall() bool {
	return q.inJournal() && (q.backlog == nil || !q.backlog.inReadBehind) &&
		q.window.Bytes <= keepBytes && q.window.Count <= keepBytes/item.PlainImageSize &&
		q.writtenTo == q.spilledTo
}

// numberSize is how many bytes of a record n takes.
func numberSize(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }
