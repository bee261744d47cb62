package engine

import "slices"

// pins knows which segments of the journal hold items of a shard's reads, the oldest first, and what
// it takes to rewrite them: a walk over a million open reads would keep the shard from its clients.
// The shard's mutex guards it.
type pins []pin

// pin is about one segment that holds items of reads.
type pin struct {
	segment uint64
	reads   int64
	bytes   int64 // of keep records of those items, about
}

// add accounts for reads, fewer of them if the number is negative, whose items lie in segment; zero
// stands for none.
func (p *pins) add(seg uint64, reads, bytes int64) {
	if seg == 0 {
		return
	}
	i := len(*p)
	for i > 0 && (*p)[i-1].segment >= seg {
		i--
	}
	if i == len(*p) || (*p)[i].segment != seg {
		*p = slices.Insert(*p, i, pin{segment: seg})
	}
	at := &(*p)[i]
	at.reads += reads
	at.bytes += bytes
	if at.reads == 0 {
		*p = slices.Delete(*p, i, i+1)
	}
}

// before reports whether a segment before number holds an item.
func (p pins) before(number uint64) bool { return len(p) > 0 && p[0].segment < number }

// lieIn notes that the item of r lies in that segment of the journal, or in a later one. Zero says
// that the journal need not keep it.
func (r *read) lieIn(seg uint64) {
	n := int64(len(r.item.Data)) + keepOverhead
	r.shard.pins.add(r.pinned, -1, -n)
	r.pinned = seg
	r.shard.pins.add(seg, 1, n)
}

// liesIn reports whether the place of the item of r is in a run.
func (r *read) liesIn(o *run) bool {
	return r.pinned == 0 && o.recorded.Count > 0 && o.recorded.Holds(r.item.ID)
}

// movesOutOf reports whether an item whose place is in a run is on its way to another queue.
func (q *queue) movesOutOf(o *run) bool {
	for r := q.moving.First(); r != nil; r = r.link.Next() {
		if r.liesIn(o) {
			return true
		}
	}
	return false
}
