package loadtest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// parseTests holds replies and what they mean; they also seed FuzzParseReply. want is the outcome,
// its value and the bytes consumed, as describe prints them.
var parseTests = []struct {
	name     string
	protocol protocol
	kind     requestKind
	in       string
	want     string
}{
	{"memcache/put", memcache{}, putRequest, "STORED\r\n", "accepted 8"},
	{"memcache/put refused", memcache{}, putRequest, "NOT_STORED\r\n", "refused 12"},
	{"memcache/put answered as get", memcache{}, putRequest, "END\r\n", "refused 5"},
	{"memcache/get", memcache{}, getRequest, "VALUE q 0 5\r\nhello\r\nEND\r\n", `hit "hello" 25`},
	{"memcache/get zero bytes", memcache{}, getRequest, "VALUE q 0 0\r\n\r\nEND\r\n", `hit "" 20`},
	{"memcache/get newlines", memcache{}, getRequest, "VALUE q 0 4\r\n\r\n\r\n\r\nEND\r\n",
		`hit "\r\n\r\n" 24`},
	{"memcache/get miss", memcache{}, getRequest, "END\r\n", "miss 5"},
	{"memcache/get of another key", memcache{}, getRequest, "VALUE p 0 5\r\nhello\r\nEND\r\n",
		"refused 25"},
	{"memcache/get with flags", memcache{}, getRequest, "VALUE q 1 5\r\nhello\r\nEND\r\n",
		"refused 25"},
	{"memcache/get negative size", memcache{}, getRequest, "VALUE q 0 -5\r\n", "refused 14"},
	{"memcache/get huge size", memcache{}, getRequest, "VALUE q 0 9999999999\r\n", "refused 22"},
	{"memcache/get no end", memcache{}, getRequest, "VALUE q 0 1\r\nx\r\nEnd\r\n", "refused 21"},
	{"memcache/get error", memcache{}, getRequest, "SERVER_ERROR\r\n", "refused 14"},
	{"memcache/open", memcache{}, openRequest, "VALUE q 0 1\r\nx\r\nEND\r\n", `hit "x" 21`},
	{"memcache/open miss", memcache{}, openRequest, "END\r\n", "miss 5"},
	{"memcache/confirm", memcache{}, confirmRequest, "END\r\n", "accepted 5"},
	{"memcache/confirm error", memcache{}, confirmRequest, "ERROR\r\n", "refused 7"},
	{"memcache/empty line", memcache{}, getRequest, "\r\n", "refused 2"},
	{"memcache/bare newline", memcache{}, putRequest, "STORED\n", "accepted 7"},

	{"redis/put", redisList{}, putRequest, ":1024\r\n", "accepted 7"},
	{"redis/put zero", redisList{}, putRequest, ":0\r\n", "refused 4"},
	{"redis/put error", redisList{}, putRequest, "-WRONGTYPE\r\n", "refused 12"},
	{"redis/get", redisList{}, getRequest, "$5\r\nhello\r\n", `hit "hello" 11`},
	{"redis/get zero bytes", redisList{}, getRequest, "$0\r\n\r\n", `hit "" 6`},
	{"redis/get miss", redisList{}, getRequest, "$-1\r\n", "miss 5"},
	{"redis/get bad size", redisList{}, getRequest, "$x\r\n", "refused 4"},
	{"redis/get no end", redisList{}, getRequest, "$1\r\nxyz", "refused 7"},
	{"redis/get integer", redisList{}, getRequest, ":1\r\n", "refused 4"},
	{"redis/open", redisList{}, openRequest, "$5\r\nhello\r\n", `hit "hello" 11`},
	{"redis/confirm", redisList{}, confirmRequest, ":1\r\n", "accepted 4"},
	{"redis/confirm nothing", redisList{}, confirmRequest, ":0\r\n", "refused 4"},
	{"redis/empty line", redisList{}, putRequest, "\r\n", "refused 2"},

	{"redis wait/get", redisList{wait: time.Second}, getRequest, "*2\r\n$1\r\nq\r\n$2\r\nhi\r\n",
		`hit "hi" 19`},
	{"redis wait/get miss", redisList{wait: time.Second}, getRequest, "*-1\r\n", "miss 5"},
	{"redis wait/other list", redisList{wait: time.Second}, getRequest, "*2\r\n$1\r\np\r\n",
		"refused 11"},
	{"redis wait/no item", redisList{wait: time.Second}, getRequest, "*2\r\n$1\r\nq\r\n$-1\r\n",
		"refused 16"},
	{"redis wait/three", redisList{wait: time.Second}, getRequest, "*3\r\n", "refused 4"},
	{"redis wait/open", redisList{wait: time.Second}, openRequest, "$2\r\nhi\r\n", `hit "hi" 8`},

	{"meta/put", memcacheMeta{}, putRequest, "HD\r\n", "accepted 4"},
	{"meta/put refused", memcacheMeta{}, putRequest, "NS\r\n", "refused 4"},
	{"meta/get", memcacheMeta{}, getRequest, "VA 2\r\nhi\r\n", `hit "hi" 10`},
	{"meta/get miss", memcacheMeta{}, getRequest, "EN\r\n", "miss 4"},
	{"meta/get no value", memcacheMeta{}, getRequest, "HD\r\n", "refused 4"},
	{"meta/get flags", memcacheMeta{}, getRequest, "VA 2 s2\r\n", "refused 9"},
	{"meta/get no end", memcacheMeta{}, getRequest, "VA 2\r\nhihi", "refused 10"},

	{"beanstalk/put", beanstalk{}, putRequest, "INSERTED 17\r\n", "accepted 13"},
	{"beanstalk/put buried", beanstalk{}, putRequest, "BURIED 17\r\n", "refused 11"},
	{"beanstalk/put no id", beanstalk{}, putRequest, "INSERTED x\r\n", "refused 12"},
	{"beanstalk/open", beanstalk{}, openRequest, "RESERVED 17 2\r\nhi\r\n", `hit "hi" id "17" 19`},
	{"beanstalk/open miss", beanstalk{}, openRequest, "TIMED_OUT\r\n", "miss 11"},
	{"beanstalk/open no end", beanstalk{}, openRequest, "RESERVED 17 2\r\nhihi", "refused 19"},
	{"beanstalk/open no size", beanstalk{}, openRequest, "RESERVED 17\r\n", "refused 13"},
	{"beanstalk/confirm", beanstalk{}, confirmRequest, "DELETED\r\n", "accepted 9"},
	{"beanstalk/confirm nothing", beanstalk{}, confirmRequest, "NOT_FOUND\r\n", "refused 11"},

	{"jetstream/put", jetStream{}, putRequest,
		"MSG _INBOX.load.0 1 23\r\n{\"stream\":\"q\", \"seq\":1}\r\n", "accepted 49"},
	{"jetstream/put error", jetStream{}, putRequest,
		"MSG _INBOX.load.0 1 12\r\n{\"error\":{}}\r\n", "refused 38"},
	{"jetstream/put nobody there", jetStream{}, putRequest,
		"HMSG _INBOX.load.0 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", "refused 28"},
	{"jetstream/get", jetStream{}, closeOpenRequest, "MSG q 1 $JS.ACK.q.1 2\r\nhi\r\n",
		`hit "hi" id "$JS.ACK.q.1" 27`},
	{"jetstream/get of another", jetStream{}, closeOpenRequest, "MSG p 1 $JS.ACK.q.1 2\r\nhi\r\n",
		"refused 27"},
	{"jetstream/get miss", jetStream{}, closeOpenRequest,
		"HMSG _INBOX.load.0 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n", "miss 58"},
	{"jetstream/ok", jetStream{}, putRequest, "+OK\r\n", "noise 5"},
	{"jetstream/ping", jetStream{}, closeOpenRequest, "PING\r\n", "noise 6"},
	{"jetstream/error", jetStream{}, putRequest, "-ERR 'no'\r\n", "refused 11"},

	{"nsq/put", nsq{}, putRequest, "\x00\x00\x00\x06\x00\x00\x00\x00OK", "accepted 10"},
	{"nsq/put error", nsq{}, putRequest, "\x00\x00\x00\x06\x00\x00\x00\x01E_", "refused 10"},
	{"nsq/frame too short", nsq{}, putRequest, "\x00\x00\x00\x03\x00\x00\x00\x00", "refused 8"},
	{"nsq/frame too long", nsq{}, putRequest, "\x7f\x00\x00\x03\x00\x00\x00\x00", "refused 8"},

	{"thrift/put", thriftCalls{burst: 2}, putRequest, thriftReply("put", 0,
		"\x08\x00\x00\x00\x00\x00\x02"),
		"accepted 27"},
	{"thrift/put of fewer", thriftCalls{burst: 2}, putRequest,
		thriftReply("put", 0, "\x08\x00\x00\x00\x00\x00\x01"), "refused 27"},
	{"thrift/put answered to another call", thriftCalls{burst: 2}, putRequest,
		thriftReply("put", 1, "\x08\x00\x00\x00\x00\x00\x02"), "refused 27"},
	{"thrift/get miss", thriftCalls{}, getRequest, thriftReply("get", 0,
		"\x0f\x00\x00\x0c\x00\x00\x00\x00"),
		"miss 28"},
	{"thrift/frame too long", thriftCalls{}, getRequest, "\x7f\x00\x00\x00", "refused 4"},

	{"redis string/put", redisString{}, putRequest, "+OK\r\n", "accepted 5"},
	{"redis string/put error", redisString{}, putRequest, "-ERR\r\n", "refused 6"},
	{"redis string/get", redisString{}, getRequest, "$2\r\nhi\r\n", `hit "hi" 8`},
	{"redis string/get miss", redisString{}, getRequest, "$-1\r\n", "miss 5"},
}

