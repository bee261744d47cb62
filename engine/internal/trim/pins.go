package trim

import (
	"cmp"
	"slices"
)

// Pins know which segments of the journal hold items of a shard's reads, and what it takes to rewrite them. They are
// counted as they come, since a walk over a million open reads would keep the shard from its clients. They must not be
// copied.
type Pins struct {
	pins   []Pin // by segment; some may be empty: a queue that hands out one item at a time needs its pin again
	recent *Pin  // of them, the one asked for last; nil without any
}

// Pin is about one segment that holds items of reads.
type Pin struct {
	Segment uint64
	Reads   int64
	Bytes   int64 // of keep records of those items, about
}

// Add accounts for reads, fewer of them if the number is negative.
func (o *Pin) Add(reads, bytes int64) {
	o.Reads += reads
	o.Bytes += bytes
}

// Of returns the pin of a segment, which is good until the next call. Zero is for reads in no segment.
func (p *Pins) Of(seg uint64) *Pin {
	if o := p.recent; o != nil && o.Segment == seg {
		return o
	}
	return p.other(seg)
}

// other is Of a segment that is not the recent one. Where it makes a pin, it forgets those that hold no read.
func (p *Pins) other(seg uint64) *Pin {
	i, ok := p.find(seg)
	if !ok {
		p.pins = slices.DeleteFunc(p.pins, func(o Pin) bool { return o.Reads == 0 })
		i, _ = p.find(seg)
		p.pins = slices.Insert(p.pins, i, Pin{Segment: seg})
	}
	p.recent = &p.pins[i]
	return p.recent
}

// find returns the place of the pin of a segment, and whether there is one.
func (p *Pins) find(seg uint64) (int, bool) {
	return slices.BinarySearchFunc(p.pins, seg, func(o Pin, seg uint64) int { return cmp.Compare(o.Segment, seg) })
}

// All yields the segments that hold a read, the oldest first.
func (p *Pins) All(yield func(Pin) bool) {
	for _, o := range p.pins {
		if o.Segment > 0 && o.Reads > 0 && !yield(o) {
			return
		}
	}
}

// Oldest returns the oldest segment that holds a read, and false if none does.
func (p *Pins) Oldest() (seg uint64, ok bool) {
	for o := range p.All {
		return o.Segment, true
	}
	return 0, false
}

// Before reports whether a segment before number holds a read.
func (p *Pins) Before(number uint64) bool {
	seg, ok := p.Oldest()
	return ok && seg < number
}
