package loadtest

import (
	"testing"
	"time"
)

func TestAppendRequest(t *testing.T) {
	const wait = 1500 * time.Millisecond
	for _, tt := range []struct {
		name     string
		protocol protocol
		kind     requestKind
		want     string
	}{
		{"memcache/put", memcache{}, putRequest, "set q 0 0 5\r\nhello\r\n"},
		{"memcache/get", memcache{}, getRequest, "get q\r\n"},
		{"memcache/open", memcache{}, openRequest, "get q/open\r\n"},
		{"memcache/confirm", memcache{}, confirmRequest, "get q/close\r\n"},
		{"memcache/get wait", memcache{wait}, getRequest, "get q/t=1500\r\n"},
		{"memcache/open wait", memcache{wait}, openRequest, "get q/t=1500/open\r\n"},
		{"memcache/confirm wait", memcache{wait}, confirmRequest, "get q/close\r\n"},
		{"redis/put", redisList{}, putRequest,
			"*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$5\r\nhello\r\n"},
		{"redis/get", redisList{}, getRequest, "*2\r\n$4\r\nRPOP\r\n$1\r\nq\r\n"},
		{"redis/open", redisList{}, openRequest,
			"*5\r\n$5\r\nLMOVE\r\n$1\r\nq\r\n$6\r\nq:open\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n"},
		{"redis/confirm", redisList{}, confirmRequest,
			"*4\r\n$4\r\nLREM\r\n$6\r\nq:open\r\n$1\r\n1\r\n$5\r\nhello\r\n"},
		{"redis/get wait", redisList{wait: wait}, getRequest,
			"*3\r\n$5\r\nBRPOP\r\n$1\r\nq\r\n$3\r\n1.5\r\n"},
		{"redis/open wait", redisList{wait: wait}, openRequest,
			"*6\r\n$6\r\nBLMOVE\r\n$1\r\nq\r\n$6\r\nq:open\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n$3\r\n1.5\r\n"},
		{"meta/put", memcacheMeta{}, putRequest, "ms q 5\r\nhello\r\n"},
		{"meta/get", memcacheMeta{}, getRequest, "mg q v\r\n"},
		{"redis string/put", redisString{}, putRequest,
			"*3\r\n$3\r\nSET\r\n$1\r\nq\r\n$5\r\nhello\r\n"},
		{"redis string/get", redisString{}, getRequest, "*2\r\n$3\r\nGET\r\n$1\r\nq\r\n"},
	} {
		r := request{kind: tt.kind, queue: []byte("q"), items: [][]byte{[]byte("hello")}, count: 3,
			held: &held{}}
		if got := string(tt.protocol.appendRequest(nil, &r)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The reply that a codec expects is one that it parses, as a success, to the last byte.
func TestAppendReplyParses(t *testing.T) {
	for _, p := range allProtocols {
		for kind := putRequest; kind <= confirmRequest; kind++ {
			if (p == redisString{} || p == memcacheMeta{}) && kind > getRequest ||
				(p == jetStream{} || p == nsq{}) && kind == confirmRequest {
				continue
			}
			r := &request{kind: kind, queue: []byte("q"), items: [][]byte{[]byte("hello")}, count: 1}
			due, _ := p.appendReply(nil, r)
			got, n := p.parseReply(due, r)
			if it, ok := got.list.Next(); ok {
				got.value = it.Data
			}
			taken := kind == getRequest || kind == openRequest
			if n != len(due) || taken != (got.outcome == hit) || taken != (string(got.value) == "hello") ||
				got.outcome == miss || got.outcome == refused {
				t.Errorf("%T, kind %d: parseReply(%q) = %v, %d", p, kind, due, got, n)
			}
		}
	}
}