// allProtocols has every codec, those that differ when they wait twice.
var allProtocols = []protocol{
	memcache{}, memcacheMeta{}, redisList{}, redisList{wait: time.Second}, redisString{},
	beanstalk{}, jetStream{}, nsq{}, thriftCalls{burst: 1},
}

// thriftReply returns a reply with a result struct of one field.
func thriftReply(method string, seq byte, field string) string {
	message := "\x80\x01\x00\x02\x00\x00\x00" + string(rune(len(method))) + method + "\x00\x00\x00" +
		string(rune(seq)) + field + "\x00"
	return "\x00\x00\x00" + string(rune(len(message))) + message
}

// describe parses one reply and prints what came of it.
func describe(p protocol, kind requestKind, src string) string {
	got, n := p.parseReply([]byte(src), &request{kind: kind, queue: []byte("q"), count: 1})
	switch {
	case n == 0:
		return "incomplete"
	case got.outcome == hit && got.id != nil && string(got.id) != string(got.value):
		return fmt.Sprintf("hit %q id %q %d", got.value, got.id, n)
	case got.outcome == hit:
		return fmt.Sprintf("hit %q %d", got.value, n)
	}
	return fmt.Sprintf("%s %d", [...]string{"accepted", "hit", "miss", "refused",
		"noise"}[got.outcome], n)
}

