package oldjournal

import (
	"math"
	"math/bits"
)

// usedXIDs is a set of xids that finds the next one that is not in it in a few steps, whatever is in it. A journal may
// open many reads, and then say again and again that the last xid was a low one.
//
// Level 0 has a bit for each xid. Each further level has a bit for each word of the level below, which is set if that
// word is full. Words that are zero are not in the maps. The zero value is an empty set.
type usedXIDs struct {
	levels [6]map[uint32]uint64 // words of 64 bits, by their place
}

// add puts an xid into the set.
func (s *usedXIDs) add(xid int32) {
	at := uint32(xid)
	for i := range s.levels {
		if s.levels[i] == nil {
			s.levels[i] = make(map[uint32]uint64)
		}
		word := s.levels[i][at/64] | 1<<(at%64)
		s.levels[i][at/64] = word
		if ^word != 0 {
			return
		}
		at /= 64
	}
}

// remove takes an xid, which is in the set, out of it.
func (s *usedXIDs) remove(xid int32) {
	at := uint32(xid)
	for i := range s.levels {
		word := s.levels[i][at/64]
		if left := word &^ (1 << (at % 64)); left != 0 {
			s.levels[i][at/64] = left
		} else {
			delete(s.levels[i], at/64)
		}
		if ^word != 0 {
			return // the words above did not count it as full
		}
		at /= 64
	}
}

// next returns the first xid from the given one on that is not in the set. The highest xid is followed by the lowest,
// as for the original.
func (s *usedXIDs) next(xid int32) int32 {
	at := uint64(uint32(xid))
	for level := range s.levels {
		free := ^s.levels[level][uint32(at/64)] &^ (1<<(at%64) - 1)
		if free == 0 {
			at = at/64 + 1
			continue
		}
		at = at&^63 + uint64(bits.TrailingZeros64(free))
		for below := level - 1; below >= 0; below-- {
			at = at*64 + uint64(bits.TrailingZeros64(^s.levels[below][uint32(at)]))
		}
		break
	}
	if at > math.MaxUint32 {
		return s.next(0)
	}
	return int32(uint32(at))
}
