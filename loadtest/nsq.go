package loadtest

import (
	"encoding/binary"
	"fmt"
)

// nsq is the protocol of nsqd, with a topic per queue and one channel. Nsqd pushes: a connection
// says once how many messages may be on the way, and each one that it finishes makes room for
// another. So a request finishes what is open, and its reply is what has arrived, at least one.
type nsq struct{}

// nsqChannel is the channel that items are got from.
const nsqChannel = "load"

// Types of frames. A frame is its length without the length itself, 4 bytes, its type, 4 bytes, and
// data; all integers are big-endian.
const (
	nsqResponse = 0
	nsqMessage  = 2

	nsqFrameHead   = 8          // bytes
	nsqMessageHead = 8 + 2 + 16 // bytes: time, attempts, id
	nsqIDSize      = 16         // bytes
)

// named reports true: a message is finished by its id.
func (nsq) named() bool { return true }

// endless marks requests that are answered only when there is an item.
func (nsq) endless() {}

func (nsq) appendGreeting(dst []byte, queue string, _ int, g *Group) []byte {
	const identity = `{"heartbeat_interval":60000,"output_buffer_timeout":25}`
	dst = append(dst, "  V2IDENTIFY\n"...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(identity)))
	dst = append(dst, identity...)
	if g.Operation.Gets() {
		dst = fmt.Appendf(dst, "SUB %s %s\nRDY %d\n", queue, nsqChannel, g.Burst)
	}
	return dst
}

func (nsq) greeted(src []byte, g *Group) (n int, err error) {
	want := 1
	if g.Operation.Gets() {
		want = 2
	}
	for ; want > 0; want-- {
		kind, data, size := nsqFrame(src[n:])
		if size == 0 {
			return 0, nil
		}
		if kind != nsqResponse || string(data) != "OK" {
			return 0, fmt.Errorf("greeting answered with %q", data)
		}
		n += size
	}
	return n, nil
}

// nsqFrame returns the first frame of src and its size. That is 0 if the frame is not whole, and -1
// if it is too long.
func nsqFrame(src []byte) (kind uint32, data []byte, n int) {
	if len(src) < nsqFrameHead {
		return 0, nil, 0
	}
	size := binary.BigEndian.Uint32(src)
	if size < 4 || size > MaxItemSize+nsqMessageHead+4 {
		return 0, nil, -1
	}
	n = 4 + int(size)
	if len(src) < n {
		return 0, nil, 0
	}
	return binary.BigEndian.Uint32(src[4:]), src[nsqFrameHead:n], n
}

func (nsq) appendRequest(dst []byte, r *request) []byte {
	if r.kind == putRequest {
		dst = append(append(append(dst, "PUB "...), r.queue...), '\n')
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.value())))
		return append(dst, r.value()...)
	}
	if r.held.len() == 0 {
		return append(dst, "NOP\n"...)
	}
	for i := range r.held.len() {
		dst = append(append(append(dst, "FIN "...), r.held.at(i)...), '\n')
	}
	return dst
}

func (nsq) appendReply(dst []byte, r *request) ([]byte, bool) {
	if r.kind == putRequest {
		return append(dst, "\x00\x00\x00\x06\x00\x00\x00\x00OK"...), true
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+nsqMessageHead+len(r.value())))
	dst = binary.BigEndian.AppendUint32(dst, nsqMessage)
	dst = append(dst, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x010123456789abcdef"...)
	return append(dst, r.value()...), false
}

func (nsq) parseReply(src []byte, r *request) (reply, int) {
	kind, data, n := nsqFrame(src)
	switch {
	case n == 0:
		return reply{}, 0
	case n < 0:
		return reply{outcome: refused}, len(src)
	case r.kind == putRequest:
		if kind == nsqResponse && string(data) == "OK" {
			return reply{outcome: accepted}, n
		}
	case kind == nsqResponse && string(data) == "_heartbeat_":
		return reply{outcome: noise}, n // nsqd closes only after two without an answer, of a minute each
	case kind == nsqMessage && len(data) >= nsqMessageHead:
		return reply{
			outcome: hit,
			value:   data[nsqMessageHead:],
			id:      data[nsqMessageHead-nsqIDSize : nsqMessageHead],
			more:    len(src) > n,
		}, n
	}
	return reply{outcome: refused}, n
}
