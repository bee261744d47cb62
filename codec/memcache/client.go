package memcache

import (
	"slices"
	"strconv"
)

// maxSetHeader is the longest line of a SET in bytes, without the queue name.
const maxSetHeader = len("set  4294967295 -9223372036854775808 2147483647 noreply\r\n")

// GetOptions are the options of a GET. Peek goes with neither Open nor Close, Abort with none of
// the other three; a server refuses those.
type GetOptions struct {
	Open  bool // reliable read: the item stays open on this connection
	Close bool // first confirm this connection's oldest open read of the queue
	Abort bool // put this connection's oldest open read back, and fetch nothing
	Peek  bool // look at the head item without removing it

	WaitMillis int32 // longest wait in milliseconds; 0: do not wait
}

// AppendSet appends a SET with its body. Here and below, queue must be a name without spaces and
// line ends: it is not checked. What expiry means is said at ExpiryTime.
func AppendSet(dst, queue []byte, flags uint32, expiry int64, data []byte) []byte {
	return appendSet(dst, queue, flags, expiry, data, false)
}

// AppendSetHeader appends the line of a SET of size bytes. The data and then "\r\n" must follow.
func AppendSetHeader(
	dst, queue []byte, flags uint32, expiry int64, size int, noReply bool,
) []byte {
	dst = append(dst, "set "...)
	dst = append(dst, queue...)
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, uint64(flags), 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, expiry, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(size), 10)
	if noReply {
		dst = append(dst, " noreply"...)
	}
	return append(dst, "\r\n"...)
}

// AppendGet appends a GET.
func AppendGet(dst, queue []byte, options GetOptions) []byte {
	dst = append(dst, "get "...)
	dst = append(dst, queue...)
	if options.WaitMillis != 0 {
		dst = append(dst, "/t="...)
		dst = strconv.AppendInt(dst, int64(options.WaitMillis), 10)
	}
	if options.Close {
		dst = append(dst, "/close"...)
	}
	if options.Open {
		dst = append(dst, "/open"...)
	}
	if options.Abort {
		dst = append(dst, "/abort"...)
	}
	if options.Peek {
		dst = append(dst, "/peek"...)
	}
	return append(dst, "\r\n"...)
}

// AppendMonitor appends a MONITOR that lasts for seconds or until maxItems were delivered. A
// negative maxItems sets no limit. To leave the limit to the server, use AppendRequest.
func AppendMonitor(dst, queue []byte, seconds, maxItems int32) []byte {
	dst = appendCommand(dst, OpMonitor, queue)
	dst = appendArg(dst, seconds)
	dst = appendArg(dst, maxItems)
	return append(dst, "\r\n"...)
}

// AppendConfirm appends a CONFIRM of the count oldest open reads.
func AppendConfirm(dst, queue []byte, count int32) []byte {
	dst = appendCommand(dst, OpConfirm, queue)
	dst = appendArg(dst, count)
	return append(dst, "\r\n"...)
}

// AppendCommand appends a command that takes words and no body: a queue name after OpDelete,
// OpFlush and OpFlushExpired, a status or nothing after OpStatus, queue names separated by spaces
// or nothing after OpDumpStats and OpDumpConfig, nothing after the rest.
func AppendCommand(dst []byte, op Op, args []byte) []byte {
	dst = appendCommand(dst, op, args)
	return append(dst, "\r\n"...)
}

// AppendRequest appends req in its plainest form. What Decode returned without error is encoded to
// bytes that decode to the same request, except for an empty Queue of OpDelete, OpFlush and
// OpFlushExpired: a line cannot end in an empty word.
func AppendRequest(dst []byte, req *Request) []byte {
	switch req.Op {
	case OpGet:
		return AppendGet(dst, req.Queue, GetOptions{
			Open:       req.Open,
			Close:      req.Close,
			Abort:      req.Abort,
			Peek:       req.Peek,
			WaitMillis: req.WaitMillis,
		})
	case OpSet:
		return appendSet(dst, req.Queue, req.Flags, req.Expiry, req.Data, req.NoReply)
	case OpMonitor:
		dst = appendCommand(dst, OpMonitor, req.Queue)
		dst = appendArg(dst, req.Seconds)
		if req.HasMaxItems {
			dst = appendArg(dst, req.MaxItems)
		}
	case OpConfirm:
		return AppendConfirm(dst, req.Queue, req.Count)
	case OpDelete, OpFlush, OpFlushExpired:
		dst = appendCommand(dst, req.Op, req.Queue)
	default:
		dst = appendCommand(dst, req.Op, req.Args)
	}
	if req.NoReply {
		dst = append(dst, " noreply"...)
	}
	return append(dst, "\r\n"...)
}

func appendSet(
	dst, queue []byte, flags uint32, expiry int64, data []byte, noReply bool,
) []byte {
	dst = slices.Grow(dst, maxSetHeader+len(queue)+len(data)+bodyEndSize)
	dst = AppendSetHeader(dst, queue, flags, expiry, len(data), noReply)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// appendCommand appends the command word and, after a space, its first words if there are any.
func appendCommand(dst []byte, op Op, words []byte) []byte {
	dst = append(dst, op.String()...)
	if len(words) > 0 || op == OpMonitor || op == OpConfirm {
		dst = append(dst, ' ')
		dst = append(dst, words...)
	}
	return dst
}

func appendArg(dst []byte, v int32) []byte {
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, int64(v), 10)
}
