package memcache

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// Replies that never vary. Append them to the output as they are.
const (
	ReplyStored      = "STORED\r\n"
	ReplyNotStored   = "NOT_STORED\r\n"
	ReplyEnd         = "END\r\n" // no item; also ends STATS, DUMP_STATS, DUMP_CONFIG and MONITOR
	ReplyDeleted     = "DELETED\r\n"
	ReplyTouched     = "TOUCHED\r\n"
	ReplyNotFound    = "NOT_FOUND\r\n"
	ReplyError       = "ERROR\r\n"
	ReplyClientError = "CLIENT_ERROR\r\n"
	ReplyServerError = "SERVER_ERROR\r\n"
	ReplyFlushedAll  = "Flushed all queues.\r\n"
	ReplyReloaded    = "Reloaded config.\r\n"
)

// ValueTrailer follows the data of an item.
const ValueTrailer = "\r\nEND\r\n"

const maxValueHeader = len("VALUE  4294967295 9223372036854775807 18446744073709551615\r\n") // bytes, without the name

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
	if flags == 0 { // most have none
		dst = append(dst, " 0 "...)
	} else {
		dst = strconv.AppendUint(append(dst, ' '), uint64(flags), 10)
		dst = append(dst, ' ')
	}
	dst = strconv.AppendUint(dst, uint64(size), 10)
	return append(dst, "\r\n"...)
}

// AppendLeased is AppendValue for an item whose lease has a receipt.
//
//	VALUE <queue> <flags> <size> <receipt>\r\n<data>\r\nEND\r\n
func AppendLeased(dst, queue []byte, flags uint32, data []byte, receipt uint64) []byte {
	dst = slices.Grow(dst, maxValueHeader+len(queue)+len(data)+len(ValueTrailer))
	dst = AppendLeasedHeader(dst, queue, flags, len(data), receipt)
	dst = append(dst, data...)
	return append(dst, ValueTrailer...)
}

// AppendLeasedHeader is AppendValueHeader for an item whose lease has a receipt.
func AppendLeasedHeader(dst, queue []byte, flags uint32, size int, receipt uint64) []byte {
	dst = AppendValueHeader(dst, queue, flags, size)
	dst = append(dst[:len(dst)-len("\r\n")], ' ')
	dst = strconv.AppendUint(dst, receipt, 10)
	return append(dst, "\r\n"...)
}

// Meta is what there is to know of an item, beside its bytes. Times are milliseconds since 1970.
type Meta struct {
	ID         uint64
	Key        []byte // nil: none
	Deliveries int    // this one included, if it is a delivery
	Added      int64  // when the item was put
	Expires    int64  // 0: never
	Due        int64  // when the lease lapses; 0: none
	Receipt    uint64 // 0: none
	Origin     []byte // the queue that gave the item up; nil: none
	Why        string // it did
}

// MaxMeta is how many bytes AppendMeta appends at most, without the name of the queue.
const MaxMeta = 3500

// AppendJSON appends m in JSON, without line ends. What there is none of is left out.
//
//	{"id":7,"deliveries":1,"added":…,"expires":…,"due":…,"receipt":"…"}
func (m *Meta) AppendJSON(json []byte) []byte {
	json = strconv.AppendUint(append(json, `{"id":`...), m.ID, 10)
	if m.Key != nil {
		json = appendJSON(append(json, `,"key":`...), m.Key)
	}
	json = strconv.AppendInt(append(json, `,"deliveries":`...), int64(m.Deliveries), 10)
	json = strconv.AppendInt(append(json, `,"added":`...), m.Added, 10)
	if m.Expires != 0 {
		json = strconv.AppendInt(append(json, `,"expires":`...), m.Expires, 10)
	}
	if m.Due != 0 {
		json = strconv.AppendInt(append(json, `,"due":`...), m.Due, 10)
	}
	if m.Receipt != 0 {
		json = strconv.AppendUint(append(json, `,"receipt":"`...), m.Receipt, 10)
		json = append(json, '"')
	}
	if m.Origin != nil {
		json = appendJSON(append(json, `,"origin":`...), m.Origin)
		json = append(append(append(json, `,"why":"`...), m.Why...), '"')
	}
	return append(json, '}')
}

// AppendMeta appends the value in JSON that stands in front of an item. The item's own value must follow.
//
//	VALUE <queue>/meta 0 <size>\r\n<json>\r\n
func AppendMeta(dst, queue []byte, m *Meta) []byte {
	var buf [MaxMeta]byte
	json := m.AppendJSON(buf[:0])
	dst = append(dst, "VALUE "...)
	dst = append(dst, queue...)
	dst = append(dst, "/meta 0 "...)
	dst = strconv.AppendInt(dst, int64(len(json)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, json...)
	return append(dst, "\r\n"...)
}

const hexDigits = "0123456789abcdef"

// appendJSON appends a string in JSON. Bytes that are not UTF-8 stand for the characters of ISO-8859-1.
func appendJSON(dst, s []byte) []byte {
	dst = append(dst, '"')
	valid := utf8.Valid(s)
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f || c > 0x7f && !valid:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// AppendListed appends one item of a list: a value named by the queue and the id. ReplyEnd follows the last.
//
//	VALUE <queue>/<id> <flags> <size>\r\n<data>\r\n
func AppendListed(dst, queue []byte, id uint64, flags uint32, data []byte) []byte {
	dst = append(append(append(dst, "VALUE "...), queue...), '/')
	dst = strconv.AppendUint(dst, id, 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(flags), 10)
	dst = strconv.AppendInt(append(dst, ' '), int64(len(data)), 10)
	return append(append(append(dst, "\r\n"...), data...), "\r\n"...)
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
