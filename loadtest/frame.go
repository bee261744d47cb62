package loadtest

import (
	"bytes"
	"strconv"
)

// maxReplyLine bounds the first line of a reply, in bytes; a longer one is not a reply.
const maxReplyLine = 1024

// replyLine returns the length of the line at the start of src with its \r\n, which is never all of
// it. If src has no such line it returns zero, and whether more bytes can make one.
func replyLine(src []byte) (n int, ok bool) {
	i := bytes.IndexByte(src[:min(len(src), maxReplyLine)], '\n')
	switch {
	case i > 1 && src[i-1] == '\r':
		return i + 1, true
	case i < 0 && len(src) < maxReplyLine:
		return 0, true
	}
	return 0, false
}

// unframed returns what parseReply consumes when there is no whole line: nothing if one may follow,
// otherwise all.
func unframed(mayFollow bool, src []byte) int {
	if mayFollow {
		return 0
	}
	return len(src)
}

// parseSize parses the decimal size of a value, at most MaxItemSize.
func parseSize(digits []byte) (size int, ok bool) {
	if len(digits) == 0 || len(digits) > 9 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		size = size*10 + int(c-'0')
	}
	return size, size <= MaxItemSize
}

// appendBlock extends dst by the size of value, a line's end, value, and a line's end.
func appendBlock(dst, value []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(value)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// parseBlock parses a value of size bytes and its line's end, behind the first line bytes of src.
func parseBlock(src []byte, line, size int) (reply, int) {
	total := line + size + 2
	if len(src) < total {
		return reply{}, 0
	}
	if src[total-2] != '\r' || src[total-1] != '\n' {
		return reply{outcome: refused}, total
	}
	return reply{outcome: hit, value: src[line : line+size]}, total
}
