package idset

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Ids of a Bitmap lie in blocks of blockIDs. A block with few of them is a list, another one is bits, and full
// ones that lie side by side are one span.
const (
	blockShift = 16
	blockIDs   = 1 << blockShift
	blockMask  = blockIDs - 1
	blockWords = blockIDs / 64
	maxList    = blockIDs / 16 // ids of a list: what takes as much memory as the bits
)

// block is the ids from number·blockIDs on.
type block struct {
	number uint64
	span   uint64              // as many blocks have all their ids; 0: it is one block, with a list or bits
	count  uint32              // of the list or the bits, below blockIDs
	shared bool                // a block of another set has the same list, or bits: see own
	list   []uint16            // ascending; nil if there are bits
	bits   *[blockWords]uint64 // nil if there is a list
}

// own has o have its list, or its bits, for itself: they are about to change.
func (o *block) own() {
	if !o.shared {
		return
	}
	o.shared = false
	if o.list = slices.Clone(o.list); o.bits != nil {
		all := *o.bits
		o.bits = &all
	}
}

// last is the number of the last block that o stands for.
func (o *block) last() uint64 { return o.number + max(o.span, 1) - 1 }

// ids is the range of the ids that o is about.
func (o *block) ids() Range { return Between(o.number<<blockShift, o.last()<<blockShift|blockMask) }

func (o *block) has(low uint16) bool {
	if o.span > 0 {
		return true
	}
	if o.bits != nil {
		return o.bits[low/64]>>(low%64)&1 != 0
	}
	_, ok := slices.BinarySearch(o.list, low)
	return ok
}

func (o *block) add(low uint16) bool {
	o.own()
	if o.bits == nil && o.count == maxList {
		o.spread()
	}
	if o.bits != nil {
		w, bit := &o.bits[low/64], uint64(1)<<(low%64)
		if *w&bit != 0 {
			return false
		}
		*w |= bit
	} else {
		at, found := slices.BinarySearch(o.list, low)
		if found {
			return false
		}
		o.list = slices.Insert(o.list, at, low)
	}
	o.count++
	return true
}

// spread makes bits of a list.
func (o *block) spread() {
	o.bits = new([blockWords]uint64)
	for _, low := range o.list {
		o.bits[low/64] |= 1 << (low % 64)
	}
	o.list = nil
}

// gather makes a list of bits.
func (o *block) gather() {
	o.list = make([]uint16, 0, o.count)
	o.each(0, func(low uint16) bool {
		o.list = append(o.list, low)
		return true
	})
	o.bits = nil
}

// len is how many ids a block has.
func (o *block) len() uint64 { return uint64(o.count) + o.span<<blockShift }

func (o *block) addRange(first, last uint16) {
	o.own()
	if o.bits == nil && int(o.count)+int(last-first)+1 <= maxList {
		for low := int(first); low <= int(last); low++ {
			o.add(uint16(low))
		}
		return
	}
	if o.bits == nil {
		o.spread()
	}
	o.count += uint32(last-first) + 1 - o.countIn(first, last)
	for i := first / 64; i <= last/64; i++ {
		o.bits[i] |= wordMask(i, first, last)
	}
}

func (o *block) remove(low uint16) bool {
	o.own()
	if o.bits != nil {
		w, bit := &o.bits[low/64], uint64(1)<<(low%64)
		if *w&bit == 0 {
			return false
		}
		*w &^= bit
	} else {
		at, found := slices.BinarySearch(o.list, low)
		if !found {
			return false
		}
		o.list = slices.Delete(o.list, at, at+1)
	}
	o.count--
	if o.bits != nil && o.count == maxList/2 {
		o.gather()
	}
	return true
}

func (o *block) removeRange(first, last uint16) (gone uint32) {
	o.own()
	switch gone = o.countIn(first, last); {
	case gone == 0:
	case gone == o.count:
		o.list, o.bits, o.count = nil, nil, 0
	case o.bits == nil:
		from, _ := slices.BinarySearch(o.list, first)
		o.list = slices.Delete(o.list, from, from+int(gone))
		o.count -= gone
	default:
		for i := first / 64; i <= last/64; i++ {
			o.bits[i] &^= wordMask(i, first, last)
		}
		if o.count -= gone; o.count <= maxList/2 {
			o.gather()
		}
	}
	return gone
}

func (o *block) removeAll(other *block) (n uint32) {
	o.own()
	if o.bits == nil {
		left, list := o.list[:0], other.list
		for _, low := range o.list {
			for len(list) > 0 && list[0] < low {
				list = list[1:]
			}
			if other.bits != nil && other.has(low) || len(list) > 0 && list[0] == low {
				continue
			}
			left = append(left, low)
		}
		n, o.list, o.count = o.count-uint32(len(left)), left, uint32(len(left))
		return n
	}
	if other.bits == nil {
		other.each(0, func(low uint16) bool {
			if o.count > 0 && o.remove(low) {
				n++
			}
			return true
		})
		return n
	}
	for i, w := range other.bits {
		n += uint32(bits.OnesCount64(o.bits[i] & w))
		o.bits[i] &^= w
	}
	if o.count -= n; o.count <= maxList/2 {
		o.gather()
	}
	return n
}

