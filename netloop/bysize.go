package netloop

import (
	"math/bits"
	"sync/atomic"
)

// bySize has the sessions of one loop whose input takes more than smallInput, by how much. Its owner is the loop.
// When memory for input is short, the one that holds most gives way to one that asks for little. So a few clients that
// send large requests slowly, or far ahead, do not cost others theirs.
type bySize struct {
	classes [sizeClasses]struct{ first, last *session } // first is the one that has been in it longest
	top     atomic.Int32                                // the highest class that has any; for any goroutine
	since   atomic.Int64                                // the moment since which its first is in that; for any goroutine
	// asked is the class of which another loop has asked for one to give way; zero: none. It is negative if that is to be
	// stale. For any goroutine.
	asked atomic.Int32
}

// sizeClasses is enough for any size of input.
const sizeClasses = 24

// sizeClass is the class of a session whose input takes so many bytes. Those in class c hold up to smallInput<<c,
// and more than half of that. Class 0 is in no list.
func sizeClass(kept int) int { return min(bits.Len(uint(max(kept-1, 0))/smallInput), sizeClasses-1) }

// sizePlace is a session's place in it.
type sizePlace struct {
	class        int
	since        moment // in this class
	older, newer *session
}

// move puts s at the end of a class.
func (b *bySize) move(s *session, class int) {
	p := &s.bySize
	if from := &b.classes[p.class]; p.class > 0 {
		if p.older == nil {
			from.first = p.newer
		} else {
			p.older.bySize.newer = p.newer
		}
		if p.newer == nil {
			from.last = p.older
		} else {
			p.newer.bySize.older = p.older
		}
	}
	*p = sizePlace{class: class, since: s.loop.clock}
	if to := &b.classes[class]; class > 0 {
		if p.older = to.last; p.older == nil {
			to.first = s
		} else {
			p.older.bySize.newer = s
		}
		to.last = s
	}
	top := max(int(b.top.Load()), class)
	for top > 0 && b.classes[top].first == nil {
		top--
	}
	if b.top.Store(int32(top)); top > 0 {
		b.since.Store(int64(b.classes[top].first.bySize.since))
	}
}
