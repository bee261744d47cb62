package idset

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"unsafe"
)

// Bitmap is a set of item ids that are added and removed in any order, one by one or as ranges. An id takes a bit if
// others lie close to it, and two bytes if not. Long ranges take next to nothing. The zero Bitmap is empty. It may be
// copied if the original is not used any more; it is not safe for concurrent use.
type Bitmap struct {
	blocks []block // ascending; none is empty, and no two spans touch
	count  uint64
}

// Len is how many ids there are.
func (b *Bitmap) Len() uint64 { return b.count }

// IsEmpty reports whether there is no id.
func (b *Bitmap) IsEmpty() bool { return b.count == 0 }

// BitmapOf returns a Bitmap with the ids of s.
func BitmapOf(s Set) (b Bitmap) {
	for _, r := range s {
		b.AddRange(r)
	}
	return b
}

// find returns the place of the block with a number, and whether it is there.
func (b *Bitmap) find(number uint64) (int, bool) {
	n := len(b.blocks)
	if n == 0 || b.blocks[0].number > number {
		return 0, false
	}
	if i := number - b.blocks[0].number; i < uint64(n) && b.blocks[i].number == number { // they lie side by side, mostly
		return int(i), true
	}
	if b.blocks[n-1].number <= number { // ids are added in their order, mostly
		if number <= b.blocks[n-1].last() {
			return n - 1, true
		}
		return n, false
	}
	return slices.BinarySearchFunc(b.blocks, number, func(o block, number uint64) int {
		if o.number <= number && number <= o.last() {
			return 0
		}
		return cmp.Compare(o.number, number)
	})
}

// own returns the place of the block with a number, with a list or bits of its own. If it is not there it is made
// and empty: the caller adds to it.
func (b *Bitmap) own(number uint64) int {
	i, ok := b.find(number)
	if !ok {
		b.blocks = slices.Insert(b.blocks, i, block{number: number})
		return i
	}
	if b.blocks[i].span == 0 {
		return i
	}
	b.divide(number)
	b.divide(number + 1)
	i, _ = b.find(number)
	o := &b.blocks[i]
	o.span, o.count, o.bits = 0, blockIDs, new([blockWords]uint64)
	for w := range o.bits {
		o.bits[w] = ^uint64(0)
	}
	return i
}

// divide cuts the span in two that has the blocks before and behind the start of one.
func (b *Bitmap) divide(number uint64) {
	i, ok := b.find(number)
	if !ok || b.blocks[i].number == number {
		return
	}
	o := b.blocks[i]
	b.blocks[i].span = number - o.number
	b.blocks = slices.Insert(b.blocks, i+1, block{number: number, span: o.number + o.span - number})
}

// tidy has the block at i, of which the count has changed, be what it should be: nothing if it is empty, or a span.
func (b *Bitmap) tidy(i int) {
	switch o := &b.blocks[i]; {
	case o.span == 0 && o.count == 0:
		b.blocks = slices.Delete(b.blocks, i, i+1)
	case o.span > 0 || o.count == blockIDs:
		o.span, o.count, o.list, o.bits = max(o.span, 1), 0, nil, nil
		if next := i + 1; next < len(b.blocks) && b.blocks[next].span > 0 && o.last()+1 == b.blocks[next].number {
			o.span += b.blocks[next].span
			b.blocks = slices.Delete(b.blocks, next, next+1)
		}
		if i > 0 && b.blocks[i-1].span > 0 && b.blocks[i-1].last()+1 == b.blocks[i].number {
			b.blocks[i-1].span += b.blocks[i].span
			b.blocks = slices.Delete(b.blocks, i, i+1)
		}
	}
}

// Has reports whether id is in the set.
func (b *Bitmap) Has(id uint64) bool {
	i, ok := b.find(id >> blockShift)
	return ok && b.blocks[i].has(uint16(id&blockMask))
}

// Add adds an id, and reports whether it was not there.
func (b *Bitmap) Add(id uint64) bool {
	i, ok := b.find(id >> blockShift)
	if !ok {
		b.blocks = slices.Insert(b.blocks, i, block{number: id >> blockShift})
	} else if b.blocks[i].span > 0 {
		return false
	}
	if !b.blocks[i].add(uint16(id & blockMask)) {
		return false
	}
	if b.count++; b.blocks[i].count == blockIDs {
		b.tidy(i)
	}
	return true
}

// AddRange adds the ids of r, which may be empty.
func (b *Bitmap) AddRange(r Range) {
	if r.First == r.Last {
		b.Add(r.First)
		return
	}
	b.pieces(r, func(number uint64, first, last uint16) {
		if i, ok := b.find(number); ok && b.blocks[i].span > 0 {
			return
		}
		i := b.own(number)
		before := b.blocks[i].count
		b.blocks[i].addRange(first, last)
		b.count += uint64(b.blocks[i].count - before)
		b.tidy(i)
	}, func(numbers Range) {
		i := b.clear(numbers)
		b.blocks = slices.Insert(b.blocks, i, block{number: numbers.First, span: numbers.Last - numbers.First + 1})
		b.count += b.blocks[i].span << blockShift
		b.tidy(i)
	})
}

