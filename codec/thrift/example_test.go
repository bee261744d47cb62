package thrift_test

import (
	"fmt"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// A server decodes until its buffer holds no whole frame, and answers in order.
func ExampleDecoder_Decode() {
	var client thrift.Client
	unread := client.AppendPut(nil, 1, []byte("work"), 0, []byte("hello"), []byte("world"))
	unread = client.AppendGet(unread, 2, []byte("work"), thrift.GetOptions{MaxItems: 10})
	unread = append(unread, "\x00\x00\x00\x30..."...)

	var (
		decoder thrift.Decoder
		req     thrift.Request
		queue   []string
		out     []byte
	)
	for {
		n, err := decoder.Decode(unread, &req)
		if err == thrift.ErrIncomplete {
			fmt.Printf("%d bytes of %d\n", len(unread), req.Need)
			break // keep unread until more bytes arrive
		}
		unread = unread[n:]
		if refused, ok := err.(*thrift.ProtocolError); ok {
			out = refused.AppendReply(out, &req)
			if refused.Fatal {
				break
			}
			continue
		}
		switch req.Method {
		case thrift.MethodPut:
			count := req.Items.Len()
			for item := range req.Items.All() {
				queue = append(queue, string(item))
			}
			out = thrift.AppendCount(out, req.Call, int32(count))
		case thrift.MethodGet:
			start := len(out)
			out = thrift.BeginItems(out, req.Call)
			for _, item := range queue {
				out = thrift.AppendItem(out, &thrift.Item{Data: []byte(item), ID: 0, Deliveries: 1})
			}
			out = thrift.EndItems(out, start, len(queue))
		default:
			out = thrift.AppendInternalError(out, req.Call, "not in this example")
		}
	}

	for len(out) > 0 {
		var reply thrift.Reply
		n, err := client.DecodeReply(out, &reply)
		if err != nil {
			fmt.Println(err)
			return
		}
		out = out[n:]
		fmt.Println(reply.Method, reply.Seq, reply.Count)
		for item := range reply.Items.All() {
			fmt.Printf("%s\n", item.Data)
		}
	}
	// Output:
	// 7 bytes of 52
	// put 1 2
	// get 2 0
	// hello
	// world
}
