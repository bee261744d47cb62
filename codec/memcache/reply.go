package memcache

import (
	"slices"
	"strconv"
)

// Replies that never vary. Append them to the output as they are.
const (
	ReplyStored      = "STORED\r\n"
	ReplyNotStored   = "NOT_STORED\r\n"
	ReplyEnd         = "END\r\n" // no item; also ends STATS, DUMP_STATS, DUMP_CONFIG and MONITOR
	ReplyDeleted     = "DELETED\r\n"
	ReplyError       = "ERROR\r\n"
	ReplyClientError = "CLIENT_ERROR\r\n"
	ReplyServerError = "SERVER_ERROR\r\n"
	ReplyFlushedAll  = "Flushed all queues.\r\n"
	ReplyReloaded    = "Reloaded config.\r\n"
)

// ValueTrailer follows the data of an item.
const ValueTrailer = "\r\nEND\r\n"

const maxValueHeader = len("VALUE  4294967295 9223372036854775807\r\n") // bytes, without the name

// AppendValue appends the whole reply for one item, END included. Kestrel always sent flags 0.
//
//	VALUE <queue> <flags> <size>\r\n<data>\r\nEND\r\n
func AppendValue(dst, queue []byte, flags uint32, data []byte) []byte {
	dst = slices.Grow(dst, maxValueHeader+len(queue)+len(data)+len(ValueTrailer))
	dst = AppendValueHeader(dst, queue, flags, len(data))
	dst = append(dst, data...)
	return append(dst, ValueTrailer...)
}

// AppendValueHeader appends the line before an item of size bytes. The data and then ValueTrailer
// must follow, for callers that send the data without copying it here.
func AppendValueHeader(dst, queue []byte, flags uint32, size int) []byte {
	dst = append(dst, "VALUE "...)
	dst = append(dst, queue...)
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, uint64(flags), 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(size), 10)
	return append(dst, "\r\n"...)
}

// AppendClientError appends CLIENT_ERROR, followed by words if there are any. Kestrel sent none.
// Control characters in words become spaces, so that no text can end the line early.
func AppendClientError(dst []byte, words string) []byte {
	return appendStatusLine(dst, "CLIENT_ERROR", words)
}

// AppendServerError appends SERVER_ERROR and words, as AppendClientError does.
func AppendServerError(dst []byte, words string) []byte {
	return appendStatusLine(dst, "SERVER_ERROR", words)
}

// AppendVersion appends the reply to VERSION. Control characters become spaces.
func AppendVersion(dst []byte, version string) []byte {
	return appendStatusLine(dst, "VERSION", version)
}

// AppendCount appends the reply to FLUSH_EXPIRED and FLUSH_ALL_EXPIRED: a number of items.
func AppendCount(dst []byte, count int64) []byte {
	dst = strconv.AppendInt(dst, count, 10)
	return append(dst, "\r\n"...)
}

// AppendStatus appends the reply to a STATUS without arguments: the server status, for example
// ReadOnly, in upper case.
func AppendStatus(dst []byte, status string) []byte {
	for i := range len(status) {
		c := status[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return append(dst, "\r\n"...)
}

// appendStatusLine appends a status word, a space and text, or the word alone if text is empty.
func appendStatusLine(dst []byte, status, text string) []byte {
	dst = append(dst, status...)
	if text != "" {
		dst = append(dst, ' ')
		dst = appendText(dst, text)
	}
	return append(dst, "\r\n"...)
}

// appendText appends text with control characters replaced by spaces.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}
