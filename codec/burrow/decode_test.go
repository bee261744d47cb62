package burrow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// resultString returns a decoded head, or the error, as text.
func resultString(h *Head, err error) string {
	var refused *ProtocolError
	if errors.As(err, &refused) {
		return fmt.Sprintf("%d %s", refused.Status, refused.Reason)
	}
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", h.Method, h.Target)
	if h.Length > 0 {
		fmt.Fprintf(&b, " length=%d", h.Length)
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{h.Chunked, "chunked"}, {h.Close, "close"}, {h.Continue, "continue"}, {h.Form, "form"}, {h.Old(), "old"}} {
		if flag.set {
			b.WriteString(" " + flag.name)
		}
	}
	for _, value := range []struct {
		name string
		s    []byte
	}{{"auth", h.Authorization}, {"origin", h.Origin}} {
		if len(value.s) > 0 {
			fmt.Fprintf(&b, " %s=%s", value.name, value.s)
		}
	}
	return b.String()
}

func decodeString(d Decoder, in string) (result string, n int) {
	var h Head
	n, err := d.DecodeHead([]byte(in), &h)
	return resultString(&h, err), n
}

const host = "Host: h\r\n"

// headTests also seed FuzzDecodeHead.
var headTests = []struct {
	name string
	d    Decoder
	in   string // every proper prefix of an accepted head is incomplete
	want string // as resultString has it, or the error's text
}{
	{name: "GET", in: "GET /v1.0/a/q HTTP/1.1\r\n" + host + "\r\n", want: "GET /v1.0/a/q"},
	{name: "PUT with a length", in: "PUT /x HTTP/1.1\r\n" + host + "Content-Length: 7\r\n\r\n", want: "PUT /x length=7"},
	{name: "length of 0", in: "PUT /x HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", want: "PUT /x"},
	{name: "length with zeros before it", in: "PUT /x HTTP/1.1\r\n" + host + "Content-Length: 007\r\n\r\n",
		want: "PUT /x length=7"},
	{name: "chunks", in: "POST /x HTTP/1.1\r\n" + host + "Transfer-Encoding: Chunked\r\n\r\n", want: "POST /x chunked"},
	{name: "close", in: "GET / HTTP/1.1\r\n" + host + "Connection: Keep-Alive, close\r\n\r\n", want: "GET / close"},
	{name: "old", in: "GET / HTTP/1.0\r\n\r\n", want: "GET / close old"},
	{name: "old that goes on", in: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", want: "GET / old"},
	{name: "expectation", in: "PUT / HTTP/1.1\r\n" + host + "expect: 100-Continue\r\n\r\n", want: "PUT / continue"},
	{name: "expectation of an old client", in: "PUT / HTTP/1.0\r\nexpect: 100-continue\r\n\r\n", want: "PUT / close old"},
	{name: "form", in: "POST / HTTP/1.1\r\n" + host + "Content-Type: application/x-www-form-URLENCODED; charset=x\r\n\r\n",
		want: "POST / form"},
	{name: "who", in: "GET / HTTP/1.1\r\n" + host + "Authorization: \t Basic eDp5 \r\nOrigin: http://o\r\n\r\n",
		want: "GET / auth=Basic eDp5 origin=http://o"},
	{name: "unknown method", in: "BREW / HTTP/1.1\r\n" + host + "\r\n", want: "unknown /"},
	{name: "method in lower case", in: "get / HTTP/1.1\r\n" + host + "\r\n", want: "unknown /"},
	{name: "target with scheme", in: "GET HTTP://h:80/p?q HTTP/1.1\r\n" + host + "\r\n", want: "GET /p?q"},
	{name: "star", in: "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", want: "OPTIONS *"},
	{name: "target that is not ASCII", in: "GET /h\xc3\xa9 HTTP/1.1\r\n" + host + "\r\n", want: "GET /h\xc3\xa9"},
	{name: "empty header value", in: "GET / HTTP/1.1\r\nHost:\r\nX:\r\n\r\n", want: "GET /"},

	{name: "empty line", in: "\r\n", want: errForeign.Reason},
	{name: "TLS", in: "\x16\x03\x01", want: errForeign.Reason},
	{name: "memcache", in: "get q\r\n", want: errRequestLine.Reason},
	{name: "two spaces", in: "GET  / HTTP/1.1\r\n", want: errRequestLine.Reason},
	{name: "space behind the version", in: "GET / HTTP/1.1 \r\n", want: errRequestLine.Reason},
	{name: "tab", in: "GET\t/ HTTP/1.1\r\n", want: errRequestLine.Reason},
	{name: "no version", in: "GET /\r\n", want: errRequestLine.Reason},
	{name: "HTTP/2", in: "PRI * HTTP/2.0\r\n", want: errVersion.Reason},
	{name: "HTTP/0.9", in: "GET / HTTP/0.9\r\n", want: errVersion.Reason},
	{name: "HTTP/1.2", in: "GET / HTTP/1.2\r\n", want: errVersion.Reason},
	{name: "HTTP in lower case", in: "GET / http/1.1\r\n", want: errRequestLine.Reason},
	{name: "authority", in: "CONNECT h:80 HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "scheme without host", in: "GET http:/// HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "fragment for a host", in: "GET http://#/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "query for a host", in: "GET http://a?b/c HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "user beside the host", in: "GET http://a@b/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "control character in a host", in: "GET http://a\x00b/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "port that is none", in: "GET http://a:b/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "port without a host", in: "GET http://:80/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "bracket without its end", in: "GET http://[::1/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "address that is none", in: "GET http://[1]/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "bytes behind an address", in: "GET http://[::1]a/ HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "address and port", in: "GET http://[::1]:80/x HTTP/1.1\r\n" + host + "\r\n", want: "GET /x"},
	{name: "fragment", in: "GET /a#b HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "control character", in: "GET /\x01 HTTP/1.1\r\n", want: errTarget.Reason},
	{name: "bare LF", in: "GET / HTTP/1.1\n", want: errLineEnd.Reason},
	{name: "bare LF behind a header", in: "GET / HTTP/1.1\r\nHost: h\n", want: errLineEnd.Reason},
	{name: "bare CR", in: "GET / HTTP/1.1\rX", want: errLineEnd.Reason},
	{name: "bare CR in a header", in: "GET / HTTP/1.1\r\nA: b\rC: d\r\n", want: errLineEnd.Reason},
	{name: "fold", in: "GET / HTTP/1.1\r\nA: b\r\n c\r\n", want: errFold.Reason},
	{name: "fold behind the request line", in: "GET / HTTP/1.1\r\n\tA: b\r\n", want: errFold.Reason},
	{name: "blank before the colon", in: "GET / HTTP/1.1\r\nHost : h\r\n", want: errHeaderName.Reason},
	{name: "no colon", in: "GET / HTTP/1.1\r\nHost\r\n", want: errHeaderName.Reason},
	{name: "no name", in: "GET / HTTP/1.1\r\n: h\r\n", want: errHeaderName.Reason},
	{name: "control character in a value", in: "GET / HTTP/1.1\r\nA: \x00\r\n", want: errHeaderValue.Reason},
	{name: "no host", in: "GET / HTTP/1.1\r\n\r\n", want: errNoHost.Reason},
	{name: "two hosts", in: "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", want: errTwoHosts.Reason},
	{name: "two credentials", in: "GET / HTTP/1.1\r\nAuthorization: Basic eDp5\r\nauthorization: Basic eDp5\r\n",
		want: errTwoCredentials.Reason},
	{name: "empty credential and another", in: "GET / HTTP/1.1\r\nAuthorization:\r\nAuthorization: Basic eDp5\r\n",
		want: errTwoCredentials.Reason},
	{name: "two origins", in: "GET / HTTP/1.1\r\nOrigin: http://a\r\nOrigin: http://b\r\n", want: errTwoOrigins.Reason},
	{name: "two lengths", in: "PUT / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n", want: errTwoLengths.Reason},
	{name: "list of lengths", in: "PUT / HTTP/1.1\r\nContent-Length: 5, 5\r\n", want: errLength.Reason},
	{name: "length with a sign", in: "PUT / HTTP/1.1\r\nContent-Length: +5\r\n", want: errLength.Reason},
	{name: "empty length", in: "PUT / HTTP/1.1\r\nContent-Length:\r\n", want: errLength.Reason},
	{name: "length beyond 64 bits", in: "PUT / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n",
		want: errBodySize.Reason},
	{name: "length beyond the limit", d: Decoder{MaxBody: 4},
		in: "PUT / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n", want: errBodySize.Reason},
	{name: "form beyond its limit", in: "POST /v1.0/a/q HTTP/1.1\r\n" + host +
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16385\r\n\r\n", want: errBodySize.Reason},
	{name: "form that is the body of a message", in: "PUT /v1.0/a/q/m HTTP/1.1\r\n" + host +
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16385\r\n\r\n",
		want: "PUT /v1.0/a/q/m length=16385 form"},
	{name: "form that is JSON", in: "POST /v1.1/a/q/messages HTTP/1.1\r\n" + host +
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16385\r\n\r\n",
		want: "POST /v1.1/a/q/messages length=16385 form"},
	{name: "length and chunks", in: "PUT / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		want: errBothLengths.Reason},
	{name: "chunks twice", in: "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		want: errCoding.Reason},
	{name: "other coding", in: "PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n", want: errCoding.Reason},
	{name: "chunks of an old client", in: "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		want: errOldChunked.Reason},
	{name: "other expectation", in: "PUT / HTTP/1.1\r\nExpect: more\r\n", want: errExpect.Reason},
	{name: "head of the longest size", d: Decoder{MaxHead: 27}, in: "GET / HTTP/1.1\r\n" + host + "\r\n", want: "GET /"},
	{name: "head too large", d: Decoder{MaxHead: 26}, in: "GET / HTTP/1.1\r\n" + host + "\r", want: errHeadSize.Reason},
	{name: "line too long", d: Decoder{MaxHead: 20}, in: "GET /aaaaaaaaaaaaaaa", want: errHeadSize.Reason},
}

func TestDecodeHead(t *testing.T) {
	for _, tt := range headTests {
		t.Run(tt.name, func(t *testing.T) {
			got, n := decodeString(tt.d, tt.in)
			accepted := n > 0
			if !accepted {
				_, got, _ = strings.Cut(got, " ")
			}
			if got != tt.want {
				t.Errorf("DecodeHead(%.80q) = %s, want %s", tt.in, got, tt.want)
			}
			if accepted && n != len(tt.in) {
				t.Errorf("DecodeHead(%.80q) consumed %d bytes, want %d", tt.in, n, len(tt.in))
			}
			for i := range tt.in { // cut anywhere, a head is incomplete, or refused as the whole is
				got, n := decodeString(tt.d, tt.in[:i])
				if got == ErrIncomplete.Error() && n == 0 {
					continue
				}
				if accepted || !strings.HasSuffix(got, tt.want) {
					t.Fatalf("DecodeHead(%.80q) = %s, %d bytes, want %v", tt.in[:i], got, n, ErrIncomplete)
				}
			}
			for _, next := range []string{"\r", "\n", "GET / HTTP/1.1\r\n"} { // what follows makes no difference
				if got, more := decodeString(tt.d, tt.in+next); more != n || !strings.HasSuffix(got, tt.want) {
					t.Errorf("DecodeHead(%.80q) = %s, %d bytes, want %s, %d bytes", tt.in+next, got, more, tt.want, n)
				}
			}
		})
	}
}

// TestDecodeHeadReset checks that nothing of one head shows in the next.
func TestDecodeHeadReset(t *testing.T) {
	x := []byte("x")
	h := Head{Method: Put, Target: x, Length: 5, Chunked: true, Close: true, Continue: true, Form: true,
		Host: x, Authorization: x, Origin: x, minor: '0'}
	if _, err := (Decoder{}).DecodeHead([]byte("GET / HTTP/1.1\r\nHost:\r\n\r\n"), &h); err != nil {
		t.Fatal(err)
	}
	want := Head{Method: Get, Target: []byte("/"), Host: []byte{}, minor: '1'}
	if got, want := fmt.Sprintf("%+v", h), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("DecodeHead into a used Head = %s, want %s", got, want)
	}
}