func TestParseReply(t *testing.T) {
	for _, tt := range parseTests {
		t.Run(tt.name, func(t *testing.T) {
			if got := describe(tt.protocol, tt.kind, tt.in); got != tt.want {
				t.Errorf("parseReply(%q) = %s, want %s", tt.in, got, tt.want)
			}
			if strings.HasPrefix(tt.want, "refused") {
				return // a wrong reply may be seen to be wrong early
			}
			for i := range len(tt.in) {
				if got := describe(tt.protocol, tt.kind, tt.in[:i]); got != "incomplete" {
					t.Errorf("parseReply(%q) = %s, want incomplete", tt.in[:i], got)
				}
			}
			if got := describe(tt.protocol, tt.kind, tt.in+"more"); got != tt.want {
				t.Errorf("parseReply(%q) = %s, want %s", tt.in+"more", got, tt.want)
			}
		})
	}
}

// A line without an end is refused once it is too long, so that it cannot grow for ever.
func TestParseReplyBoundsLines(t *testing.T) {
	long := strings.Repeat("x", maxReplyLine)
	for _, p := range []protocol{memcacheMeta{}, redisList{}, redisString{}, beanstalk{},
		jetStream{}} {
		for kind := putRequest; kind <= confirmRequest; kind++ {
			if got := describe(p, kind, long[1:]); got != "incomplete" {
				t.Errorf("%T, kind %d: %d bytes = %s, want incomplete", p, kind, len(long)-1, got)
			}
			if got, want := describe(p, kind, long), "refused 1024"; got != want {
				t.Errorf("%T, kind %d: %d bytes = %s, want %s", p, kind, len(long), got, want)
			}
		}
	}
}

// FuzzParseReply checks that parsing consumes no more than there is, and that every value lies inside. A whole reply
// means the same whatever follows it.
func FuzzParseReply(f *testing.F) {
	for _, tt := range parseTests {
		f.Add([]byte(tt.in), uint8(tt.kind))
	}
	f.Fuzz(func(t *testing.T, src []byte, kind uint8) {
		r := &request{kind: requestKind(kind % uint8(numKinds)), queue: []byte("q"), count: 2}
		for _, p := range allProtocols {
			got, n := p.parseReply(src, r)
			if n < 0 || n > len(src) || len(got.value) > n {
				t.Fatalf("%T.parseReply(%q) = %d-byte value, %d; have %d bytes",
					p, src, len(got.value), n, len(src))
			}
			if n == 0 || got.outcome == refused {
				continue
			}
			again, m := p.parseReply(append(src[:n:n], "more"...), r)
			if again.outcome != got.outcome || string(again.value) != string(got.value) || m != n {
				t.Fatalf("%T.parseReply(%q) = %v, %d; with more behind it %v, %d",
					p, src, got, n, again, m)
			}
		}
	})
}
