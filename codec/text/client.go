package text

import (
	"bytes"
	"strconv"
)

// PutEnd ends the items of a PUT.
const PutEnd = "\n"

// AppendPut appends a PUT of items that never expire. Here and below, queue must be a name without
// spaces and line ends: it is not checked. Of the items [ValidItem] must be true.
func AppendPut(dst, queue []byte, items ...[]byte) []byte {
	return appendItems(appendHead(dst, OpPut, queue), items)
}

// AppendPutExpiring appends a PUT of items that live for expiryMillis milliseconds. Those of 0 and
// less are over at once.
func AppendPutExpiring(dst, queue []byte, expiryMillis int32, items ...[]byte) []byte {
	dst = appendHead(dst, OpPut, queue)
	dst = appendNumber(dst, expiryMillis)
	return appendItems(dst, items)
}

// ValidItem reports whether an item can be put through this protocol. It must not be empty, contain a line feed, or end
// in a carriage return.
func ValidItem(item []byte) bool {
	return len(item) > 0 && item[len(item)-1] != '\r' && bytes.IndexByte(item, '\n') < 0
}

// AppendPutItem appends one item of a PUT whose line, which AppendRequest can make, ends in a
// colon. PutEnd must follow the last one.
func AppendPutItem(dst, item []byte) []byte {
	dst = append(dst, item...)
	return append(dst, '\n')
}

// AppendGet appends a GET, which waits up to waitMillis milliseconds. It first confirms what this
// connection fetched from the queue before.
func AppendGet(dst, queue []byte, waitMillis int32) []byte {
	return appendFetch(dst, OpGet, queue, waitMillis)
}

// AppendPeek appends a PEEK, which waits up to waitMillis milliseconds. It first confirms what this
// connection fetched from the queue before.
func AppendPeek(dst, queue []byte, waitMillis int32) []byte {
	return appendFetch(dst, OpPeek, queue, waitMillis)
}

// AppendMonitor appends a MONITOR that lasts for waitMillis milliseconds.
func AppendMonitor(dst, queue []byte, waitMillis int32) []byte {
	dst = appendHead(dst, OpMonitor, queue)
	return endLine(appendNumber(dst, waitMillis))
}

// AppendConfirm appends a CONFIRM of the count oldest open reads.
func AppendConfirm(dst, queue []byte, count int32) []byte {
	dst = appendHead(dst, OpConfirm, queue)
	return endLine(appendNumber(dst, count))
}

// AppendAuth appends an AUTH. Neither word may be empty or hold a space or a line end.
func AppendAuth(dst, user, password []byte) []byte {
	return AppendRequest(dst, &Request{Op: OpAuth, User: user, Password: password})
}

// AppendCommand appends a command that takes one word at most and no items. The word is a queue name after OpFlush and
// OpDelete, and a status or nothing after OpStatus. The rest take none.
func AppendCommand(dst []byte, op Op, word []byte) []byte {
	return endLine(appendHead(dst, op, word))
}

