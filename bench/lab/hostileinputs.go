package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/text"
	"github.com/kestrelmq/kestrel/codec/thrift"
)

// hostileInput is what no client should send. How each protocol answers is in the tests of netloop;
// here every input is sent to every protocol. None says "shutdown": from this machine, that is
// obeyed.
type hostileInput struct {
	name  string
	bytes string
}

// marker is in names and items of inputs that would write to the log, or a file, if they could.
const marker = "PWNED"

// hostileNames are queue names that mean something to a file system, a terminal, a log or a shell.
func hostileNames() []string {
	return []string{
		"", ".", "..", "../" + marker, "../../" + marker, "/tmp/" + marker, "a/b", "~", "a~b", "+", "++",
		"a+", "+a", "a.b", "a\x00b", "a\x1b[2J\x1b[31m" + marker, "a\rb", "a\tb", `a"b`, `a\b`, "%s%n%d",
		"$(touch " + marker + ")", "`touch " + marker + "`", "\xff\xfe\x80", "caf\xc3\xa9",
		"\xe2\x80\xae" + marker,
		"a\nlevel=ERROR msg=" + marker, "a\n{\"msg\":\"" + marker + "\",\"plain\":true}\n",
		strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("n", 70_000),
		"LOCK", "journal", "con",
	}
}

// namedInputs are requests with such names, in every protocol.
func namedInputs() (all []hostileInput) {
	var client thrift.Client
	item := []byte("item of " + marker)
	for _, s := range hostileNames() {
		name, queue := fmt.Sprintf("name %.20q", s), []byte(s)
		all = append(all,
			hostileInput{name + ", memcache", string(memcache.AppendSet(nil, queue, 0, 0, item)) +
				string(memcache.AppendGet(nil, queue, memcache.GetOptions{Open: true})) +
				string(memcache.AppendCommand(nil, memcache.OpFlush, queue)) +
				string(memcache.AppendCommand(nil, memcache.OpDelete, queue))},
			hostileInput{name + ", text", string(text.AppendPut(nil, queue, item)) +
				string(text.AppendGet(nil, queue, 0)) +
				string(text.AppendCommand(nil, text.OpDelete, queue))},
			hostileInput{name + ", thrift", string(client.AppendPut(nil, 1, queue, 0, item)) +
				string(client.AppendGet(nil, 2, queue, thrift.GetOptions{MaxItems: 1})) +
				string(client.AppendCall(nil, thrift.MethodDeleteQueue, 3, queue))})
	}
	return all
}

// sizedInputs announce sizes that do not hold, in every protocol.
func sizedInputs() (all []hostileInput) {
	for _, n := range []string{
		"-1", "-2147483648", "2147483647", "2147483648", "4294967296", "9223372036854775807",
		"99999999999999999999", "0x10", "1e9", "33554433", "", " ", "+", "007",
	} {
		all = append(all,
			hostileInput{"size " + n + ", memcache", "set q 0 0 " + n + "\r\nversion\r\nshort\r\n"},
			hostileInput{"expiry " + n + ", memcache", "set q 0 " + n + " 5\r\nshort\r\nversion\r\n"},
			hostileInput{"wait " + n + ", memcache", "get q/t=" + n + "\r\nversion\r\n"},
			hostileInput{"count " + n + ", memcache", "confirm q " + n + "\r\nmonitor q 0 " + n + "\r\n"},
			hostileInput{"expiry " + n + ", text", "put q " + n + ":\nx\n\nversion\n"},
			hostileInput{"wait " + n + ", text", "peek q " + n + "\nconfirm q " + n + "\n"})
	}
	for _, n := range []uint32{0, 1, 4, 0x7fffffff, 0x80000000, 0xffffffff, 33<<20 + 1, 1 << 30} {
		frame := binary.BigEndian.AppendUint32(nil, n)
		all = append(all, hostileInput{fmt.Sprintf("frame of %d, thrift", n),
			string(frame) + "\x80\x01\x00\x01"})
		all = append(all, hostileInput{fmt.Sprintf("%d items, thrift", n), thriftPut(n, "")})
		all = append(all, hostileInput{fmt.Sprintf("item of %d bytes, thrift", n), thriftPut(1,
			string(frame)+"short")})
	}
	return all
}

