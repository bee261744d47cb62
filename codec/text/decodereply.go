package text

import "bytes"

// MaxReplyLine is the longest reply a client accepts, in bytes, line end included.
const MaxReplyLine = 64 << 20

// Kind says what a server answered. The zero Kind is no reply.
type Kind uint8

// The kinds of replies, with the fields of [Reply] each of them sets.
const (
	KindCount Kind = iota + 1 // +: Count
	KindError                 // -: Data, the message
	KindItem                  // :, Data: an item, a version or a status
	KindNone                  // *: no item, or the end of MONITOR
)

// String returns a name for logs.
func (k Kind) String() string {
	switch k {
	case KindCount:
		return "count"
	case KindError:
		return "error"
	case KindItem:
		return "item"
	case KindNone:
		return "none"
	}
	return "unknown"
}

// Reply is one decoded reply. DecodeReply overwrites all of it; Data aliases the bytes given to
// DecodeReply.
type Reply struct {
	Kind  Kind
	Count int64
	Data  []byte // see Kind; without the line end
}

// DecodeReply parses one reply at the start of src and returns the bytes it occupied. It overwrites
// r, whose slices alias src. Each item of a MONITOR is a reply of its own.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of a reply. It returns ErrBadReply and 0 for a line longer
// than MaxReplyLine, an unknown first byte, and a count that is not a number. It keeps no state and does not allocate.
// Lines end with a bare line feed here: an item may end in a carriage return.
func DecodeReply(src []byte, r *Reply) (n int, err error) {
	*r = Reply{}
	end := bytes.IndexByte(src[:min(len(src), MaxReplyLine)], '\n')
	if end < 0 {
		if len(src) >= MaxReplyLine {
			return 0, ErrBadReply
		}
		return 0, ErrIncomplete
	}
	if end == 0 {
		return 0, ErrBadReply
	}
	rest := src[1:end]
	switch src[0] {
	case '+':
		count, ok := parseCount(rest)
		if !ok {
			return 0, ErrBadReply
		}
		r.Kind, r.Count = KindCount, count
	case '-':
		r.Kind, r.Data = KindError, rest
	case ':':
		r.Kind, r.Data = KindItem, rest
	case '*':
		if len(rest) > 0 {
			return 0, ErrBadReply
		}
		r.Kind = KindNone
	default:
		return 0, ErrBadReply
	}
	return end + 1, nil
}

// parseCount returns the number that 1 to 18 digits stand for.
func parseCount(digits []byte) (count int64, ok bool) {
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		count = count*10 + int64(c-'0')
	}
	return count, true
}
