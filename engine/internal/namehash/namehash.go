package namehash

import (
	"encoding/binary"
	"math/bits"
)

const (
	ones = 0x0101010101010101 // a byte of a word, eight times
	odd  = 0x9E3779B97F4A7C15
)

// Of returns the hash of name up to its first plus sign. With a secret seed nobody can choose names that have the same
// one.
func Of(seed uint64, name []byte) uint64 {
	for len(name) >= 8 {
		word := binary.LittleEndian.Uint64(name)
		if at := plus(word); at != 0 {
			return mix(seed ^ before(word, at))
		}
		seed, name = mix(seed^word), name[8:]
	}
	word := last(name)
	if at := plus(word); at != 0 {
		word = before(word, at)
	}
	return mix(seed ^ word)
}

// last returns the bytes of b, less than eight, as a little-endian number.
func last(b []byte) uint64 {
	n := len(b)
	switch {
	case n >= 4: // the two halves agree where they overlap
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<(8*(n-4))
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1))
	}
	return 0
}

// plus returns a word whose lowest bit stands in the first byte of word that is a plus sign; 0 if none is.
func plus(word uint64) uint64 {
	x := word ^ '+'*ones // such a byte is zero now
	return (x - ones) &^ x & (0x80 * ones)
}

// before returns the bytes of word below the lowest bit of at, which is the highest bit of a byte.
func before(word, at uint64) uint64 { return word & ((at & -at >> 7) - 1) }

func mix(word uint64) uint64 {
	high, low := bits.Mul64(word, odd)
	return high ^ low
}