// pieces calls part for each block that r covers in part. It calls all for the numbers of the blocks that r covers as a
// whole, if there are any.
func (b *Bitmap) pieces(r Range, part func(number uint64, first, last uint16), all func(numbers Range)) {
	if r.isEmpty() {
		return
	}
	first, last := r.First>>blockShift, r.Last>>blockShift
	from, to := uint16(r.First&blockMask), uint16(r.Last&blockMask)
	if first == last && (from > 0 || to < blockMask) {
		part(first, from, to)
		return
	}
	inner := Between(first, last)
	if from > 0 {
		part(first, from, blockMask)
		inner.First++
	}
	if to < blockMask {
		inner.Last-- // above first, since they differ
	}
	if !inner.isEmpty() {
		all(inner)
	}
	if to < blockMask {
		part(last, 0, to)
	}
}

// clear takes whole blocks out, and returns the place where they were.
func (b *Bitmap) clear(numbers Range) (at int) {
	b.divide(numbers.First)
	b.divide(numbers.Last + 1)
	i, _ := b.find(numbers.First)
	j := i
	for ; j < len(b.blocks) && b.blocks[j].number <= numbers.Last; j++ {
		b.count -= b.blocks[j].len()
	}
	b.blocks = slices.Delete(b.blocks, i, j)
	return i
}

// Remove takes an id out, and reports whether it was there.
func (b *Bitmap) Remove(id uint64) bool {
	i, ok := b.find(id >> blockShift)
	if !ok {
		return false
	}
	if b.blocks[i].span > 0 {
		i = b.own(id >> blockShift)
	}
	if !b.blocks[i].remove(uint16(id & blockMask)) {
		return false
	}
	b.count--
	b.tidy(i)
	return true
}

// RemoveRange takes the ids of r, which may be empty, out, and returns how many were there.
func (b *Bitmap) RemoveRange(r Range) (n uint64) {
	before := b.count
	b.pieces(r, func(number uint64, first, last uint16) {
		i, ok := b.find(number)
		if !ok {
			return
		}
		if b.blocks[i].span > 0 {
			i = b.own(number)
		}
		b.count -= uint64(b.blocks[i].removeRange(first, last))
		b.tidy(i)
	}, func(numbers Range) { b.clear(numbers) })
	return before - b.count
}

// RemoveBelow takes the ids below one out.
func (b *Bitmap) RemoveBelow(id uint64) {
	if id > 0 && len(b.blocks) > 0 && b.blocks[0].number <= (id-1)>>blockShift {
		b.RemoveRange(Between(0, id-1))
	}
}

// RemoveAll takes the ids of another set out, and returns how many were there.
func (b *Bitmap) RemoveAll(other *Bitmap) (n uint64) {
	for k := range other.blocks {
		o := &other.blocks[k]
		if o.span > 0 {
			n += b.RemoveRange(o.ids())
			continue
		}
		i, ok := b.find(o.number)
		if !ok {
			continue
		}
		if b.blocks[i].span > 0 {
			i = b.own(o.number)
		}
		gone := uint64(b.blocks[i].removeAll(o))
		b.count, n = b.count-gone, n+gone
		b.tidy(i)
	}
	return n
}

// AddAll adds the ids of another set.
func (b *Bitmap) AddAll(other *Bitmap) {
	for k := range other.blocks {
		o := &other.blocks[k]
		if o.span > 0 {
			b.AddRange(o.ids())
			continue
		}
		i, ok := b.find(o.number)
		if !ok {
			b.blocks = slices.Insert(b.blocks, i, o.clone())
			b.count += uint64(o.count)
			continue
		}
		if b.blocks[i].span > 0 {
			continue
		}
		b.count += uint64(b.blocks[i].addAll(o))
		b.tidy(i)
	}
}

// Clone returns a copy. It takes time for the blocks, and not for the ids: the sets share what neither changes. Another
// goroutine may use the copy.
func (b *Bitmap) Clone() Bitmap {
	for i := range b.blocks {
		b.blocks[i].shared = true
	}
	return Bitmap{blocks: slices.Clone(b.blocks), count: b.count}
}

// Part is Clone of the ids that are in r.
func (b *Bitmap) Part(r Range) Bitmap {
	if r.isEmpty() {
		return Bitmap{}
	}
	i, _ := b.find(r.First >> blockShift)
	j := i
	for ; j < len(b.blocks) && b.blocks[j].number <= r.Last>>blockShift; j++ {
		b.blocks[j].shared = true
	}
	c := Bitmap{blocks: slices.Clone(b.blocks[i:j])}
	for k := range c.blocks {
		c.count += c.blocks[k].len()
	}
	if c.RemoveBelow(r.First); r.Last < math.MaxUint64 {
		c.RemoveRange(Between(r.Last+1, math.MaxUint64))
	}
	return c
}

// Parts yields the ids as sets of n blocks at most, ascending, which share the memory of b: nobody changes either.
func (b *Bitmap) Parts(n int) iter.Seq[Bitmap] {
	return func(yield func(Bitmap) bool) {
		for some := range slices.Chunk(b.blocks, n) {
			part := Bitmap{blocks: some}
			for i := range some {
				part.count += some[i].len()
			}
			if !yield(part) {
				return
			}
		}
	}
}

// Memory is how many bytes the set takes.
func (b *Bitmap) Memory() (n int64) {
	for i := range b.blocks {
		if n += 2 * int64(cap(b.blocks[i].list)); b.blocks[i].bits != nil {
			n += blockIDs / 8
		}
	}
	return n + int64(cap(b.blocks))*int64(unsafe.Sizeof(block{}))
}
