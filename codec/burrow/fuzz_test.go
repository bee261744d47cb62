package burrow

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"unicode/utf8"
)

// fuzzDecoder has limits that a short input can exceed.
var fuzzDecoder = Decoder{MaxHead: 200, MaxBody: 20}

// within says whether s lies inside src.
func within(s, src []byte) bool {
	if len(s) == 0 {
		return true
	}
	for i := range src {
		if &src[i] == &s[0] {
			return i+len(s) <= len(src)
		}
	}
	return false
}

func FuzzDecodeHead(f *testing.F) {
	for i, tt := range headTests {
		f.Add([]byte(tt.in), uint(i))
	}
	f.Fuzz(func(t *testing.T, src []byte, cut uint) {
		checkHead(t, src)
		checkHead(t, src[:cut%uint(len(src)+1)])
	})
}

// checkHead checks what DecodeHead promises about one call.
func checkHead(t *testing.T, src []byte) {
	var h Head
	before := bytes.Clone(src)
	n, err := fuzzDecoder.DecodeHead(src, &h)
	if !bytes.Equal(src, before) {
		t.Errorf("DecodeHead(%q) changed its input to %q", before, src)
	}
	var refused *ProtocolError
	switch {
	case err == nil:
		if n <= 0 || n > fuzzDecoder.MaxHead || !bytes.HasSuffix(src[:n], []byte("\r\n\r\n")) {
			t.Errorf("DecodeHead(%q) consumed %d bytes", src, n)
		}
		if h.Length < 0 || h.Length > int64(fuzzDecoder.MaxBody) {
			t.Errorf("DecodeHead(%q) has a length of %d", src, h.Length)
		}
		for i := range n { // no prefix of an accepted head is anything but incomplete
			if m, err := fuzzDecoder.DecodeHead(src[:i], new(Head)); m != 0 || err != ErrIncomplete {
				t.Fatalf("DecodeHead(%q) = %d, %v, but the head of %d bytes is accepted", src[:i], m, err, n)
			}
		}
	case err == ErrIncomplete:
		if n != 0 || len(src) >= fuzzDecoder.MaxHead {
			t.Errorf("DecodeHead(%q) = %d, %v", src, n, err)
		}
	case errors.As(err, &refused):
		if n != 0 || !refused.Fatal {
			t.Errorf("DecodeHead(%q) = %d, %v, fatal: %v", src, n, err, refused.Fatal)
		}
		checkReply(t, refused.AppendReply(nil, &Request{}, Reply{}), refused)
	}
	for _, s := range [][]byte{h.Target, h.Host, h.Authorization, h.Origin} {
		if !within(s, src) {
			t.Errorf("DecodeHead(%q): %q lies outside src", src, s)
		}
	}
}

// checkReply checks that net/http reads the reply to a refused request.
func checkReply(t *testing.T, reply []byte, refused *ProtocolError) {
	in := bufio.NewReader(bytes.NewReader(reply))
	got, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("%v is answered %q: %v", refused, reply, err)
	}
	if _, err := io.ReadAll(got.Body); err != nil {
		t.Errorf("%v is answered %q: %v", refused, reply, err)
	}
	if _, err := in.ReadByte(); err != io.EOF || got.StatusCode != refused.Status || got.Close != refused.Fatal {
		t.Errorf("%v is answered %q", refused, reply)
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range parseTests {
		f.Add(byte(LookupMethod([]byte(tt.method))), []byte(tt.target), []byte("ttl=1"))
	}
	f.Fuzz(func(t *testing.T, method byte, target, form []byte) {
		h := Head{Method: Method(method), Target: bytes.Clone(target)}
		var req Request
		err := h.Parse(&req)
		if err == nil {
			err = req.ParseForm(form)
		}
		var refused *ProtocolError
		if errors.As(err, &refused) {
			if refused.Fatal {
				t.Errorf("%v %q ends the connection: %v", h.Method, target, err)
			}
			checkReply(t, refused.AppendReply(nil, &req, Reply{}), refused)
			return
		}
		if err != nil || req.Op == 0 || req.Detail == 0 {
			t.Fatalf("%v %q = %+v, %v", h.Method, target, req, err)
		}
		for _, name := range [][]byte{req.Account, req.Queue, req.ID, req.Marker} {
			if !utf8.Valid(name) || bytes.IndexByte(name, 0) >= 0 || !within(name, h.Target) && !within(name, form) {
				t.Errorf("%v %q has the name %q", h.Method, target, name)
			}
		}
		for _, n := range []int64{req.TTL, req.Hide, req.Limit, req.Wait} {
			if n < 0 || n > maxNumber {
				t.Errorf("%v %q has the number %d", h.Method, target, n)
			}
		}
	})
}