// AppendRequest appends the line of req in its plainest form; items must follow if it has ItemsFollow. What Decode
// returned without error is encoded to a line that decodes to the same request. The exception is an empty Queue, which
// cannot be the last word of a line.
func AppendRequest(dst []byte, req *Request) []byte {
	switch req.Op {
	case OpPut:
		dst = appendHead(dst, OpPut, req.Queue)
		if req.HasExpiry {
			dst = appendNumber(dst, req.ExpiryMillis)
		}
		dst = appendDelay(dst, req)
		dst = appendWhich(dst, req)
		dst = appendFlag(dst, req.New, " new")
		dst = appendFlag(dst, req.Replace, " replace")
	case OpGet, OpPeek:
		dst = appendHead(dst, req.Op, req.Queue)
		if req.WaitMillis != 0 {
			dst = appendNumber(dst, req.WaitMillis)
		}
		if req.HasLease {
			dst = append(dst, " lease"...)
			if req.LeaseMillis > 0 {
				dst = append(dst, '=')
				dst = strconv.AppendInt(dst, req.LeaseMillis, 10)
			}
		}
		dst = appendSources(dst, req)
		dst = appendWhich(dst, req)
		dst = appendFlag(dst, req.Meta, " meta")
	case OpList:
		dst = appendHead(dst, OpList, req.Queue)
		if req.From != 0 {
			dst = strconv.AppendUint(append(dst, " from="...), req.From, 10)
		}
		if req.Limit != 0 {
			dst = strconv.AppendInt(append(dst, " limit="...), int64(req.Limit), 10)
		}
		dst = appendFlag(dst, req.Hidden, " hidden")
		dst = appendFlag(dst, req.Meta, " meta")
	case OpRemove:
		dst = appendWhich(appendHead(dst, OpRemove, req.Queue), req)
	case OpTouch:
		if req.ID != 0 || len(req.Key) > 0 {
			dst = appendWhich(appendHead(dst, OpTouch, req.Queue), req)
			dst = strconv.AppendInt(append(dst, ' '), req.TouchMillis, 10)
			break
		}
		dst = appendReceipt(appendHead(dst, OpTouch, req.Queue), req.Receipt)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, req.LeaseMillis, 10)
	case OpAbort, OpRelease, OpReject:
		dst = appendHead(dst, req.Op, req.Queue)
		if req.Receipt != 0 {
			dst = appendReceipt(dst, req.Receipt)
		}
		dst = appendDelay(dst, req)
	case OpMonitor:
		dst = appendNumber(appendHead(dst, OpMonitor, req.Queue), req.WaitMillis)
	case OpConfirm:
		dst = appendHead(dst, OpConfirm, req.Queue)
		if req.Receipt != 0 {
			dst = appendReceipt(dst, req.Receipt)
			break
		}
		dst = appendNumber(dst, req.Count)
	case OpStatus:
		dst = appendHead(dst, OpStatus, req.Status)
	case OpAuth:
		dst = append(append(appendHead(dst, OpAuth, req.User), ' '), req.Password...)
	default:
		dst = appendHead(dst, req.Op, req.Queue)
	}
	if req.ItemsFollow {
		return append(dst, ":\n"...)
	}
	return endLine(dst)
}

func appendDelay(dst []byte, req *Request) []byte {
	if !req.HasDelay {
		return dst
	}
	return strconv.AppendInt(append(dst, " delay="...), req.DelayMillis, 10)
}

// appendWhich appends the id of an item, and a key, if there are any.
func appendWhich(dst []byte, req *Request) []byte {
	if req.ID != 0 {
		dst = strconv.AppendUint(append(dst, " id="...), req.ID, 10)
	}
	if len(req.Key) > 0 {
		dst = append(append(dst, " key="...), req.Key...)
	}
	return dst
}

func appendFlag(dst []byte, set bool, word string) []byte {
	if !set {
		return dst
	}
	return append(dst, word...)
}

func appendReceipt(dst []byte, receipt uint64) []byte {
	return strconv.AppendUint(append(dst, " receipt="...), receipt, 10)
}

func appendFetch(dst []byte, op Op, queue []byte, waitMillis int32) []byte {
	dst = appendHead(dst, op, queue)
	if waitMillis != 0 {
		dst = appendNumber(dst, waitMillis)
	}
	return endLine(dst)
}

// appendHead appends the command and, after a space, its first word if there is one.
func appendHead(dst []byte, op Op, word []byte) []byte {
	dst = append(dst, op.String()...)
	if len(word) > 0 || op == OpMonitor || op == OpConfirm || op >= OpTouch {
		dst = append(dst, ' ')
		dst = append(dst, word...)
	}
	return dst
}

func appendNumber(dst []byte, v int32) []byte {
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, int64(v), 10)
}

// appendItems ends the line of a PUT and appends its items.
func appendItems(dst []byte, items [][]byte) []byte {
	dst = append(dst, ":\n"...)
	for _, item := range items {
		dst = AppendPutItem(dst, item)
	}
	return append(dst, PutEnd...)
}

// endLine ends the line of a request without items. A space keeps a last word that ends in a colon
// or a carriage return from losing it.
func endLine(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == ':' || last == '\r' {
		dst = append(dst, ' ')
	}
	return append(dst, '\n')
}