func (o *block) addAll(other *block) (n uint32) {
	o.own()
	before := o.count
	switch {
	case other.bits != nil:
	case o.bits == nil && int(o.count+other.count) <= maxList:
		o.list = merge(o.list, other.list)
		o.count = uint32(len(o.list))
		return o.count - before
	default:
		if o.bits == nil { // it may hold more than a list
			o.spread()
		}
		for _, low := range other.list {
			o.add(low)
		}
		if o.count <= maxList/2 {
			o.gather()
		}
		return o.count - before
	}
	if o.bits == nil {
		o.spread()
	}
	o.count = 0
	for i, w := range other.bits {
		o.bits[i] |= w
		o.count += uint32(bits.OnesCount64(o.bits[i]))
	}
	return o.count - before
}

// merge returns what is in either of two lists, as a new one.
func merge(a, b []uint16) []uint16 {
	all := make([]uint16, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		low := min(a[0], b[0])
		if all = append(all, low); a[0] == low {
			a = a[1:]
		}
		if b[0] == low {
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}

func (o *block) clone() block {
	c := *o
	c.shared = true
	c.own()
	return c
}

// each calls f for the ids of a block that is no span from one on, ascending, until f returns false.
func (o *block) each(from uint16, f func(low uint16) bool) bool {
	if o.bits == nil {
		at, _ := slices.BinarySearch(o.list, from)
		for _, low := range o.list[at:] {
			if !f(low) {
				return false
			}
		}
		return true
	}
	mask := ^uint64(0) << (from % 64)
	for i := int(from / 64); i < blockWords; i++ {
		for w := o.bits[i] & mask; w != 0; w &= w - 1 {
			if !f(uint16(i*64 + bits.TrailingZeros64(w))) {
				return false
			}
		}
		mask = ^uint64(0)
	}
	return true
}

func (o *block) countIn(first, last uint16) (n uint32) {
	switch {
	case first == 0 && last == blockMask:
		return o.count
	case o.bits == nil:
		from, _ := slices.BinarySearch(o.list, first)
		to, found := slices.BinarySearch(o.list, last)
		if found {
			to++
		}
		return uint32(to - from)
	}
	for i := first / 64; i <= last/64; i++ {
		n += uint32(bits.OnesCount64(o.bits[i] & wordMask(i, first, last)))
	}
	return n
}

// wordMask is those bits of word i that lie between two ids of its block.
func wordMask(i, first, last uint16) uint64 {
	mask := ^uint64(0)
	if i == first/64 {
		mask &= ^uint64(0) << (first % 64)
	}
	if i == last/64 {
		mask &= ^uint64(0) >> (63 - last%64)
	}
	return mask
}

// ranges calls add for the ranges of ids of a block, ascending, until it returns false.
func (o *block) ranges(add func(Range) bool) bool {
	base := o.number << blockShift
	switch {
	case o.span > 0:
		return add(o.ids())
	case o.bits == nil:
		for list := o.list; len(list) > 0; {
			n := 1
			for n < len(list) && list[n] == list[n-1]+1 {
				n++
			}
			if !add(Between(base|uint64(list[0]), base|uint64(list[n-1]))) {
				return false
			}
			list = list[n:]
		}
		return true
	}
	for first := o.next(0, 0); first < blockIDs; {
		end := o.next(first, ^uint64(0))
		if !add(Between(base|uint64(first), base|uint64(end-1))) {
			return false
		}
		first = o.next(end, 0)
	}
	return true
}

// next is the first place from one on whose bit differs from those of skip, which are all alike. It is blockIDs if
// there is none.
func (o *block) next(from int, skip uint64) int {
	if from >= blockIDs {
		return blockIDs
	}
	word := (o.bits[from/64] ^ skip) &^ (1<<(from%64) - 1)
	for i := from / 64; ; word = o.bits[i] ^ skip {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
		if i++; i == blockWords {
			return blockIDs
		}
	}
}

func (o *block) rangeCount() (n int64) {
	if o.bits == nil { // a span is one
		for i, low := range o.list {
			if i == 0 || o.list[i-1]+1 != low {
				n++
			}
		}
		return max(n, 1)
	}
	before := uint64(0)
	for _, word := range o.bits {
		n += int64(bits.OnesCount64(word &^ (word<<1 | before)))
		before = word >> 63
	}
	return n
}

func (o *block) appendTo(dst []byte) []byte {
	count, start := o.rangeCount(), len(dst)
	if count < blockIDs/16 { // others are longer in any case
		dst = binary.AppendUvarint(dst, uint64(count))
		next := uint64(0)
		o.ranges(func(r Range) bool {
			dst = binary.AppendUvarint(dst, r.First&blockMask-next)
			dst = binary.AppendUvarint(dst, r.Last-r.First)
			next = r.Last&blockMask + 1
			return true
		})
		if len(dst)-start <= 1+blockIDs/8 {
			return dst
		}
		dst = dst[:start]
	}
	dst = append(dst, 0)
	all := o.bits
	if all == nil {
		spread := *o
		spread.spread()
		all = spread.bits
	}
	for _, w := range all {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}
