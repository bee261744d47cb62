package trim

import "slices"

// Pins know which segments of the journal hold items of a shard's reads, the oldest first, and what it takes to rewrite
// them. They are counted as they come, since a walk over a million open reads would keep the shard from its clients.
// Only the last of them may hold no read.
type Pins []Pin

// Pin is about one segment that holds items of reads.
type Pin struct {
	Segment uint64
	Reads   int64
	Bytes   int64 // of keep records of those items, about
}

// Add accounts for reads, fewer of them if the number is negative, whose items lie in segment; zero stands
// for none.
func (p *Pins) Add(seg uint64, reads, bytes int64) {
	if seg != 0 {
		p.add(seg, reads, bytes)
	}
}

// add is Add for reads whose items lie in a segment. Most lie in the last one. Its pin stays when it is empty,
// because a queue that hands out one item at a time would make it anew for each.
func (p *Pins) add(seg uint64, reads, bytes int64) {
	if n := len(*p); n > 0 {
		last := &(*p)[n-1]
		if last.Segment == seg {
			last.Reads += reads
			last.Bytes += bytes
			return
		}
		if last.Reads == 0 {
			*p = (*p)[:n-1]
		}
	}
	p.insert(seg, reads, bytes)
}

// insert is add where the last pin is another one.
func (p *Pins) insert(seg uint64, reads, bytes int64) {
	i := len(*p)
	for i > 0 && (*p)[i-1].Segment >= seg {
		i--
	}
	if i == len(*p) || (*p)[i].Segment != seg {
		*p = slices.Insert(*p, i, Pin{Segment: seg})
	}
	at := &(*p)[i]
	at.Reads += reads
	at.Bytes += bytes
	if at.Reads == 0 {
		*p = slices.Delete(*p, i, i+1)
	}
}

// Before reports whether a segment before number holds an item.
func (p Pins) Before(number uint64) bool {
	return len(p) > 0 && p[0].Reads > 0 && p[0].Segment < number
}