func FuzzBody(f *testing.F) {
	for i, tt := range bodyTests {
		f.Add([]byte(tt.in), tt.head.Length, tt.head.Chunked, uint(i))
	}
	f.Fuzz(func(t *testing.T, src []byte, length int64, chunked bool, step uint) {
		h := Head{Length: length & 15, Chunked: chunked}
		body, rest, err := readBody(bodyDecoder.Body(&h), string(src), 1+int(step%64))
		whole, wholeRest, wholeErr := readBody(bodyDecoder.Body(&h), string(src), len(src)+1)
		if body != whole || err != wholeErr || err == ErrEndOfBody && rest != wholeRest {
			t.Errorf("body of %q in steps = %q, %q, %v, whole = %q, %q, %v", src, body, rest, err, whole, wholeRest, wholeErr)
		}
		if len(body) > bodyDecoder.MaxBody {
			t.Errorf("body of %q has %d bytes", src, len(body))
		}
	})
}

// FuzzAgree checks that every request that is accepted here means the same to net/http. Both find the same method,
// target and body, and the same start of the next request.
func FuzzAgree(f *testing.F) {
	for _, tt := range headTests {
		f.Add([]byte(tt.in + "5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n"))
		f.Add([]byte(tt.in + "0123456789"))
	}
	for _, tt := range bodyTests {
		f.Add([]byte("PUT / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + tt.in))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var h Head
		n, err := fuzzDecoder.DecodeHead(src, &h)
		if err != nil {
			return
		}
		body, rest, err := readBody(fuzzDecoder.Body(&h), string(src[n:]), len(src))
		if err != ErrEndOfBody {
			return
		}
		in := bytes.NewReader(src)
		buffered := bufio.NewReader(in)
		want, err := http.ReadRequest(buffered)
		if err != nil {
			if !refusedByNetHTTP(&h) {
				t.Fatalf("net/http refuses %q: %v", src, err)
			}
			return
		}
		wantBody, err := io.ReadAll(want.Body)
		if err != nil {
			t.Fatalf("net/http refuses the body of %q: %v", src, err)
		}
		if left := buffered.Buffered() + in.Len(); string(wantBody) != body || left != len(rest) {
			t.Errorf("body of %q = %q and %d bytes left, net/http: %q and %d", src, body, len(rest), wantBody, left)
		}
		if h.Method != LookupMethod([]byte(want.Method)) || !bytes.HasSuffix([]byte(want.RequestURI), h.Target) {
			t.Errorf("%q = %v %q, net/http: %s %q", src, h.Method, h.Target, want.Method, want.RequestURI)
		}
	})
}

// refusedByNetHTTP says whether net/http does not accept a head that is accepted here. It decodes the
// target at once, and refuses what does not decode; here that costs one reply, and the connection
// stays. It also looks into hosts and into "*".
func refusedByNetHTTP(h *Head) bool {
	if string(h.Target) == "*" {
		return true
	}
	path, _, _ := bytes.Cut(h.Target, question)
	_, err := unescape(bytes.Clone(path), false)
	return err == errEscape
}
