package main

import (
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// autoAbortMillis is longer than any trial keeps a read open.
const autoAbortMillis = 10 * 60 * 1000

// thriftSpeaker speaks the Thrift protocol, in which reads are confirmed and aborted by their ids.
type thriftSpeaker struct{}

// can leaves reliable reads out. They are leases, which outlive a restart and come back in their places; the lanes
// know open reads alone, which end with their connection. A messageLane has them, and so has the simulation.
func (thriftSpeaker) can(op opKind) bool { return op != opPeek && op != opOpen }

func (thriftSpeaker) encode(dst []byte, r request, body func(int) []byte) []byte {
	var c thrift.Client
	queue := []byte(r.queue)
	switch r.op {
	case opPut:
		items := make([][]byte, len(r.items))
		for i, item := range r.items {
			items[i] = body(item)
		}
		return c.AppendPut(dst, 1, queue, r.ttl, items...)
	case opGet:
		return c.AppendGet(dst, 1, queue, thrift.GetOptions{MaxItems: int32(r.count)})
	case opOpen:
		return c.AppendGet(dst, 1, queue,
			thrift.GetOptions{MaxItems: 1, AutoAbortMillis: autoAbortMillis})
	case opConfirm:
		return c.AppendConfirm(dst, 1, queue, r.ids...)
	case opAbort:
		return c.AppendAbort(dst, 1, queue, r.ids...)
	case opFlush:
		return c.AppendCall(dst, thrift.MethodFlushQueue, 1, queue)
	}
	return c.AppendCall(dst, thrift.MethodDeleteQueue, 1, queue)
}

func (thriftSpeaker) decode(src []byte, r request) (a answer, n int, err error) {
	var reply thrift.Reply
	n, err = thrift.Client{}.DecodeReply(src, &reply)
	if errors.Is(err, thrift.ErrIncomplete) {
		return a, 0, nil
	}
	if err != nil {
		return a, 0, fmt.Errorf("reply to %v: %w", r, err)
	}
	if reply.Failed {
		a.refusal = "exception: " + string(reply.Message)
		return a, n, nil
	}
	a.count = int(reply.Count)
	for it := range reply.Items.All() {
		a.items = append(a.items, fetched{data: it.Data, id: it.ID})
	}
	return a, n, nil
}
