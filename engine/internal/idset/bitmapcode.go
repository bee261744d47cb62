package idset

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// A Bitmap is encoded as its blocks. Each block is numbers (unsigned LEB128 of the fewest bytes):
//
//   - how many blocks lie between it and the one before;
//   - the number of its ranges of ids;
//   - for each range, how many ids lie between it and the one before, and its length less one.
//
// If bits are shorter, 0 and blockIDs/8 bytes of bits stand for the number of ranges and the ranges. The lowest id is
// the lowest bit of the first byte.

// AppendTo appends the encoded set. A long range takes five bytes for each of its blocks.
func (b *Bitmap) AppendTo(dst []byte) []byte {
	next := uint64(0)
	for i := range b.blocks {
		o := &b.blocks[i]
		for number := o.number; number <= o.last(); number++ {
			dst = binary.AppendUvarint(dst, number-next)
			next = number + 1
			if o.span > 0 {
				dst = binary.AppendUvarint(append(dst, 1, 0), blockMask)
			} else {
				dst = o.appendTo(dst)
			}
		}
	}
	return dst
}

// MaxEncoded is how many bytes an encoded set of so many ids takes at most, in blocks that lie side by side.
func (b *Bitmap) MaxEncoded() (n int64) {
	for i := range b.blocks {
		n += 2*binary.MaxVarintLen64 + min(int64(b.blocks[i].count)*4, blockIDs/8) + 5*int64(b.blocks[i].span)
	}
	return n
}

// Errors say what keeps bytes from being a set of ids.
var (
	errBlocks = errors.New("set of ids: a block comes twice, or lies beyond the last id")
	errRanges = errors.New("set of ids: a range is cut short, out of order, or leaves its block")
	errBits   = errors.New("set of ids: the bits of a block are cut short")
	errForm   = errors.New("set of ids: it is cut short, or not in its one valid form")
)

// ParseBitmap decodes all of data, which must be what AppendTo makes of a set.
func ParseBitmap(data []byte) (b Bitmap, err error) {
	whole, next := data, uint64(0)
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			bad = true
			return 0
		}
		data = data[n:]
		return v
	}
	for len(data) > 0 && !bad {
		o := block{number: next + number()}
		if o.number < next || o.number >= 1<<(64-blockShift) {
			return b, errBlocks
		}
		next = o.number + 1
		if count := number(); count > 0 {
			at := uint64(0)
			for range count {
				first := at + number()
				last := first + number()
				if bad || first < at || last < first || last > blockMask {
					return b, errRanges
				}
				o.addRange(uint16(first), uint16(last))
				at = last + 1
			}
		} else if bad || len(data) < blockIDs/8 {
			return b, errBits
		} else {
			o.bits = new([blockWords]uint64)
			for i := range o.bits {
				o.bits[i] = binary.LittleEndian.Uint64(data[i*8:])
				o.count += uint32(bits.OnesCount64(o.bits[i]))
			}
			data = data[blockIDs/8:]
			if o.count <= maxList/2 {
				o.gather()
			}
		}
		b.blocks = append(b.blocks, o)
		b.count += uint64(o.count)
		b.tidy(len(b.blocks) - 1)
	}
	// Each set has one encoding: what decodes to the same set, and is not that, was not written.
	if bad || !slices.Equal(b.AppendTo(make([]byte, 0, len(whole))), whole) {
		return Bitmap{}, errForm
	}
	return b, nil
}
