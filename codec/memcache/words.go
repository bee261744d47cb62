package memcache

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
)

// Words yields the words of Request.Args in order. Like all words of a request they are separated
// by single spaces, so a double space yields an empty word.
func Words(args []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := args; len(rest) > 0; {
			var word []byte
			if word, rest = cutWord(rest); !yield(word) {
				return
			}
		}
	}
}

// cutWord returns the bytes of b before its first space and those after it. As a line's last word
// is never empty, rest is empty only if word was the last one.
func cutWord(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// scanName returns where the queue name at the start of b ends: before the first space or slash. It reports whether the
// name is ASCII. It looks at eight bytes at a time.
func scanName(b []byte) (end int, ascii bool) {
	const ones = 0x0101010101010101
	var all uint64 // every bit of the bytes of the name, in any byte
	for rest := b; ; rest = rest[8:] {
		var word uint64 // the next bytes, and zeros behind the last of b
		switch {
		case len(rest) >= 8:
			word = binary.LittleEndian.Uint64(rest)
		case len(b) >= 8:
			word = binary.LittleEndian.Uint64(b[len(b)-8:]) >> (64 - 8*len(rest))
		default:
			word = fewBytes(rest)
		}
		space, slash := word^' '*ones, word^'/'*ones // a zero byte where there is one
		if found := ((space-ones)&^space | (slash-ones)&^slash) & (0x80 * ones); found != 0 {
			before := found&-found>>7 - 1 // the bits of the bytes before the first one
			return len(b) - len(rest) + bits.TrailingZeros64(found)/8, (all|word&before)&(0x80*ones) == 0
		}
		if all |= word; len(rest) < 8 {
			return len(b), all&(0x80*ones) == 0
		}
	}
}

// fewBytes returns the bytes of b, less than eight, as a little-endian number.
func fewBytes(b []byte) uint64 {
	n := len(b)
	switch {
	case n >= 4: // the two halves agree where they overlap
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<(8*(n-4))
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1))
	}
	return 0
}

// endsNoReply reports whether the last of the words in b is noreply. b starts with the space that
// separates it from the words a command uses.
func endsNoReply(b []byte) bool {
	const word = " noreply"
	return len(b) >= len(word) && string(b[len(b)-len(word):]) == word
}

// onlyByte reports whether b consists of one or more c.
func onlyByte(b []byte, c byte) bool {
	for _, x := range b {
		if x != c {
			return false
		}
	}
	return len(b) > 0
}
