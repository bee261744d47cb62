package main

import (
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/codec/text"
)

// textSpeaker speaks the text protocol, in which every fetch is reliable.
type textSpeaker struct{}

func (textSpeaker) can(op opKind) bool { return op != opGet && op != opAbort }

func (textSpeaker) encode(dst []byte, r request, body func(int) []byte) []byte {
	queue := []byte(r.queue)
	switch r.op {
	case opPut:
		items := make([][]byte, len(r.items))
		for i, item := range r.items {
			items[i] = body(item)
		}
		if r.ttl > 0 {
			return text.AppendPutExpiring(dst, queue, r.ttl, items...)
		}
		return text.AppendPut(dst, queue, items...)
	case opOpen:
		return text.AppendGet(dst, queue, 0)
	case opConfirm:
		return text.AppendConfirm(dst, queue, int32(r.count))
	case opPeek:
		return text.AppendPeek(dst, queue, 0)
	case opFlush:
		return text.AppendCommand(dst, text.OpFlush, queue)
	}
	return text.AppendCommand(dst, text.OpDelete, queue)
}

func (textSpeaker) decode(src []byte, r request) (a answer, n int, err error) {
	var reply text.Reply
	n, err = text.DecodeReply(src, &reply)
	if errors.Is(err, text.ErrIncomplete) {
		return a, 0, nil
	}
	if err != nil {
		return a, 0, fmt.Errorf("reply to %v: %w", r, err)
	}
	switch reply.Kind {
	case text.KindCount:
		a.count = int(reply.Count)
	case text.KindItem:
		a.items = []fetched{{data: reply.Data}}
	case text.KindError:
		a.refusal = string(reply.Data)
	}
	return a, n, nil
}
