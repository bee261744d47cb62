package memcache

import (
	"bytes"
	"math"
)

// beyond32 is where scanNumber stops counting: outside every 32-bit range, far from overflowing.
const beyond32 = 1 << 33

// scanNumber reads the decimal number that is the first word of b: an optional sign and at least
// one digit. Size is the length of that word, whatever it holds; ok is false if it is not a number.
// Values outside all 32-bit ranges come back as some other value outside them.
func scanNumber(b []byte) (value int64, size int, ok bool) {
	if len(b) > 1 && b[1] == ' ' && isDigit(b[0]) {
		return int64(b[0] - '0'), 1, true
	}
	i := 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		i = 1
	}
	first := i
	for ; i < len(b); i++ {
		if !isDigit(b[i]) {
			break
		}
		value = min(value*10+int64(b[i]-'0'), beyond32)
	}
	ok = i > first
	if i < len(b) && b[i] != ' ' {
		ok = false
		if space := bytes.IndexByte(b[i:], ' '); space >= 0 {
			i += space
		} else {
			i = len(b)
		}
	}
	if first == 1 && b[0] == '-' {
		value = -value
	}
	return value, i, ok
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// parseInt32 returns the number a whole word stands for.
func parseInt32(word []byte) (value int32, ok bool) {
	v, size, ok := scanNumber(word)
	return int32(v), ok && size == len(word) && isInt32(v)
}

func isInt32(v int64) bool { return math.MinInt32 <= v && v <= math.MaxInt32 }

// isFlags reports whether v fits 32 bits, signed or unsigned: clients send both.
func isFlags(v int64) bool { return math.MinInt32 <= v && v <= math.MaxUint32 }
