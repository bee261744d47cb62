package wire

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBadName says that a name cannot be that of a queue.
var ErrBadName = errors.New("bad name")

// Name returns a queue's name as the bytes of the protocol: one for each character, of ISO-8859-1.
// It refuses what a request cannot carry; servers refuse more. The error wraps ErrBadName.
func Name(queue string) ([]byte, error) {
	if queue == "" {
		return nil, fmt.Errorf("%w: the name of a queue is empty", ErrBadName)
	}
	name := make([]byte, 0, len(queue))
	for _, r := range queue {
		switch {
		case r <= ' ' || r == 0x7F || r == '/':
			return nil, fmt.Errorf("%w %q: a queue's name has no spaces, control characters and slashes", ErrBadName, queue)
		case r > 0xFF:
			return nil, fmt.Errorf("%w %q: the memcache protocol has no %q, only characters of ISO-8859-1",
				ErrBadName, queue, r)
		}
		name = append(name, byte(r))
	}
	return name, nil
}

// Text returns bytes of the protocol as text: the reverse of Name.
func Text(name []byte) string {
	var b strings.Builder
	for _, c := range name {
		b.WriteRune(rune(c))
	}
	return b.String()
}
