package memcache

import (
	"slices"
	"strconv"
)

// maxSetHeader is the longest line of a SET in bytes, without the queue name.
const maxSetHeader = len("set /delay=9223372036854775807 4294967295 -9223372036854775808 2147483647 noreply\r\n")

// GetOptions are the options of a GET. Peek goes with neither Open nor Close, Abort with none of
// the other three; a server refuses those.
type GetOptions struct {
	Open  bool // reliable read: the item stays open on this connection
	Close bool // first confirm this connection's oldest open read of the queue
	Abort bool // put this connection's oldest open read back, and fetch nothing
	Peek  bool // look at the head item without removing it

	WaitMillis int32 // longest wait in milliseconds; 0: do not wait

	// Lease makes the fetch a reliable read that comes back by itself after LeaseMillis. If that is 0, the options of
	// the queue say when. With CAS the reply has a receipt, and any connection may end the read; otherwise it is an
	// open read of this connection. It goes with Close, WaitMillis and Meta. A server before 3.0 ignores it and takes
	// the item for good: ask for its version first.
	Lease       bool
	LeaseMillis int64
	CAS         bool // GETS

	Release bool // give an open read back as if it had not been delivered
	Reject  bool // send an open read to the dead-letter queue
	// Receipt names the lease that Close, Abort, Release or Reject ends; 0 stands for this connection's
	// oldest open read.
	Receipt uint64
	// Delay hides the item that Abort or Release gives back for DelayMillis.
	Delay       bool
	DelayMillis int64
	Meta        bool // what there is to know of the item comes in front of it

	// ID, or Key if ID is 0, names one item to look at, wherever it is. List lists items instead, with ids from From
	// on, Limit at most, or as many as the server says if that is 0. Hidden lists those too that are delayed or leased.
	// Both take nothing, and go with Meta alone. A server before 3.0 ignores them and takes an item.
	ID     uint64
	Key    []byte
	List   bool
	From   uint64
	Limit  int
	Hidden bool
}

// SetOptions are what few puts ask for.
type SetOptions struct {
	Delay       bool // the item is hidden for DelayMillis
	DelayMillis int64
	Key         []byte // the item takes the place of the one with that key; empty: none
	New         bool   // only if there is none
	Replace     bool   // only if there is one
}

// AppendSet appends a SET with its body. Here and below, queue must be a name without spaces and
// line ends: it is not checked. What expiry means is said at ExpiryTime.
func AppendSet(dst, queue []byte, flags uint32, expiry int64, data []byte) []byte {
	dst = slices.Grow(dst, maxSetHeader+len(queue)+len(data)+bodyEndSize)
	dst = AppendSetHeader(dst, queue, flags, expiry, len(data), false)
	return append(append(dst, data...), "\r\n"...)
}

// AppendSetDelayed is AppendSet for an item that is hidden for so many milliseconds. A server before 3.0
// refuses it, and closes the connection.
func AppendSetDelayed(dst, queue []byte, delayMillis int64, flags uint32, expiry int64, data []byte) []byte {
	return appendSet(dst, &Request{
		Queue: queue, Flags: flags, Expiry: expiry, Data: data, HasDelay: true, DelayMillis: delayMillis,
	})
}

// AppendSetWith is AppendSet with options, which need a server from 3.0 on. The key is not checked.
func AppendSetWith(dst, queue []byte, o SetOptions, flags uint32, expiry int64, data []byte) []byte {
	return appendSet(dst, &Request{
		Queue: queue, Flags: flags, Expiry: expiry, Data: data, HasDelay: o.Delay, DelayMillis: o.DelayMillis,
		ItemKey: o.Key, New: o.New, Replace: o.Replace,
	})
}

// AppendSetHeader appends the line of a SET of size bytes. The data and then "\r\n" must follow.
func AppendSetHeader(
	dst, queue []byte, flags uint32, expiry int64, size int, noReply bool,
) []byte {
	dst = append(append(dst, "set "...), queue...)
	return appendSetNumbers(dst, flags, expiry, size, noReply)
}

func appendSetHeader(dst []byte, req *Request, size int) []byte {
	dst = append(dst, "set "...)
	dst = append(dst, req.Queue...)
	dst = appendDelay(dst, req.HasDelay, req.DelayMillis)
	dst = appendWhich(dst, 0, req.ItemKey)
	if req.New {
		dst = append(dst, "/new"...)
	}
	if req.Replace {
		dst = append(dst, "/replace"...)
	}
	return appendSetNumbers(dst, req.Flags, req.Expiry, size, req.NoReply)
}

