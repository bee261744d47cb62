package main

import (
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// memcacheSpeaker speaks the memcache protocol.
type memcacheSpeaker struct{}

func (memcacheSpeaker) can(opKind) bool { return true }

func (memcacheSpeaker) encode(dst []byte, r request, body func(int) []byte) []byte {
	queue := []byte(r.queue)
	switch r.op {
	case opPut:
		for _, item := range r.items { // one: a request has one reply
			dst = memcache.AppendSet(dst, queue, uint32(item), 0, body(item))
		}
		return dst
	case opGet:
		return memcache.AppendGet(dst, queue, memcache.GetOptions{WaitMillis: r.wait})
	case opOpen:
		return memcache.AppendGet(dst, queue, memcache.GetOptions{Open: true, Close: r.confirm > 0})
	case opConfirm:
		if r.count == 1 {
			return memcache.AppendGet(dst, queue, memcache.GetOptions{Close: true})
		}
		return memcache.AppendConfirm(dst, queue, int32(r.count))
	case opAbort:
		return memcache.AppendGet(dst, queue, memcache.GetOptions{Abort: true})
	case opPeek:
		return memcache.AppendGet(dst, queue, memcache.GetOptions{Peek: true})
	case opFlush:
		return memcache.AppendCommand(dst, memcache.OpFlush, queue)
	}
	return memcache.AppendCommand(dst, memcache.OpDelete, queue)
}

func (memcacheSpeaker) decode(src []byte, r request) (a answer, n int, err error) {
	var reply memcache.Reply
	n, err = memcache.DecodeReply(src, &reply)
	if errors.Is(err, memcache.ErrIncomplete) {
		return a, 0, nil
	}
	if err != nil {
		return a, 0, err
	}
	switch reply.Kind {
	case memcache.KindStored:
		a.count = 1
	case memcache.KindValue:
		a.items = []fetched{{data: reply.Data}}
	case memcache.KindEnd, memcache.KindDeleted:
		if r.op == opConfirm || r.op == opAbort {
			a.count = r.count
		}
	case memcache.KindNotStored, memcache.KindError, memcache.KindClientError,
		memcache.KindServerError:
		a.refusal = reply.Kind.String() + " " + string(reply.Text)
	default:
		return a, 0, fmt.Errorf("reply to %v is %q", r, src[:n])
	}
	return a, n, nil
}