// thriftPut is a put in a sound frame with a list that says it has count items, and what follows.
func thriftPut(count uint32, items string) string {
	body := "\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01" + "\x0b\x00\x01\x00\x00\x00\x01q" +
		"\x0f\x00\x02\x0b" + string(binary.BigEndian.AppendUint32(nil, count)) + items
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// thriftNested is a call with an argument that nobody asked for, nested deeply.
func thriftNested(open string, depth int) string {
	body := "\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01" + strings.Repeat(open, depth)
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// strangeInputs are other protocols, bombs and noise.
func strangeInputs(rng *rand.Rand) []hostileInput {
	all := []hostileInput{
		{"HTTP", "POST /shutdown HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\ndelete other\r\n"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 100)},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n"},
		{"Redis", "*3\r\n$3\r\nSET\r\n$1\r\nq\r\n$1\r\nx\r\n"},
		{"memcached's binary protocol",
			"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x0a" + strings.Repeat("\x00", 30)},
		{"a body that is a command", "set q 0 0 3\r\nabcd\r\ndelete other\r\n"},
		{"a body that is too short", "set q 0 0 30\r\ndelete other\r\nflush_all\r\nquit\r\n"},
		{"line ends", strings.Repeat("\r\n", 500)},
		{"line feeds", strings.Repeat("\n", 500)},
		{"NULs", strings.Repeat("\x00", 500)},
		{"ones", strings.Repeat("\xff", 500)},
		{"a line without an end", strings.Repeat("a", 100_000)},
		{"spaces without an end", strings.Repeat(" ", 100_000)},
		{"many options", "get q" + strings.Repeat("/open/close/abort", 400) + "\r\n"},
		{"many keys", "get " + strings.Repeat("q ", 4000) + "\r\n"},
		{"many requests", strings.Repeat("get nothing\r\n", 3000)},
		{"many refused requests", strings.Repeat("put a.b:\nx\n\n", 1000)},
		{"structs in structs, thrift", thriftNested("\x0c\x00\x09", 100_000)},
		{"lists of lists, thrift", thriftNested("\x0f\x00\x09\x0f\x7f\xff\xff\xff", 1)},
		{"lists in lists, thrift", thriftNested("\x0f\x00\x00\x00\x01", 100_000)},
		{"a map of many, thrift", thriftNested("\x0d\x00\x09\x02\x02\x7f\xff\xff\xff", 1)},
		{"no such method, thrift",
			"\x00\x00\x00\x0d\x80\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00"},
		{"a reply, thrift", "\x00\x00\x00\x10\x80\x01\x00\x02\x00\x00\x00\x03get\x00\x00\x00\x01\x00"},
	}
	for i := range 20 {
		noise := make([]byte, 1+rng.IntN(400))
		for j := range noise {
			noise[j] = byte(rng.Uint32())
		}
		all = append(all, hostileInput{fmt.Sprint("noise ", i), string(noise)})
	}
	return all
}

func hostileInputs(rng *rand.Rand) []hostileInput {
	return slices.Concat(namedInputs(), sizedInputs(), strangeInputs(rng), httpInputs())
}

// httpRequest is a request of Burrow's protocol.
func httpRequest(method, target, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body)
}

// httpInputs are requests that no client of Burrow's protocol should send. Some would hide another request behind them.
// Others have sizes, names and numbers that are none. They have an account of their own, so that other inputs get
// nothing of theirs.
func httpInputs() (all []hostileInput) {
	const line, hidden = "PUT /v1.0/lab/q/m HTTP/1.1\r\nHost: 127.0.0.1\r\n", "DELETE /v1.0/lab/other HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	heads := map[string]string{
		"two lengths":             "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + hidden,
		"two equal lengths":       "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + hidden,
		"a length and chunks":     "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunks twice":            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunks in other words":   "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + hidden,
		"a fold":                  "X: a\r\n b\r\n\r\n",
		"a blank before a colon":  "Content-Length : 5\r\n\r\nhello",
		"bare line feeds":         "X: a\nContent-Length: 5\n\nhello",
		"a NUL in a header":       "X: a\x00b\r\n\r\n",
		"a header of 17 KiB":      "X: " + strings.Repeat("x", 17<<10),
		"headers of 17 KiB":       strings.Repeat("X: y\r\n", 17<<10/6),
		"a header without an end": "X: " + strings.Repeat("x", 100_000),
		"an upgrade":              "Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
		"an expectation":          "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
	}
	for name, head := range heads {
		all = append(all, hostileInput{name + ", burrow", line + head})
	}
	for _, n := range []string{"-1", "+5", "0x5", "5 5", "5,5", "", "99999999999999999999", "33554433", "2147483648"} {
		all = append(all,
			hostileInput{"length " + n + ", burrow", line + "Content-Length: " + n + "\r\n\r\nhello" + hidden},
			hostileInput{"chunk " + n + ", burrow", line + "Transfer-Encoding: chunked\r\n\r\n" + n + "\r\nhello\r\n0\r\n\r\n" + hidden},
			hostileInput{"numbers " + n + ", burrow", httpRequest("PUT", "/v1.0/lab/q/m?ttl="+n+"&hide="+n, "x") +
				httpRequest("DELETE", "/v1.0/lab/q?limit="+n+"&wait="+n, "")})
	}
	for _, s := range hostileNames() {
		name, escaped := fmt.Sprintf("name %.20q, burrow", s), url.PathEscape(s)
		all = append(all,
			hostileInput{name, httpRequest("PUT", "/v1.0/lab/"+escaped+"/"+escaped, "item of "+marker) +
				httpRequest("DELETE", "/v1.0/lab/"+escaped, "")},
			hostileInput{"account and raw " + name, httpRequest("PUT", "/v1.0/"+escaped+"/q/m", "x") +
				httpRequest("PUT", "/v1.0/lab/q/"+s, "x")})
	}
	return append(all,
		hostileInput{"escapes that are none, burrow", httpRequest("PUT", "/v1.0/lab/q/%zz", "x") + httpRequest("PUT", "/v1.0/lab/%/m", "x")},
		hostileInput{"JSON in JSON, burrow", httpRequest("POST", "/v1.1/lab/q/messages", strings.Repeat(`{"messages":[`, 20_000))},
		hostileInput{"JSON that ends early, burrow", httpRequest("POST", "/v1.1/lab/q/messages", `{"messages":[{"body":"`)},
		hostileInput{"many small chunks, burrow", line + "Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1\r\nx\r\n", 20_000) + "0\r\n\r\n" + hidden},
		hostileInput{"many requests, burrow", strings.Repeat(httpRequest("HEAD", "/v1.0/lab/nothing/m", ""), 2000)},
	)
}
