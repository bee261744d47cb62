package text

import (
	"bytes"
	"testing"
)

// fuzzDecoder has limits that a short input can exceed.
var fuzzDecoder = Decoder{MaxLine: 60, MaxItem: 20}

func FuzzDecode(f *testing.F) {
	for i, tt := range decodeTests {
		f.Add([]byte(tt.in), uint(i))
	}
	for i, tt := range streamTests {
		f.Add([]byte(tt.in), uint(i))
	}
	f.Fuzz(func(t *testing.T, src []byte, cut uint) {
		at := int(cut % uint(len(src)+1))
		whole := transcript(fuzzDecoder, src)
		if split := transcript(fuzzDecoder, src[:at], src[at:]); split != whole {
			t.Errorf("Decode(%q) cut at %d:\ngot\n%s\nwhole\n%s", src, at, split, whole)
		}
		checkDecode(t, src)
		checkDecode(t, src[:at])
		checkDecodeItem(t, src)
		checkDecodeItem(t, src[:at])
	})
}

// checkDecode checks what Decode promises about one call.
func checkDecode(t *testing.T, src []byte) {
	var req Request
	before := bytes.Clone(src)
	n, err := fuzzDecoder.Decode(src, &req)
	if !bytes.Equal(src, before) {
		t.Errorf("Decode(%q) changed its input to %q", before, src)
	}
	if n < 0 || n > len(src) {
		t.Fatalf("Decode(%q) consumed %d bytes of %d", src, n, len(src))
	}
	refused, isRefusal := err.(*ProtocolError)
	isFatal := isRefusal && refused.Fatal
	if nothing := err == ErrIncomplete || isFatal; nothing != (n == 0) {
		t.Errorf("Decode(%q) = %d bytes, %v", src, n, err)
	}
	if err == ErrIncomplete && len(src) >= fuzzDecoder.MaxLine {
		t.Errorf("Decode(%q) wants more than %d bytes", src, fuzzDecoder.MaxLine)
	}
	for _, s := range [][]byte{req.Queue, req.Status, req.Word} {
		if !within(s, src) {
			t.Errorf("Decode(%q): %q lies outside src", src, s)
		}
	}
	if isRefusal {
		checkReplyLine(t, src, refused.AppendReply(nil, &req), isFatal)
	}
	if err == nil {
		checkDecodeAgain(t, src[:n], &req)
	}
}

// checkReplyLine checks that a refusal is one line of printable ASCII, or nothing if it is fatal.
func checkReplyLine(t *testing.T, src, reply []byte, isFatal bool) {
	if isFatal && len(reply) == 0 {
		return
	}
	var r Reply
	if n, err := DecodeReply(reply, &r); err != nil || n != len(reply) || r.Kind != KindError {
		t.Fatalf("Decode(%q) is refused with %q: %v", src, reply, err)
	}
	for _, c := range r.Data {
		if c != printable(c) {
			t.Errorf("Decode(%q) is refused with %q", src, reply)
		}
	}
}

// checkDecodeAgain checks that a decoded request, encoded again, decodes to itself.
func checkDecodeAgain(t *testing.T, src []byte, req *Request) {
	if (req.Op <= OpDelete || req.Op >= OpTouch) && len(req.Queue) == 0 {
		return // cannot be encoded
	}
	encoded := AppendRequest(nil, req)
	var again Request
	n, err := Decoder{}.Decode(encoded, &again) // numbers may be longer than they were
	if err != nil || n != len(encoded) {
		t.Fatalf("Decode(%q), encoded from %q = %d bytes, %v", encoded, src, n, err)
	}
	if got, want := requestString(&again), requestString(req); got != want {
		t.Errorf("Decode(%q) = %s, want %s as from %q", encoded, got, want, src)
	}
	if twice := AppendRequest(nil, &again); !bytes.Equal(twice, encoded) {
		t.Errorf("AppendRequest of %q = %q", encoded, twice)
	}
}

