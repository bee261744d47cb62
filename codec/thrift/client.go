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

// AppendAbort appends an abort of open reads, without a delay of its own.
func (c Client) AppendAbort(dst []byte, seq int32, queue []byte, ids ...int64) []byte {
	return c.appendIDs(dst, MethodAbort, seq, queue, ids)
}

// AppendReturn appends an abort, a release or a reject of open reads, whose items are hidden for so long.
func (c Client) AppendReturn(dst []byte, method Method, seq int32, queue []byte, delayMillis int64, ids ...int64) []byte {
	start := len(dst)
	dst = c.appendIDs(dst, method, seq, queue, ids)
	if method == MethodReject {
		return dst
	}
	dst = appendI64Field(dst[:len(dst)-1], 3, delayMillis)
	return endStruct(dst, start)
}

// AppendTouch appends a touch: the read is to come back by itself so many milliseconds from now.
func (c Client) AppendTouch(dst []byte, seq int32, queue []byte, id int64, autoAbortMillis int32) []byte {
	start := len(dst)
	dst = c.beginCall(dst, MethodTouch, seq)
	dst = appendStringField(dst, 1, queue)
	dst = appendI64Field(dst, 2, id)
	dst = appendI32Field(dst, 3, autoAbortMillis)
	return endStruct(dst, start)
}

// PutOptions are the arguments of a put besides the queue and the items.
type PutOptions struct {
	ExpiryMillis int32    // the items live so long; 0: for ever
	DelayMillis  int64    // the items are hidden so long
	Keys         [][]byte // of the items, as many; nil: none has one
	OnDuplicate  int32    // OnDuplicateOverwrite, OnDuplicateOnlyNew or OnDuplicateOnlyReplace
}

// AppendPutWith is AppendPut with all that a put may ask for.
func (c Client) AppendPutWith(dst []byte, seq int32, queue []byte, options PutOptions, items ...[]byte) []byte {
	req := Request{
		Call: Call{Method: MethodPut, Seq: seq}, Queue: queue, Items: listOf(items), Keys: listOf(options.Keys),
		ExpiryMillis: options.ExpiryMillis, DelayMillis: options.DelayMillis, OnDuplicate: options.OnDuplicate,
	}
	return c.AppendRequest(dst, &req)
}

// AppendGetAny appends a get_any. The weights are as many as the queues, or none.
func (c Client) AppendGetAny(
	dst []byte, seq int32, queues [][]byte, weights []int32, waitMillis, autoAbortMillis int32,
) []byte {
	req := Request{
		Call: Call{Method: MethodGetAny, Seq: seq}, Queues: listOf(queues), WaitMillis: waitMillis,
		AutoAbortMillis: autoAbortMillis,
	}
	for _, w := range weights {
		req.Weights.data = appendI32(req.Weights.data, w)
	}
	return c.AppendRequest(dst, &req)
}

// AppendBrowse appends a browse: of the item that which names, or else of up to limit items from an id on.
func (c Client) AppendBrowse(
	dst []byte, seq int32, queue []byte, which Which, from int64, limit int32, hidden bool,
) []byte {
	return c.AppendRequest(dst, &Request{
		Call: Call{Method: MethodBrowse, Seq: seq}, Queue: queue, Which: which, From: from, Limit: limit, Hidden: hidden,
	})
}

// AppendRemove appends a remove of one item.
func (c Client) AppendRemove(dst []byte, seq int32, queue []byte, which Which) []byte {
	return c.AppendRequest(dst, &Request{Call: Call{Method: MethodRemove, Seq: seq}, Queue: queue, Which: which})
}

// AppendTouchItem appends a touch of one item: it is to expire so many milliseconds from now, or never if that
// is 0.
func (c Client) AppendTouchItem(dst []byte, seq int32, queue []byte, which Which, expiryMillis int32) []byte {
	return c.AppendRequest(dst, &Request{
		Call: Call{Method: MethodTouch, Seq: seq}, Queue: queue, Which: which, ExpiryMillis: expiryMillis,
	})
}

// listOf returns values as they lie in a frame.
func listOf(values [][]byte) (list Items) {
	for _, v := range values {
		list.data = appendString(list.data, v)
	}
	list.count = len(values)
	return list
}

