package trim

import "slices"

// ItemSegments say which segments of the journal the items of a queue lie in that were never handed out. Ids and
// segments rise from step to step.
type ItemSegments []step

// step says that items from id on lie in this segment or a later one.
type step struct {
	segment uint64
	id      uint64
}

// IsNews reports whether the newest step names an older segment than seg.
func (m ItemSegments) IsNews(seg uint64) bool { return len(m) == 0 || m[len(m)-1].segment < seg }

// Add notes that items from id on lie in seg or a later segment.
func (m *ItemSegments) Add(seg, id uint64) { *m = append(*m, step{seg, id}) }

// Note is Add unless the newest step names that segment: segments may fall, see Rising.
func (m *ItemSegments) Note(seg, id uint64) {
	if n := len(*m); n == 0 || (*m)[n-1].segment != seg {
		m.Add(seg, id)
	}
}

// Clear forgets every step.
func (m *ItemSegments) Clear() { *m = (*m)[:0] }

// Forget forgets the steps that no item from first on needs.
func (m *ItemSegments) Forget(first uint64) {
	n := 0
	for n+1 < len(*m) && (*m)[n+1].id <= first {
		n++
	}
	*m = append((*m)[:0], (*m)[n:]...)
}

// Of returns the segment that the steps name for an item; zero if there is none.
func (m ItemSegments) Of(id uint64) (seg uint64) {
	for _, o := range m {
		if o.id > id {
			break
		}
		seg = o.segment
	}
	return seg
}

// From returns the oldest segment that may hold an item from id on, and false if nothing is known.
func (m ItemSegments) From(id uint64) (seg uint64, ok bool) {
	if len(m) == 0 {
		return 0, false
	}
	return max(m.Of(id), m[0].segment), true
}

// Covers reports whether a segment is known for an item.
func (m ItemSegments) Covers(id uint64) bool { return len(m) > 0 && m[0].id <= id }

// Rising returns what m says, in which segments may fall, as steps that rise: each segment is the lowest of those from
// there on.
func (m ItemSegments) Rising() (rising ItemSegments) {
	for _, o := range slices.Backward(m) {
		if n := len(rising); n > 0 && rising[n-1].segment <= o.segment {
			rising[n-1].id = o.id
			continue
		}
		rising = append(rising, o)
	}
	slices.Reverse(rising)
	return rising
}