// checkDecodeItem checks what DecodeItem promises about one call at the start of a line.
func checkDecodeItem(t *testing.T, src []byte) {
	var at Items
	before := bytes.Clone(src)
	item, n, err := fuzzDecoder.DecodeItem(src, &at)
	if !bytes.Equal(src, before) {
		t.Errorf("DecodeItem(%q) changed its input to %q", before, src)
	}
	if n < 0 || n > len(src) || (n == 0) != (err == ErrIncomplete) {
		t.Fatalf("DecodeItem(%q) = %d bytes of %d, %v", src, n, len(src), err)
	}
	if !within(item, src) {
		t.Errorf("DecodeItem(%q): %q lies outside src", src, item)
	}
	size := len(item)
	switch {
	case err == nil && (size == 0 || size > fuzzDecoder.MaxItem):
		t.Errorf("DecodeItem(%q) = %q", src, item)
	case err != nil && item != nil:
		t.Errorf("DecodeItem(%q) = %q with %v", src, item, err)
	case err == ErrIncomplete && len(src) >= fuzzDecoder.MaxItem+lineEndSize:
		t.Errorf("DecodeItem(%q) wants more than %d bytes", src, len(src))
	case err == ErrTooLarge && n != fuzzDecoder.MaxItem+1:
		t.Errorf("DecodeItem(%q) = %d bytes, %v", src, n, err)
	}
	if err != nil || !ValidItem(item) {
		return
	}
	encoded := AppendPutItem(nil, item)
	again, n, err := fuzzDecoder.DecodeItem(encoded, &at)
	if !bytes.Equal(again, item) || n != len(encoded) || err != nil {
		t.Errorf("DecodeItem(%q) = %q, %d bytes, %v, want %q", encoded, again, n, err, item)
	}
}

func FuzzDecodeReply(f *testing.F) {
	for i, tt := range decodeReplyTests {
		if len(tt.in) < 1000 {
			f.Add([]byte(tt.in), uint(i))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, cut uint) {
		at := int(cut % uint(len(src)+1))
		checkDecodeReply(t, src)

		want, n := decodeReplyString(src)
		got, partN := decodeReplyString(src[:at])
		if got == ErrIncomplete.Error() {
			if partN != 0 || n > 0 && n <= at {
				t.Errorf("DecodeReply(%q) = %d bytes, %s; whole %d bytes", src[:at], partN, got, n)
			}
		} else if got != want || partN != n {
			t.Errorf("DecodeReply(%q) = %s, %d bytes, want %s, %d bytes",
				src[:at], got, partN, want, n)
		}
	})
}

// checkDecodeReply checks what DecodeReply promises about one call.
func checkDecodeReply(t *testing.T, src []byte) {
	var r Reply
	before := bytes.Clone(src)
	n, err := DecodeReply(src, &r)
	if !bytes.Equal(src, before) {
		t.Errorf("DecodeReply(%q) changed its input to %q", before, src)
	}
	if n < 0 || n > len(src) || (n == 0) != (err != nil) {
		t.Fatalf("DecodeReply(%q) = %d bytes of %d, %v", src, n, len(src), err)
	}
	if !within(r.Data, src) {
		t.Errorf("DecodeReply(%q): %q lies outside src", src, r.Data)
	}
	if err != nil {
		return
	}
	var encoded []byte
	switch r.Kind {
	case KindCount:
		encoded = AppendCount(nil, r.Count)
	case KindItem:
		encoded = AppendItem(nil, r.Data)
	default:
		encoded = src[:n]
	}
	want := replyResultString(&r, nil)
	if got, encodedN := decodeReplyString(encoded); got != want || encodedN != len(encoded) {
		t.Errorf("DecodeReply(%q) = %s, want %s as from %q", encoded, got, want, src)
	}
}

// within reports whether s is empty or lies inside src.
func within(s, src []byte) bool {
	if len(s) == 0 {
		return true
	}
	at := cap(src) - cap(s) // where s starts, if it shares src's array
	return at >= 0 && at+len(s) <= len(src) && &src[at] == &s[0]
}
