package memcache_test

import (
	"fmt"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// A server decodes until its buffer holds no whole request, and answers in order.
func ExampleDecoder_Decode() {
	unread := []byte("set work 0 0 5\r\nhello\r\nget work/open\r\nget\r\nget wo")
	var (
		decoder memcache.Decoder
		req     memcache.Request
		out     []byte
		item    []byte
	)
	for {
		n, err := decoder.Decode(unread, &req)
		if err == memcache.ErrIncomplete {
			break // keep unread until more bytes arrive
		}
		if refused, ok := err.(*memcache.ProtocolError); ok {
			out = append(out, refused.Reply...)
			if refused.Fatal {
				break
			}
		} else {
			switch req.Op {
			case memcache.OpSet:
				item = append(item, req.Data...)
				out = append(out, memcache.ReplyStored...)
			case memcache.OpGet:
				out = memcache.AppendValue(out, req.Queue, 0, item)
			}
		}
		unread = unread[n:]
	}
	fmt.Printf("%q\n%q\n", out, unread)
	// Output:
	// "STORED\r\nVALUE work 0 5\r\nhello\r\nEND\r\nCLIENT_ERROR\r\n"
	// "get wo"
}
