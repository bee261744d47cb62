package loadtest

import (
	"bytes"
	"errors"
	"time"

	codec "github.com/kestrelmq/kestrel/codec/memcache"
)

// memcache is Kestrel's memcache protocol.
type memcache struct {
	wait time.Duration
}

// named reports false: /close confirms the oldest read, CONFIRM a number of them.
func (memcache) named() bool { return false }

func (p memcache) appendRequest(dst []byte, r *request) []byte {
	switch r.kind {
	case putRequest:
		for _, item := range r.items {
			dst = codec.AppendSet(dst, r.queue, 0, 0, item)
		}
		return dst
	case fetchRequest:
		seconds := max(int32((p.wait+time.Second-1)/time.Second), 1)
		return codec.AppendMonitor(dst, r.queue, seconds, int32(r.count))
	case confirmAllRequest:
		return codec.AppendConfirm(dst, r.queue, int32(r.held.len()))
	case confirmRequest:
		return codec.AppendGet(dst, r.queue, codec.GetOptions{Close: true})
	}
	return codec.AppendGet(dst, r.queue, codec.GetOptions{
		Open:       r.kind != getRequest,
		Close:      r.kind == closeOpenRequest,
		WaitMillis: millis(p.wait),
	})
}

func (memcache) appendReply(dst []byte, r *request) ([]byte, bool) {
	switch {
	case r.kind == putRequest:
		return append(dst, codec.ReplyStored...), true
	case !r.kind.reads():
		return append(dst, codec.ReplyEnd...), true
	}
	dst = codec.AppendValueHeader(dst, r.queue, 0, len(r.value()))
	dst = append(dst, r.value()...)
	dst = append(dst, codec.ValueTrailer...)
	if r.kind == fetchRequest {
		return append(dst, codec.ReplyEnd...), false
	}
	return dst, true
}

func (memcache) parseReply(src []byte, r *request) (reply, int) {
	var got codec.Reply
	n, err := codec.DecodeReply(src, &got)
	switch {
	case errors.Is(err, codec.ErrIncomplete):
		return reply{}, 0
	case err != nil:
		return reply{outcome: refused}, len(src)
	}
	switch got.Kind {
	case codec.KindStored:
		if r.kind == putRequest {
			return reply{outcome: accepted}, n
		}
	case codec.KindEnd:
		switch {
		case r.kind == putRequest:
		case !r.kind.reads() || r.got > 0:
			return reply{outcome: accepted}, n
		default:
			return reply{outcome: miss}, n
		}
	case codec.KindValue:
		if r.kind.reads() && got.Flags == 0 && bytes.Equal(got.Queue, r.queue) {
			return reply{outcome: hit, value: got.Data, more: r.kind == fetchRequest}, n
		}
	}
	return reply{outcome: refused}, n
}
