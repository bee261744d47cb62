package loadtest

import "fmt"

// Value layout. A stamp, then letters; a value shorter than the stamp is cut.
//
//	offset  size  field
//	0       8     producer, hexadecimal: the number of the queue when verifying, otherwise 0
//	8       1     '.'
//	9       16    sequence number, hexadecimal: counts the puts of the producer from 0
//	25      1     '.'
//	26      n     letters of alphabet, repeated, from a start that follows from the sequence number
//
// Neighbouring items share no letter at any offset, so a byte of one in the other is seen.
const (
	stampSize = 26 // bytes
	alphabet  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
)

// appendValue extends dst by the value of size bytes that the producer's put seq carries.
func appendValue(dst []byte, size int, producer uint32, seq uint64) []byte {
	end := len(dst) + size
	dst = appendHex(dst, uint64(producer), 8)
	dst = append(dst, '.')
	dst = appendHex(dst, seq, 16)
	dst = append(dst, '.')
	start := int((seq + uint64(producer)) % uint64(len(alphabet)))
	for len(dst) < end {
		dst = append(dst, alphabet[start:]...)
		start = 0
	}
	return dst[:end]
}

func appendHex(dst []byte, n uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[n>>shift&15])
	}
	return dst
}

// parseStamp returns the producer and sequence number in a value, or false if it has no stamp.
func parseStamp(value []byte) (producer uint32, seq uint64, ok bool) {
	if len(value) < stampSize || value[8] != '.' || value[25] != '.' {
		return 0, 0, false
	}
	high, ok1 := parseHex(value[:8])
	low, ok2 := parseHex(value[9:25])
	return uint32(high), low, ok1 && ok2
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

// An orderChecker checks the values one connection gets from one queue. It is owned by the
// connection's thread.
//
// The queue has one producer. The sequence numbers a consumer sees must rise, and if it is the only
// consumer they must rise by exactly one.
type orderChecker struct {
	producer uint32
	sole     bool   // no other connection of the run reads the queue
	started  bool   // next is known
	next     uint64 // lowest sequence number that may follow
	scratch  []byte // the value due
}

// check returns what is wrong with a value, or the empty string, and the value that was due. The
// latter is valid until the next call.
func (c *orderChecker) check(value []byte) (problem string, want []byte) {
	producer, seq, ok := parseStamp(value)
	if !ok {
		c.scratch = appendValue(c.scratch[:0], len(value)+stampSize, c.producer, c.next)
		return "value without a stamp", c.scratch
	}
	c.scratch = appendValue(c.scratch[:0], len(value), c.producer, seq)
	switch {
	case producer != c.producer:
		return "item of another queue", c.scratch
	case string(value) != string(c.scratch):
		return "damaged value", c.scratch
	case c.started && (seq < c.next || c.sole && seq > c.next):
		c.scratch = appendValue(c.scratch[:0], len(value), c.producer, c.next)
		return fmt.Sprintf("item %d out of order, due is %d", seq, c.next), c.scratch
	}
	c.started, c.next = true, seq+1
	return "", c.scratch
}
