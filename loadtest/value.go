package loadtest

import (
	"bytes"
	"time"
)

// Value layout. A stamp, then letters; a value shorter than the stamp is cut.
//
//	offset  size  field
//	0       4     run, hexadecimal: from the seed
//	4       4     producer, hexadecimal: counts the connections that put, from 0
//	8       1     '.'
//	9       10    sequence number, hexadecimal: counts the puts of the producer from 0
//	19      1     '.'
//	20      13    when it was sent, or due, hexadecimal: nanoseconds since the ledger began
//	33      1     '.'
//	34      n     letters of alphabet, repeated, from a start that follows from the stamp
//
// Neighbouring items share no letter at any offset, so a byte of one in the other is seen.
const (
	stampSize = 34 // bytes
	alphabet  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

	maxSeq  = 1<<40 - 1
	maxTime = 1<<52 - 1
)

// stamp says which item a value is.
type stamp struct {
	run      uint16
	producer uint16
	seq      uint64        // up to maxSeq
	at       time.Duration // up to maxTime
}

// letters is alphabet repeated, so that a value's letters from any start are one slice of it.
type letters []byte

func newLetters(size int) letters {
	return bytes.Repeat([]byte(alphabet), size/len(alphabet)+2)
}

// of returns the n letters that follow a stamp.
func (l letters) of(s stamp, n int) []byte {
	start := (s.seq + uint64(s.producer) + uint64(s.run) + uint64(s.at)) % uint64(len(alphabet))
	return l[start : start+uint64(n)]
}

// appendValue extends dst by the value of size bytes with a stamp. l has letters for it.
func appendValue(dst []byte, size int, s stamp, l letters) []byte {
	var head [stampSize]byte
	putHex(head[0:4], uint64(s.run))
	putHex(head[4:8], uint64(s.producer))
	putHex(head[9:19], s.seq)
	putHex(head[20:33], uint64(s.at))
	head[8], head[19], head[33] = '.', '.', '.'
	dst = append(dst, head[:min(size, stampSize)]...)
	return append(dst, l.of(s, max(size-stampSize, 0))...)
}

// putHex writes as many hexadecimal digits of n as there is room for.
func putHex(dst []byte, n uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
}

// parseStamp returns the stamp of a value, or false if it has none.
func parseStamp(value []byte) (s stamp, ok bool) {
	if len(value) < stampSize || value[8] != '.' || value[19] != '.' || value[33] != '.' {
		return stamp{}, false
	}
	run, ok1 := parseHex(value[0:4])
	producer, ok2 := parseHex(value[4:8])
	seq, ok3 := parseHex(value[9:19])
	at, ok4 := parseHex(value[20:33])
	s = stamp{uint16(run), uint16(producer), seq, time.Duration(at)}
	return s, ok1 && ok2 && ok3 && ok4
}

func parseHex(digits []byte) (n uint64, ok bool) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
