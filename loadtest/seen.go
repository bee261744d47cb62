package loadtest

import (
	"iter"
	"math/bits"
	"slices"
)

// seenSet is a set of sequence numbers that fills up from below. Numbers below base are in it, so its size is the
// distance between the least missing and the greatest present, in bits. The zero seenSet is empty.
type seenSet struct {
	base  uint64   // a multiple of 64
	words []uint64 // bit i of word w is base + 64w + i
}

// add adds seq and reports whether it was missing. Callers bound seq: a set with a far number is
// large.
func (s *seenSet) add(seq uint64) bool {
	if seq < s.base {
		return false
	}
	w, bit := int((seq-s.base)/64), uint64(1)<<(seq%64)
	if w >= len(s.words) {
		s.words = slices.Grow(s.words, w+1-len(s.words))
		clear(s.words[len(s.words) : w+1])
		s.words = s.words[:w+1]
	}
	if s.words[w]&bit != 0 {
		return false
	}
	s.words[w] |= bit
	if s.words[0] == ^uint64(0) {
		s.shrink()
	}
	return true
}

// shrink moves base up to the first word with a number missing.
func (s *seenSet) shrink() {
	full := 0
	for full < len(s.words) && s.words[full] == ^uint64(0) {
		full++
	}
	s.base += 64 * uint64(full)
	s.words = s.words[full:]
}

// first returns the least number that is not in the set.
func (s *seenSet) first() uint64 {
	if len(s.words) == 0 {
		return s.base
	}
	return s.base + uint64(bits.TrailingZeros64(^s.words[0]))
}

// missing yields the numbers below end that are not in the set, in order.
func (s *seenSet) missing(end uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for word := s.base; word < end; word += 64 {
			absent := ^uint64(0)
			if w := int((word - s.base) / 64); w < len(s.words) {
				absent = ^s.words[w]
			}
			for ; absent != 0; absent &= absent - 1 {
				seq := word + uint64(bits.TrailingZeros64(absent))
				if seq >= end || !yield(seq) {
					return
				}
			}
		}
	}
}