// AppendSetStatus appends a set_status.
func (c Client) AppendSetStatus(dst []byte, seq int32, status Status) []byte {
	start := len(dst)
	dst = c.beginCall(dst, MethodSetStatus, seq)
	dst = appendI32Field(dst, 1, int32(status))
	return endStruct(dst, start)
}

// AppendAuthenticate appends an authenticate.
func (c Client) AppendAuthenticate(dst []byte, seq int32, user, password []byte) []byte {
	start := len(dst)
	dst = c.beginCall(dst, MethodAuthenticate, seq)
	dst = appendStringField(dst, 1, user)
	dst = appendStringField(dst, 2, password)
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
		dst = appendItems(dst, 2, req.Items)
		dst = appendI32Field(dst, 3, req.ExpiryMillis)
		if req.DelayMillis != 0 {
			dst = appendI64Field(dst, 4, req.DelayMillis)
		}
		if req.Keys.Len() > 0 {
			dst = appendItems(dst, 5, req.Keys)
		}
		if req.OnDuplicate != 0 {
			dst = appendI32Field(dst, 6, req.OnDuplicate)
		}
		return endStruct(dst, start)
	case MethodGet:
		return c.AppendGet(dst, req.Seq, req.Queue, GetOptions{
			MaxItems:        req.MaxItems,
			WaitMillis:      req.WaitMillis,
			AutoAbortMillis: req.AutoAbortMillis,
		})
	case MethodConfirm, MethodAbort, MethodRelease, MethodReject:
		start := len(dst)
		dst = c.beginCall(dst, req.Method, req.Seq)
		dst = appendStringField(dst, 1, req.Queue)
		dst = appendList(dst, 2, typeSet, typeI64, req.IDs.Len())
		dst = append(dst, req.IDs.data...)
		if req.Method == MethodAbort && req.DelayMillis != NoDelay || req.Method == MethodRelease {
			dst = appendI64Field(dst, 3, req.DelayMillis)
		}
		return endStruct(dst, start)
	case MethodTouch, MethodBrowse, MethodRemove, MethodGetAny:
		start := len(dst)
		dst = c.beginCall(dst, req.Method, req.Seq)
		return endStruct(appendItemArgs(dst, req), start)
	case MethodSetStatus:
		return c.AppendSetStatus(dst, req.Seq, req.Status)
	case MethodAuthenticate:
		return c.AppendAuthenticate(dst, req.Seq, req.User, req.Password)
	}
	return c.AppendCall(dst, req.Method, req.Seq, req.Queue)
}

// appendItemArgs appends the arguments of a method that is about single items, or several queues.
func appendItemArgs(dst []byte, req *Request) []byte {
	if req.Method.hasQueue() {
		dst = appendStringField(dst, 1, req.Queue)
	}
	switch req.Method {
	case MethodTouch:
		dst = appendI64Field(dst, 2, req.ID)
		dst = appendI32Field(dst, 3, req.AutoAbortMillis)
		dst = appendWhich(dst, 4, req.Which)
		if req.ExpiryMillis != 0 {
			dst = appendI32Field(dst, 6, req.ExpiryMillis)
		}
	case MethodBrowse:
		dst = appendI64Field(dst, 2, req.From)
		dst = appendI32Field(dst, 3, req.Limit)
		hidden := byte(0)
		if req.Hidden {
			hidden = 1
		}
		dst = append(appendField(dst, 4, typeBool), hidden)
		dst = appendWhich(dst, 5, req.Which)
	case MethodRemove:
		dst = appendWhich(dst, 2, req.Which)
	case MethodGetAny:
		dst = appendItems(dst, 1, req.Queues)
		dst = appendI32Field(dst, 2, req.WaitMillis)
		dst = appendI32Field(dst, 3, req.AutoAbortMillis)
		if n := req.Weights.Len(); n > 0 {
			dst = append(appendList(dst, 4, typeList, typeI32, n), req.Weights.data...)
		}
	}
	return dst
}

// appendWhich appends what names an item, as far as it is set, in the field with the id id and the one behind it.
func appendWhich(dst []byte, id int16, which Which) []byte {
	if which.ID != 0 {
		dst = appendI64Field(dst, id, which.ID)
	}
	if which.Key != nil {
		dst = appendStringField(dst, id+1, which.Key)
	}
	return dst
}

// appendItems appends a field with a list of strings.
func appendItems(dst []byte, id int16, list Items) []byte {
	return append(appendList(dst, id, typeList, typeString, list.Len()), list.data...)
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