// appendSetNumbers appends what stands behind the queue's name and the options in the line of a SET.
func appendSetNumbers(dst []byte, flags uint32, expiry int64, size int, noReply bool) []byte {
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

// AppendGet appends a GET, or a GETS.
func AppendGet(dst, queue []byte, options GetOptions) []byte {
	o := &options
	dst = append(dst, "get"...)
	if o.CAS {
		dst = append(dst, 's')
	}
	dst = append(dst, ' ')
	dst = append(dst, queue...)
	if o.WaitMillis != 0 {
		dst = append(dst, "/t="...)
		dst = strconv.AppendInt(dst, int64(o.WaitMillis), 10)
	}
	dst = appendEnd(dst, o.Close, "/close", o.Receipt)
	if o.Open {
		dst = append(dst, "/open"...)
	}
	dst = appendEnd(dst, o.Abort, "/abort", o.Receipt)
	if o.Peek {
		dst = append(dst, "/peek"...)
	}
	if o.Lease {
		dst = append(dst, "/lease"...)
		if o.LeaseMillis > 0 {
			dst = append(dst, '=')
			dst = strconv.AppendInt(dst, o.LeaseMillis, 10)
		}
	}
	dst = appendEnd(dst, o.Release, "/release", o.Receipt)
	dst = appendEnd(dst, o.Reject, "/reject", o.Receipt)
	dst = appendDelay(dst, o.Delay, o.DelayMillis)
	dst = appendWhich(dst, o.ID, o.Key)
	if o.List {
		dst = strconv.AppendUint(append(dst, "/from="...), o.From, 10)
	}
	if o.Limit > 0 {
		dst = strconv.AppendInt(append(dst, "/limit="...), int64(o.Limit), 10)
	}
	if o.Hidden {
		dst = append(dst, "/hidden"...)
	}
	if o.Meta {
		dst = append(dst, "/meta"...)
	}
	return append(dst, "\r\n"...)
}

// appendEnd appends an option that ends a read, if it is set.
func appendEnd(dst []byte, set bool, option string, receipt uint64) []byte {
	if !set {
		return dst
	}
	dst = append(dst, option...)
	if receipt != 0 {
		dst = append(dst, '=')
		dst = strconv.AppendUint(dst, receipt, 10)
	}
	return dst
}

// appendWhich appends the id of an item, or its key, or neither.
func appendWhich(dst []byte, id uint64, key []byte) []byte {
	if id != 0 {
		dst = strconv.AppendUint(append(dst, "/id="...), id, 10)
	}
	if len(key) > 0 {
		dst = append(append(dst, "/key="...), key...)
	}
	return dst
}

// AppendTouchItem appends a TOUCH of the item with that id, or with the key if the id is 0. Its expiry is what
// ExpiryTime makes of seconds.
func AppendTouchItem(dst, queue []byte, id uint64, key []byte, seconds int32) []byte {
	return AppendRequest(dst, &Request{Op: OpTouch, Queue: queue, ID: id, ItemKey: key, Seconds: seconds})
}

// AppendDeleteItem appends a DELETE of the item with that id, or with the key if the id is 0.
func AppendDeleteItem(dst, queue []byte, id uint64, key []byte) []byte {
	return AppendRequest(dst, &Request{Op: OpDelete, Queue: queue, ID: id, ItemKey: key})
}

func appendDelay(dst []byte, set bool, millis int64) []byte {
	if !set {
		return dst
	}
	return strconv.AppendInt(append(dst, "/delay="...), millis, 10)
}

// AppendTouch appends a TOUCH. The lease with the receipt, or this connection's oldest one if that is 0, then lasts for
// so many seconds.
func AppendTouch(dst, queue []byte, receipt uint64, seconds int32) []byte {
	dst = appendTouch(dst, queue, receipt, seconds)
	return append(dst, "\r\n"...)
}

func appendTouch(dst, queue []byte, receipt uint64, seconds int32) []byte {
	dst = appendCommand(dst, OpTouch, queue)
	dst = appendEnd(dst, true, "/lease", receipt)
	return appendArg(dst, seconds)
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

// AppendCommand appends a command that takes words and no body: a queue name after OpDelete, OpFlush and
// OpFlushExpired, and a status or nothing after OpStatus. After OpDumpStats and OpDumpConfig come queue names separated
// by spaces, or nothing; after the rest comes nothing.
func AppendCommand(dst []byte, op Op, args []byte) []byte {
	dst = appendCommand(dst, op, args)
	return append(dst, "\r\n"...)
}

// AppendRequest appends req in its plainest form. What Decode returned without error is encoded to bytes that decode to
// the same request. An empty Queue of OpDelete, OpFlush and OpFlushExpired is an exception: a line cannot end in an
// empty word.
func AppendRequest(dst []byte, req *Request) []byte {
	switch req.Op {
	case OpGet:
		queue := req.Queue
		if len(req.Several) > 0 {
			queue = appendSources(append([]byte(nil), queue...), req)
		}
		return AppendGet(dst, queue, GetOptions{
			Open:       req.Open,
			Close:      req.Close,
			Abort:      req.Abort,
			Peek:       req.Peek,
			WaitMillis: req.WaitMillis,

			Lease: req.HasLease, LeaseMillis: req.LeaseMillis, CAS: req.CAS,
			Release: req.Release, Reject: req.Reject, Receipt: req.Receipt,
			Delay: req.HasDelay, DelayMillis: req.DelayMillis, Meta: req.Meta,
			ID: req.ID, Key: req.ItemKey, List: req.List, From: req.From, Limit: req.Limit, Hidden: req.Hidden,
		})
	case OpSet:
		return appendSet(dst, req)
	case OpTouch:
		if req.ID == 0 && len(req.ItemKey) == 0 {
			dst = appendTouch(dst, req.Queue, req.Receipt, req.Seconds)
			break
		}
		dst = appendWhich(appendCommand(dst, OpTouch, req.Queue), req.ID, req.ItemKey)
		dst = appendArg(dst, req.Seconds)
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
		dst = appendEnd(dst, req.Receipt != 0, "/lease", req.Receipt)
		dst = appendWhich(dst, req.ID, req.ItemKey)
	default:
		dst = appendCommand(dst, req.Op, req.Args)
	}
	if req.NoReply {
		dst = append(dst, " noreply"...)
	}
	return append(dst, "\r\n"...)
}

func appendSet(dst []byte, req *Request) []byte {
	dst = slices.Grow(dst, maxSetHeader+len(req.Queue)+len(req.Data)+bodyEndSize)
	dst = appendSetHeader(dst, req, len(req.Data))
	dst = append(dst, req.Data...)
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
