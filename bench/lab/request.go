package main

import "fmt"

// opKind is what a request asks for, whatever the protocol.
type opKind uint8

const (
	opPut     opKind = iota + 1 // append items
	opGet                       // take up to count items, for good
	opOpen                      // take one item tentatively, after confirming the oldest confirm
	opConfirm                   // confirm the count oldest open reads
	opAbort                     // give the oldest open read back
	opPeek                      // look at the head
	opFlush                     // discard what is not open
	opDelete                    // discard the queue
)

func (k opKind) String() string {
	return [...]string{"", "put", "get", "open", "confirm", "abort", "peek", "flush", "delete"}[k]
}

// request is one request of a lane.
type request struct {
	op      opKind
	queue   string
	items   []int // numbers of the items to put
	count   int   // of opGet and opConfirm
	confirm int   // of opOpen: how many open reads to confirm first
	ids     []int64
	ttl     int32 // of opPut, in milliseconds; 0: for ever
	wait    int32 // of opGet by memcache: the longest wait in milliseconds
}

func (r request) String() string {
	return fmt.Sprintf("%v %s items %v count %d confirm %d", r.op, r.queue, r.items, r.count,
		r.confirm)
}

// answer is what came back.
type answer struct {
	count   int       // items stored, or reads confirmed or aborted
	items   []fetched // what was fetched
	refusal string    // why nothing was done; "" if it was
}

// fetched is an item as it came back; data aliases the connection's buffer.
type fetched struct {
	data []byte
	id   int64 // names the open read, where the protocol has such names
}

// speaker is a protocol, as a client sees it. It has no state, and may be used by any goroutine.
type speaker interface {
	// can reports whether the protocol has such a request.
	can(op opKind) bool
	// encode appends a request; body returns the bytes of an item.
	encode(dst []byte, r request, body func(item int) []byte) []byte
	// decode takes the reply to r from the start of src, and returns how many bytes it took: 0 if
	// it is not complete.
	decode(src []byte, r request) (answer, int, error)
}

// speakers returns the protocols by their names.
func speakers() map[string]speaker {
	return map[string]speaker{
		"memcache": memcacheSpeaker{}, "thrift": thriftSpeaker{}, "text": textSpeaker{},
	}
}
