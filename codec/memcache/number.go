package memcache

import (
	"bytes"
	"math"
)

// beyond32 is where scanNumber stops counting: outside every 32-bit range, far from overflowing.
const beyond32 = 1 << 33

// scanNumber reads the decimal number that is the word at b[start:]: an optional sign and at least one digit. The word
// ends before b[end], whatever it holds; ok is false if it is not a number. Values outside all 32-bit ranges come back
// as some other value outside them.
func scanNumber(b []byte, start int) (value int64, end int, ok bool) {
	if start+1 < len(b) && b[start+1] == ' ' && isDigit(b[start]) {
		return int64(b[start] - '0'), start + 1, true
	}
	i := start
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
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
	if first > start && b[start] == '-' {
		value = -value
	}
	return value, i, ok
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// parseInt32 returns the number a whole word stands for.
func parseInt32(word []byte) (value int32, ok bool) {
	v, end, ok := scanNumber(word, 0)
	return int32(v), ok && end == len(word) && isInt32(v)
}

func isInt32(v int64) bool { return math.MinInt32 <= v && v <= math.MaxInt32 }

// isFlags reports whether v fits 32 bits, signed or unsigned: clients send both.
func isFlags(v int64) bool { return math.MinInt32 <= v && v <= math.MaxUint32 }
