package idset

import (
	"iter"
	"math"
	"math/bits"
	"slices"
)

// Each calls f for every id, ascending, until f returns false. f may not change the set.
func (b *Bitmap) Each(f func(id uint64) bool) { b.EachFrom(0, f) }

// EachFrom is Each from one id on.
func (b *Bitmap) EachFrom(id uint64, f func(id uint64) bool) {
	i, _ := b.find(id >> blockShift)
	for ; i < len(b.blocks); i++ {
		o := &b.blocks[i]
		if o.span > 0 {
			for at := max(id, o.ids().First); ; at++ {
				if !f(at) {
					return
				}
				if at == o.ids().Last {
					break
				}
			}
			continue
		}
		from := uint16(max(id, o.number<<blockShift) - o.number<<blockShift)
		if !o.each(from, func(low uint16) bool { return f(o.number<<blockShift | uint64(low)) }) {
			return
		}
	}
}

// Count is how many ids of r are in the set.
func (b *Bitmap) Count(r Range) (n uint64) {
	if r.isEmpty() {
		return 0
	}
	i, _ := b.find(r.First >> blockShift)
	for ; i < len(b.blocks) && b.blocks[i].number <= r.Last>>blockShift; i++ {
		o := &b.blocks[i]
		part := o.ids()
		part = Between(max(part.First, r.First), min(part.Last, r.Last))
		if o.span > 0 {
			n += part.Last - part.First + 1
		} else {
			n += uint64(o.countIn(uint16(part.First&blockMask), uint16(part.Last&blockMask)))
		}
	}
	return n
}

// First returns the lowest id; ok is false if there is none.
func (b *Bitmap) First() (id uint64, ok bool) {
	b.Each(func(first uint64) bool {
		id, ok = first, true
		return false
	})
	return id, ok
}

// Last returns the highest id; ok is false if there is none.
func (b *Bitmap) Last() (id uint64, ok bool) {
	if len(b.blocks) == 0 {
		return 0, false
	}
	o := &b.blocks[len(b.blocks)-1]
	switch {
	case o.span > 0:
		return o.ids().Last, true
	case o.bits == nil:
		return o.number<<blockShift | uint64(o.list[len(o.list)-1]), true
	}
	for i := blockWords - 1; ; i-- {
		if w := o.bits[i]; w != 0 {
			return o.number<<blockShift | uint64(i*64+63-bits.LeadingZeros64(w)), true
		}
	}
}

// Ranges returns the same ids as ranges.
func (b *Bitmap) Ranges() Set { return slices.Collect(b.Within(Between(0, math.MaxUint64))) }

// Within yields what of the set is in r, as ranges that ascend and are apart. Nobody changes the set meanwhile.
func (b *Bitmap) Within(r Range) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		if r.isEmpty() {
			return
		}
		open := Between(1, 0) // the last range, which may go on
		add := func(ids Range) bool {
			ids = Between(max(ids.First, r.First), min(ids.Last, r.Last))
			switch {
			case ids.isEmpty():
				return true
			case !open.isEmpty() && open.Last+1 == ids.First:
				open.Last = ids.Last
				return true
			case !open.isEmpty() && !yield(open):
				return false
			}
			open = ids
			return true
		}
		i, _ := b.find(r.First >> blockShift)
		for ; i < len(b.blocks) && b.blocks[i].number <= r.Last>>blockShift; i++ {
			if !b.blocks[i].ranges(add) {
				return
			}
		}
		if !open.isEmpty() {
			yield(open)
		}
	}
}

// RangeCount is how many ranges Ranges has, or a few more.
func (b *Bitmap) RangeCount() int64 { return b.RangesUpTo(math.MaxInt64) }

// RangesUpTo is RangeCount, or some number above most: it does not look on then.
func (b *Bitmap) RangesUpTo(most int64) (n int64) {
	for i := 0; i < len(b.blocks) && n <= most; i++ {
		n += b.blocks[i].rangeCount()
	}
	return n
}

// Missing returns what of r is not in the set.
func (b *Bitmap) Missing(r Range) (left Set) {
	for ids := range b.Within(r) {
		if ids.First > r.First {
			left = append(left, Range{r.First, ids.First - 1})
		}
		if ids.Last == r.Last {
			return left
		}
		r.First = ids.Last + 1
	}
	if !r.isEmpty() {
		left = append(left, r)
	}
	return left
}
