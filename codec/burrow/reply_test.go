package burrow

import (
	"encoding/json"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// replyTests are golden bytes.
var replyTests = []struct {
	name   string
	encode func(dst []byte) []byte
	want   string
}{
	{"created", func(dst []byte) []byte { return AppendReply(dst, Reply{Status: 201}) },
		"HTTP/1.1 201 Created\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 0\r\n\r\n"},
	{"no content", func(dst []byte) []byte { return AppendReply(dst, Reply{Status: 204, Close: true}) },
		"HTTP/1.1 204 No Content\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
	{"list", func(dst []byte) []byte {
		return AppendReply(dst, Reply{Status: 200, Type: JSON, Length: 2, KeepAlive: true})
	},
		"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n"},
	{"all headers", func(dst []byte) []byte {
		return AppendReply(dst, Reply{Status: 200, Type: Octets, Chunked: true, Origin: "http://o", Fields: "A: b\r\n",
			Date: []byte("Sun, 06 Nov 1994 08:49:37 GMT")})
	}, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream; charset=UTF-8\r\nTransfer-Encoding: chunked\r\n" +
		"Access-Control-Allow-Origin: http://o\r\nVary: Origin\r\n" +
		"Access-Control-Expose-Headers: Retry-After, WWW-Authenticate\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nA: b\r\n\r\n"},
	{"chunks", func(dst []byte) []byte {
		dst = AppendChunk(dst, []byte("0123456789abcdef"))
		return append(AppendChunk(dst, nil), LastChunk...)
	}, "10\r\n0123456789abcdef\r\n0\r\n\r\n"},
	{"refused", func(dst []byte) []byte { return errNUL.AppendReply(dst, &Request{}, Reply{}) },
		"HTTP/1.1 400 Bad Request\r\nContent-Type: application/octet-stream; charset=UTF-8\r\nContent-Length: 46\r\n\r\n" +
			"The path or a parameter holds a NUL character."},
	{"no such detail", func(dst []byte) []byte { return errDetail.AppendReply(dst, &Request{Word: []byte("x")}, Reply{}) },
		"HTTP/1.1 400 Bad Request\r\nContent-Type: application/octet-stream; charset=UTF-8\r\nContent-Length: 1\r\n\r\nx"},
	{"no such method", func(dst []byte) []byte { return errMethod.AppendReply(dst, &Request{allow: "GET"}, Reply{}) },
		"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 0\r\nAllow: GET\r\n\r\n"},
	{"id", func(dst []byte) []byte { return AppendMessage(dst, message, DetailID) }, `"a\"b"`},
	{"attributes", func(dst []byte) []byte { return AppendMessage(dst, message, DetailAttributes) },
		`{"hide":3,"id":"a\"b","ttl":60}`},
	{"body", func(dst []byte) []byte { return AppendMessage(dst, message, DetailBody) }, `"h\u00e9llo \u2603\ud83d\ude00\n"`},
	{"all", func(dst []byte) []byte { return AppendMessage(dst, message, DetailAll) },
		`{"body":"h\u00e9llo \u2603\ud83d\ude00\n","hide":3,"id":"a\"b","ttl":60}`},
	{"binary body", func(dst []byte) []byte { return AppendMessage(dst, binary, DetailBody) },
		`{"body":"//4AAQ==","encoding":"base64"}`},
	{"binary", func(dst []byte) []byte { return AppendMessage(dst, binary, DetailAll) },
		`{"body":"//4AAQ==","encoding":"base64","hide":0,"id":"m","ttl":0}`},
	{"name", func(dst []byte) []byte { return AppendName(dst, []byte("acme"), DetailID) }, `"acme"`},
	{"name as an object", func(dst []byte) []byte { return AppendName(dst, []byte("acme"), DetailAll) }, `{"id":"acme"}`},
	{"control characters", func(dst []byte) []byte { return AppendString(dst, []byte("\x00\t\r\\\x7f")) },
		`"\u0000\t\r\\\u007f"`},
}

var (
	message = Message{ID: []byte(`a"b`), TTL: 60, Hide: 3, Body: []byte("héllo ☃😀\n")}
	binary  = Message{ID: []byte("m"), Body: []byte{0xff, 0xfe, 0, 1}}
)

func TestReply(t *testing.T) {
	for _, tt := range replyTests {
		if got := string(tt.encode(nil)); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// TestAppendString checks that encoding/json reads back what was written.
func TestAppendString(t *testing.T) {
	check := func(s string) bool {
		if !utf8.ValidString(s) {
			return true
		}
		var got string
		err := json.Unmarshal(AppendString(nil, []byte(s)), &got)
		return err == nil && got == s
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

// TestStatusTexts checks that each refusal has a reason phrase of its own.
func TestStatusTexts(t *testing.T) {
	for _, status := range []int{200, 201, 204, 400, 401, 403, 404, 405, 409, 413, 417, 429, 431, 501, 503, 505, 507} {
		if statusText(status) == "Status" {
			t.Errorf("status %d has no text", status)
		}
	}
}

func TestAllocs(t *testing.T) {
	const runs = 100
	check := func(name string, f func()) {
		if got := testing.AllocsPerRun(runs, f); got != 0 {
			t.Errorf("%s allocates %v times, want 0", name, got)
		}
	}
	for _, tt := range headTests {
		src := []byte(tt.in)
		var h Head
		check(tt.name, func() { tt.d.DecodeHead(src, &h) })
		check(tt.name+", cut", func() { tt.d.DecodeHead(src[:len(src)-1], &h) })
	}
	for _, tt := range parseTests {
		target := make([]byte, 0, 1024)
		var req Request
		check(tt.target, func() {
			h := Head{Method: LookupMethod([]byte(tt.method)), Target: append(target[:0], tt.target...)}
			h.Parse(&req)
		})
	}
	for _, tt := range bodyTests {
		src := []byte(tt.in)
		check(tt.name, func() {
			b := bodyDecoder.Body(&tt.head)
			for at := src; ; {
				_, n, err := b.Decode(at)
				if err != nil {
					return
				}
				at = at[n:]
			}
		})
	}
	dst := make([]byte, 0, 1024)
	for _, tt := range replyTests {
		check(tt.name, func() { tt.encode(dst) })
	}
}

func BenchmarkDecode(b *testing.B) {
	src := []byte("PUT /v1.0/acme/resize/job-001?ttl=60 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/7.88.1\r\n" +
		"Accept: */*\r\nContent-Length: 64\r\n\r\n")
	b.ReportAllocs()
	var h Head
	var req Request
	for b.Loop() {
		if _, err := (Decoder{}).DecodeHead(src, &h); err != nil {
			b.Fatal(err)
		}
		if err := h.Parse(&req); err != nil {
			b.Fatal(err)
		}
	}
}
