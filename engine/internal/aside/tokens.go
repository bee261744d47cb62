package aside

import (
	"crypto/rand"
	"encoding/binary"
)

// Tokens draws random numbers, some at a time. The zero Tokens is ready for use. It is not safe for concurrent use.
type Tokens struct {
	random [256]byte
	left   int // bytes of them that are not used
}

// Next draws a number from 1 to the largest that a signed one of 64 bits may be.
func (t *Tokens) Next() (token uint64) {
	for token == 0 {
		if t.left == 0 {
			rand.Read(t.random[:]) // never fails
			t.left = len(t.random)
		}
		t.left -= 8
		token = binary.LittleEndian.Uint64(t.random[t.left:]) >> 1
	}
	return token
}
