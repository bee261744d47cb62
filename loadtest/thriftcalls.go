package loadtest

import (
	"encoding/binary"
	"errors"
	"fmt"

	codec "github.com/kestrelmq/kestrel/codec/thrift"
)

// thriftCalls is Kestrel's Thrift service. A call's sequence id is its index in the batch.
type thriftCalls struct {
	client codec.Client

	wait  int32 // milliseconds
	lease int32 // milliseconds that opened reads stay open
	burst int   // items of one put
}

// named reports true: reads are confirmed by id.
func (thriftCalls) named() bool { return true }

// appendGreeting asks for request headers, if the connection is to say who it is.
func (p thriftCalls) appendGreeting(dst []byte, _ string, _ int, _ *Group) []byte {
	if !p.client.Upgraded {
		return dst
	}
	return codec.Client{}.AppendCall(dst, codec.MethodUpgrade, 0, nil)
}

func (p thriftCalls) greeted(src []byte, _ *Group) (n int, err error) {
	var got codec.Reply
	n, err = codec.Client{}.DecodeReply(src, &got)
	switch {
	case errors.Is(err, codec.ErrIncomplete):
		return 0, nil
	case err != nil:
		return 0, err
	case got.Failed:
		return 0, fmt.Errorf("the server does not take client ids: %s", got.Message)
	}
	return n, nil
}

func (p thriftCalls) appendRequest(dst []byte, r *request) []byte {
	c := p.client
	switch r.kind {
	case putRequest:
		return c.AppendPut(dst, r.seq, r.queue, 0, r.items...)
	case confirmRequest:
		return c.AppendConfirm(dst, r.seq, r.queue, openID(r.held, r.which))
	case confirmAllRequest:
		var room [64]int64
		ids := room[:0]
		for i := range r.held.len() {
			ids = append(ids, openID(r.held, i))
		}
		return c.AppendConfirm(dst, r.seq, r.queue, ids...)
	}
	options := codec.GetOptions{MaxItems: int32(r.count), WaitMillis: p.wait}
	if r.kind.opens() {
		options.AutoAbortMillis = p.lease
	}
	return c.AppendGet(dst, r.seq, r.queue, options)
}

// openID returns the id of an open read, or an id that no read has if there is none.
func openID(h *held, i int) int64 {
	if i >= h.len() {
		return 0
	}
	return int64(binary.BigEndian.Uint64(h.at(i)))
}

// appendID appends an id as held keeps it.
func appendID(dst []byte, id int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(id)) }

// method returns the method that a kind of request calls.
func (k requestKind) method() codec.Method {
	switch {
	case k == putRequest:
		return codec.MethodPut
	case k.reads():
		return codec.MethodGet
	}
	return codec.MethodConfirm
}

// dueCount returns the number that the reply to a put or a confirm holds.
func (p thriftCalls) dueCount(r *request) int32 {
	switch r.kind {
	case putRequest:
		return int32(p.burst)
	case confirmAllRequest:
		return int32(r.count)
	}
	return 1
}

func (p thriftCalls) appendReply(dst []byte, r *request) ([]byte, bool) {
	call := codec.Call{Method: r.kind.method(), Seq: r.seq, Upgraded: p.client.Upgraded}
	if !r.kind.reads() {
		return codec.AppendCount(dst, call, p.dueCount(r)), true
	}
	start := len(dst)
	dst = codec.BeginItems(dst, call)
	for _, item := range r.items {
		dst = codec.AppendItem(dst, &codec.Item{Data: item})
	}
	return codec.EndItems(dst, start, len(r.items)), r.kind == getRequest
}

func (p thriftCalls) parseReply(src []byte, r *request) (reply, int) {
	var got codec.Reply
	n, err := p.client.DecodeReply(src, &got)
	switch {
	case errors.Is(err, codec.ErrIncomplete) && len(src) < 4:
		return reply{}, 0
	case errors.Is(err, codec.ErrIncomplete) && got.Need <= maxFrame:
		return reply{}, 0
	case err != nil:
		return reply{outcome: refused}, len(src)
	}
	switch {
	case got.Failed || got.Method != r.kind.method() || got.Seq != r.seq:
		return reply{outcome: refused}, n
	case !r.kind.reads():
		if got.Count != p.dueCount(r) {
			return reply{outcome: refused}, n
		}
		return reply{outcome: accepted}, n
	case got.Items.Len() == 0:
		return reply{outcome: miss}, n
	}
	return reply{outcome: hit, list: got.Items}, n
}

// maxFrame bounds a reply's frame: two of the largest items.
const maxFrame = 2*MaxItemSize + 1024
