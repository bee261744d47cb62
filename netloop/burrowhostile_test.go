package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// burrowReply is the reply with a status and a text, which ends the connection if close is set.
func burrowReply(status, text string, close bool) string {
	kind, connection := "application/octet-stream; charset=UTF-8", ""
	if text == "" {
		kind = "text/html; charset=UTF-8"
	}
	if close {
		connection = "Connection: close\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s",
		status, kind, len(text), connection, text)
}

func refused(text string) string { return burrowReply("400 Bad Request", text, true) }
func doubted(text string) string { return burrowReply("400 Bad Request", text, false) }

const (
	foreignToHTTP = "This is not HTTP: the port speaks HTTP/1.1 without TLS."
	badLine       = "The request line is not METHOD, one space, TARGET, one space, HTTP/1.1."
	badLineEnd    = "A line of the head does not end in CR LF, or holds one of the two inside."
	badName       = "A header has no colon, or its name holds a blank or another byte that names cannot have."
	smuggle       = "GET /v1.0/default/fresh HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"
)

// hostileBurrow is what a client of Burrow's protocol should not send. Where the framing is lost, the connection
// ends.
var hostileBurrow = []hostileInput{
	{"two lengths", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + smuggle,
		refused("There are two Content-Length headers."), true},
	{"length and chunks", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggle,
		refused("Content-Length and Transfer-Encoding exclude each other."), true},
	{"chunks in other words", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggle,
		burrowReply("501 Not Implemented", "The only Transfer-Encoding is chunked, once.", true), true},
	{"bare LF", "GET / HTTP/1.1\nHost: a\n\n", refused(badLineEnd), true},
	{"bare LF behind a header", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", refused(badLineEnd), true},
	{"bare CR", "GET / HTTP/1.1\rX: y\r\nHost: 10.0.0.1\r\n\r\n", refused(badLineEnd), true},
	{"fold", "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n b\r\n\r\n", refused("A header is folded over two lines."), true},
	{"blank before the colon", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length : 5\r\n\r\nhello", refused(badName), true},
	{"no host", "GET / HTTP/1.1\r\n\r\n", refused("HTTP/1.1 requires one Host header."), true},
	{"head of 17 KiB", "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\nX: " + strings.Repeat("x", 17<<10),
		burrowReply("431 Request Header Fields Too Large", "The request line and headers are too large together.", true), true},
	{"target of 17 KiB", "GET /" + strings.Repeat("x", 17<<10),
		burrowReply("431 Request Header Fields Too Large", "The request line and headers are too large together.", true), true},
	{"body past the limit", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 99999999999\r\n\r\nhello",
		burrowReply("413 Content Too Large", "The body is too large.", true), true},
	{"chunks past the limit", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nfffffff\r\n",
		burrowReply("413 Content Too Large", "The body is too large.", true), true},
	{"chunk of no size", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n",
		refused("A chunk does not begin with its size in hexadecimal digits and end in CR LF."), true},
	{"chunk longer than said", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
		refused("A chunk does not begin with its size in hexadecimal digits and end in CR LF."), true},
	{"expectation", "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: 10.0.0.1\r\nExpect: miracles\r\nContent-Length: 5\r\n\r\nhello",
		burrowReply("417 Expectation Failed", "The only expectation is 100-continue.", true), true},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		burrowReply("505 HTTP Version Not Supported", "Only HTTP/1.1 and HTTP/1.0 are spoken here.", true), true},
	{"memcache", "set q 0 0 5\r\nhello\r\n", refused(badLine), true},
	{"text", "put q:\nx\n\n", refused(badLineEnd), true},
	{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", refused(foreignToHTTP), true},
	{"NULs", strings.Repeat("\x00", 64), refused(foreignToHTTP), true},
	{"Redis", "*1\r\n$4\r\nPING\r\n", refused(badLine), true},
	{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", refused(badLine), true},
	{"authority", "CONNECT a:80 HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", refused("The request target is not a path that begins with a slash."), true},

	{"web page", "POST /v1.0/a/q?hide=60 HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://evil.example\r\nContent-Length: 5\r\n\r\nhello",
		burrowReply("403 Forbidden", "Requests of web pages are not served: there is an Origin header.", false), false},
	{"name that leads here", "GET /v1.0/a/q HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n",
		burrowReply("403 Forbidden", "The Host header is neither an IP address nor localhost.", false), false},
	{"number that is none", "GET /v1.0/a/q?limit=ten HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
		doubted("limit: not a whole number from 1 to 999999999."), false},
	{"number below 0", "PUT /v1.0/a/q/m?ttl=-1 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("ttl: not a whole number of seconds from 0 to 999999999."), false},
	{"number of 20 digits", "PUT /v1.0/a/q/m?hide=99999999999999999999 HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
		doubted("hide: not a whole number of seconds from 0 to 999999999."), false},
	{"escape that is none", "PUT /v1.0/a/q/%zz HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("A percent sign is not followed by two hexadecimal digits."), false},
	{"escaped slash", "PUT /v1.0/a/q%2fm/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		burrowReply("404 Not Found", "", false), false},
	{"escaped NUL", "PUT /v1.0/a/q/%00 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("The path or a parameter holds a NUL character."), false},
	{"path that is not UTF-8", "GET /v1.0/a/%ff HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
		doubted("The path or a parameter is not UTF-8."), false},
	{"body of a request that has none", "GET /v9 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 52\r\n\r\n" + smuggle,
		burrowReply("404 Not Found", "", false), false},
	{"chunks of a request that has none", "GET /v9 HTTP/1.1\r\nHost: 10.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n",
		burrowReply("404 Not Found", "", false), false},
	{"path out of the tree", "GET /v1.0/../../etc HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", burrowReply("404 Not Found", "Account not found", false), false},
	{"names of dots", "GET /v1.0/../.. HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", burrowReply("404 Not Found", "Account not found", false), false},
	{"key of 300 bytes", "PUT /v1.0/a/q/" + strings.Repeat("k", 300) + " HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("The id is longer than 250 bytes, holds a control character, or begins with @."), false},
	{"control character in a key", "PUT /v1.0/a/q/%01 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("The id is longer than 250 bytes, holds a control character, or begins with @."), false},
	{"queue of 300 bytes", "PUT /v1.0/a/" + strings.Repeat("q", 300) + "/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("The account or the queue has a name that is too long, or has characters that names cannot have."), false},
	{"queue of the plain names with a dot", "PUT /v1.0/default/a.b/m HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		doubted("The account or the queue has a name that is too long, or has characters that names cannot have."), false},
	hostileForm("form that is no JSON", "messages", "body=hello", "The body is not a JSON object of the form that is described in /openapi.json."),
	hostileForm("form of many brackets", "messages", strings.Repeat("[", 20_000), "The body is not a JSON object of the form that is described in /openapi.json."),
	hostileForm("form cut off", "messages", `{"messages":[{"body":"hello"`, "The body is not a JSON object of the form that is described in /openapi.json."),
	hostileForm("form with a request behind it", "messages", `{"messages":[{"body":"hello"}]}`+smuggle, "The body has more than one JSON value."),
	hostileForm("form that is not UTF-8", "messages", "{\"messages\":[{\"body\":\"\xff\"}]}", "The body is not UTF-8; send the bytes of a message as body_base64."),
	hostileForm("half of a pair", "messages", `{"messages":[{"body":"\ud83d"}]}`, "messages[0].body: half of a surrogate pair is no character; send such bytes as body_base64."),
	hostileForm("one bad message of two", "messages", `{"messages":[{"body":"hello"},{"body":"x","ttl_ms":-1}]}`, "messages[1].ttl_ms: not a whole number of milliseconds from 0 to 1000000000000."),
	hostileForm("number of 30 digits", "receive", `{"lease_ms":999999999999999999999999999999}`, "lease_ms: has a JSON value of the wrong type, or a number that is not whole."),
	{"receipt that is none", "DELETE /v1.1/a/q/receipts/1e9 HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", problem(400, "Bad Request", "A receipt is a whole number, as it was received."), false},
	{"parameter of another world", "GET /v1.1/a/q/messages?limit=1&evil=1 HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", problem(400, "Bad Request", "There is a parameter that is not known here."), false},
	{"web page of version 1.1", "POST /v1.1/a/q/messages HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 5\r\n\r\nhello",
		problem(403, "Forbidden", "Requests of web pages are not served: there is an Origin header."), false},

	{"HEAD, whose reply has no body", "HEAD /v1.1/a HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
		"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/problem+json\r\nContent-Length: 111\r\nAllow: GET\r\nCache-Control: no-store\r\n\r\n", false},
	{"HEAD of a web page", "HEAD /v1.0/a/q HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n",
		"HTTP/1.1 403 Forbidden\r\nContent-Type: application/octet-stream; charset=UTF-8\r\nContent-Length: 55\r\n\r\n", false},
	{"HEAD with an escape that is none", "HEAD /v1.0/a/%zz HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
		"HTTP/1.1 400 Bad Request\r\nContent-Type: application/octet-stream; charset=UTF-8\r\nContent-Length: 57\r\n\r\n", false},
	{"method of another world", "BREW /v1.0/a/q HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
		"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 0\r\nAllow: GET, POST, DELETE\r\n\r\n", false},
}

// problem is the reply of version 1.1 that refuses a request.
func problem(status int, title, detail string) string {
	body := fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q}`, title, status, detail)
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nCache-Control: no-store\r\n\r\n%s",
		status, title, len(body), body)
}

// hostileForm is a hostile request of version 1.1 whose form is refused.
func hostileForm(name, target, form, detail string) hostileInput {
	head := fmt.Sprintf("POST /v1.1/a/q/%s HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: %d\r\n\r\n", target, len(form))
	return hostileInput{name, head + form, problem(400, "Bad Request", detail), false}
}

// TestBurrowSmuggling checks that what hides behind a body never runs as a request.
func TestBurrowSmuggling(t *testing.T) {
	if n := len(smuggle); n != 52 {
		t.Fatalf("the request to hide has %d bytes; the table says 52", n)
	}
}

// TestBurrowEveryByte puts messages whose ids have each byte in them, escaped and as it is. Each is refused with a
// reason, or stored under the id that was sent.
func TestBurrowEveryByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		ask := func(method, path string) (reply string, ended bool) {
			c := ts.dial(burrowProtocol{})
			c.feed([]byte(method+" /v1.0/a/q/"+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"), 1<<20)
			out, ended := c.received()
			if !ended {
				c.hangUp()
			}
			return string(out), ended
		}
		stored := int64(0)
		for c := range 256 {
			for _, sent := range []string{fmt.Sprintf("a%%%02Xb", c), "a" + string([]byte{byte(c)}) + "b"} {
				id, want := "a"+string([]byte{byte(c)})+"b", 201
				switch escaped := sent[1] == '%' && len(sent) == 5; {
				case c == '/':
					want = 404
				case c < ' ', c >= 0x7f, !escaped && (c == ' ' || c == '%' || c == '#'):
					want = 400
				case !escaped && c == '?':
					id = "a"
				}
				reply, ended := ask("PUT", sent)
				head, body, _ := strings.Cut(reply, "\r\n\r\n")
				if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", want)) || want == 400 && body == "" || ended && want != 400 {
					t.Errorf("PUT of id %q = %q, closed %t, want %d", sent, reply, ended, want)
				}
				if want != 201 {
					continue
				}
				stored++
				if got, _ := ask("GET", sent+"?detail=id"); !strings.HasSuffix(got, "\r\n\r\n"+id) && c != '?' {
					t.Errorf("GET of id %q = %q", sent, got)
				}
				if reply, _ := ask("DELETE", sent); !strings.HasPrefix(reply, "HTTP/1.1 204 ") {
					t.Errorf("DELETE of id %q = %q", sent, reply)
				}
			}
		}
		if n := ts.stored(); n != stored || stored < 2*90 {
			t.Errorf("%d messages are stored, and %d were answered 201", n, stored)
		}
	})
}
