package text

import (
	"slices"
	"strconv"
)

// Reply layout. Numbers and messages are printable ASCII. Items are written as stored. So an item with a line feed, put
// through another protocol, looks like two replies.
//
//	+<count>\n     success
//	-<message>\n   failure; the connection stays open
//	:<bytes>\n     an item, or a word; of a lease, the receipt, and then another such line with the item; likewise
//	               the queue of an item, its id, and what there is to know of it
//	*\n            no item; end of MONITOR

// Replies that never vary. Append them to the output as they are.
const (
	ReplyDone            = "+0\n" // FLUSH, DELETE, STATUS with a name, SHUTDOWN, PUT of nothing
	ReplyNone            = "*\n"  // no item, and the end of MONITOR
	ReplyNotThatMany     = "-Not that many transactions open.\n"
	ReplyUnknownStatus   = "-Unknown status.\n"
	ReplyStatusForbidden = "-Status forbidden.\n"
)

// AppendCount appends the reply to PUT, CONFIRM, ABORT, RELEASE and REJECT: a number of items. It is also that to
// TOUCH: when the lease lapses, in milliseconds since 1970.
func AppendCount(dst []byte, count int64) []byte {
	dst = append(dst, '+')
	dst = strconv.AppendInt(dst, count, 10)
	return append(dst, '\n')
}

// AppendItem appends the reply for one item, to GET, PEEK and MONITOR.
func AppendItem(dst, data []byte) []byte {
	dst = slices.Grow(dst, len(data)+2)
	dst = append(dst, ':')
	dst = append(dst, data...)
	return append(dst, '\n')
}

// AppendQueue appends the line with the queue that an item of several is from. The item follows, or the receipt
// of its lease.
func AppendQueue(dst, queue []byte) []byte {
	dst = append(append(dst, ':'), queue...)
	return append(dst, '\n')
}

// AppendReceipt appends the line with the receipt of a lease. The item follows.
func AppendReceipt(dst []byte, receipt uint64) []byte {
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, receipt, 10)
	return append(dst, '\n')
}

// AppendMeta appends the line with what there is to know of an item, in JSON without line feeds. It comes right in
// front of the item, behind the lines with its queue, its id or its receipt.
func AppendMeta(dst, json []byte) []byte { return AppendItem(dst, json) }

// AppendListed appends one item of a list: a line with its id, one with meta unless that is nil, and one with the
// item. ReplyNone follows the last.
func AppendListed(dst []byte, id uint64, meta, data []byte) []byte {
	dst = strconv.AppendUint(append(dst, ':'), id, 10)
	dst = append(dst, '\n')
	if meta != nil {
		dst = AppendMeta(dst, meta)
	}
	return AppendItem(dst, data)
}

// ItemTrailer ends the reply for an item.
const ItemTrailer = "\n"

// AppendItemHeader appends what comes before an item. The data and then ItemTrailer must follow, for
// callers that send the data without copying it here.
func AppendItemHeader(dst []byte) []byte { return append(dst, ':') }

// AppendError appends a failure. What is not printable ASCII in message becomes a question mark, so
// that no text can end the line early.
func AppendError(dst []byte, message string) []byte {
	dst = append(dst, '-')
	dst = appendASCII(dst, message)
	return append(dst, '\n')
}

// AppendUnavailable appends the refusal of an operation, for example getItem, because of the
// server's status or the connection limits.
func AppendUnavailable(dst []byte, operation string) []byte {
	dst = append(dst, "-Server not available for operation "...)
	dst = appendASCII(dst, operation)
	return append(dst, '\n')
}

// AppendTooManyOpen appends the refusal of a GET over the limit of open reads.
func AppendTooManyOpen(dst []byte, limit int) []byte {
	dst = append(dst, "-Too many open transactions; limit="...)
	dst = strconv.AppendInt(dst, int64(limit), 10)
	return append(dst, '\n')
}

// AppendVersion appends the reply to VERSION.
func AppendVersion(dst []byte, version string) []byte {
	dst = append(dst, ':')
	dst = appendASCII(dst, version)
	return append(dst, '\n')
}

// AppendStatus appends the reply to a STATUS without a name: the server status, for example
// ReadOnly, in upper case.
func AppendStatus(dst []byte, status string) []byte {
	dst = append(dst, ':')
	for i := range len(status) {
		c := status[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, printable(c))
	}
	return append(dst, '\n')
}

// appendUnknownCommand appends the refusal of a command that does not exist.
func appendUnknownCommand(dst, word []byte) []byte {
	dst = append(dst, "-Unknown command: "...)
	for _, c := range word {
		dst = append(dst, printable(lowerCase(c)))
	}
	return append(dst, '\n')
}

func appendASCII(dst []byte, text string) []byte {
	for _, r := range text {
		if r > '~' {
			r = '?'
		}
		dst = append(dst, printable(byte(r)))
	}
	return dst
}

// printable returns c, or a question mark if it is not printable ASCII.
func printable(c byte) byte {
	if c < ' ' || c > '~' {
		return '?'
	}
	return c
}
