package thrift

import (
	"encoding/binary"
	"slices"
)

// Client encodes calls and decodes replies. The zero Client is that of a plain connection; sequence
// ids are chosen by the caller and come back in the replies.
type Client struct {
	MaxFrame int // bytes of a reply's frame behind its length; 0: no limit

	// Upgraded says that the server has accepted a MethodUpgrade. Calls then have a request header.
	Upgraded bool
	ClientID []byte // who calls, sent if not nil and Upgraded
}

// GetOptions are the arguments of a get besides the queue.
type GetOptions struct {
	MaxItems        int32 // items at most; 0: none; negative: no limit
	WaitMillis      int32 // how long to collect items; 0: take what is there; negative: nothing
	AutoAbortMillis int32 // above 0 the reads stay open this long, unless confirmed
}

// AppendPut appends a put. The items live for expiryMillis milliseconds, or for ever if it is 0.
func (c Client) AppendPut(
	dst []byte, seq int32, queue []byte, expiryMillis int32, items ...[]byte,
) []byte {
	start := len(dst)
	dst = c.beginCall(dst, MethodPut, seq)
	dst = appendStringField(dst, 1, queue)
	dst = appendList(dst, 2, typeList, typeString, len(items))
	for _, item := range items {
		dst = appendString(slices.Grow(dst, 4+len(item)), item)
	}
	dst = appendI32Field(dst, 3, expiryMillis)
	return endStruct(dst, start)
}

// AppendGet appends a get.
func (c Client) AppendGet(dst []byte, seq int32, queue []byte, options GetOptions) []byte {
	start := len(dst)
	dst = c.beginCall(dst, MethodGet, seq)
	dst = appendStringField(dst, 1, queue)
	dst = appendI32Field(dst, 2, options.MaxItems)
	dst = appendI32Field(dst, 3, options.WaitMillis)
	dst = appendI32Field(dst, 4, options.AutoAbortMillis)
	return endStruct(dst, start)
}

// AppendConfirm appends a confirm of open reads.
func (c Client) AppendConfirm(dst []byte, seq int32, queue []byte, ids ...int64) []byte {
	return c.appendIDs(dst, MethodConfirm, seq, queue, ids)
}

// AppendAbort appends an abort of open reads.
func (c Client) AppendAbort(dst []byte, seq int32, queue []byte, ids ...int64) []byte {
	return c.appendIDs(dst, MethodAbort, seq, queue, ids)
}

// AppendSetStatus appends a set_status.
func (c Client) AppendSetStatus(dst []byte, seq int32, status Status) []byte {
	start := len(dst)
	dst = c.beginCall(dst, MethodSetStatus, seq)
	dst = appendI32Field(dst, 1, int32(status))
	return endStruct(dst, start)
}

// AppendCall appends a call of any other method. Queue is for peek, flush_queue and delete_queue;
// the rest have no arguments.
func (c Client) AppendCall(dst []byte, method Method, seq int32, queue []byte) []byte {
	start := len(dst)
	dst = c.beginCall(dst, method, seq)
	if method.hasQueue() {
		dst = appendStringField(dst, 1, queue)
	}
	return endStruct(dst, start)
}

// AppendRequest appends req, of which Upgraded, ClientID and Name are ignored, with all arguments.
// What Decode returned without error is encoded to bytes that decode to the same request.
func (c Client) AppendRequest(dst []byte, req *Request) []byte {
	switch req.Method {
	case MethodPut:
		start := len(dst)
		dst = c.beginCall(dst, MethodPut, req.Seq)
		dst = appendStringField(dst, 1, req.Queue)
		dst = appendList(dst, 2, typeList, typeString, req.Items.Len())
		dst = append(dst, req.Items.data...)
		dst = appendI32Field(dst, 3, req.ExpiryMillis)
		if req.DelayMillis != 0 {
			dst = appendI64Field(dst, 4, req.DelayMillis)
		}
		return endStruct(dst, start)
	case MethodGet:
		return c.AppendGet(dst, req.Seq, req.Queue, GetOptions{
			MaxItems:        req.MaxItems,
			WaitMillis:      req.WaitMillis,
			AutoAbortMillis: req.AutoAbortMillis,
		})
	case MethodConfirm, MethodAbort:
		start := len(dst)
		dst = c.beginCall(dst, req.Method, req.Seq)
		dst = appendStringField(dst, 1, req.Queue)
		dst = appendList(dst, 2, typeSet, typeI64, req.IDs.Len())
		return endStruct(append(dst, req.IDs.data...), start)
	case MethodSetStatus:
		return c.AppendSetStatus(dst, req.Seq, req.Status)
	}
	return c.AppendCall(dst, req.Method, req.Seq, req.Queue)
}

func (c Client) appendIDs(dst []byte, method Method, seq int32, queue []byte, ids []int64) []byte {
	start := len(dst)
	dst = c.beginCall(dst, method, seq)
	dst = appendStringField(dst, 1, queue)
	dst = appendList(dst, 2, typeSet, typeI64, len(ids))
	for _, id := range ids {
		dst = appendI64(dst, id)
	}
	return endStruct(dst, start)
}

// beginCall appends the start of a call, up to its argument struct.
func (c Client) beginCall(dst []byte, method Method, seq int32) []byte {
	dst = beginFrame(dst)
	if c.Upgraded {
		dst = c.appendRequestHeader(dst)
	}
	return appendMessage(dst, messageCall, method.String(), seq)
}

// appendRequestHeader appends the struct before a call on an upgraded connection. Nothing is
// traced.
func (c Client) appendRequestHeader(dst []byte) []byte {
	dst = appendI64Field(dst, 1, 0) // trace_id
	dst = appendI64Field(dst, 2, 0) // span_id
	if c.ClientID != nil {
		dst = appendField(dst, 6, typeStruct)
		dst = appendStringField(dst, 1, c.ClientID)
		dst = append(dst, typeStop)
	}
	return append(dst, typeStop)
}

// appendList appends a field with a list or set, up to its elements.
func appendList(dst []byte, id int16, kind, element byte, count int) []byte {
	dst = append(appendField(dst, id, kind), element)
	return binary.BigEndian.AppendUint32(dst, uint32(count))
}
