package memcache

import (
	"bytes"
	"testing"
)

// fuzzDecoder has limits that a short input can exceed.
var fuzzDecoder = Decoder{MaxLine: 80, MaxItem: 200}

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
	if (req.Skip != 0) != (err == ErrTooLarge) || req.Skip < 0 {
		t.Errorf("Decode(%q): %v, Skip = %d", src, err, req.Skip)
	}
	for _, s := range [][]byte{req.Queue, req.Data, req.Args, req.ItemKey} {
		if !within(s, src) {
			t.Errorf("Decode(%q): %q lies outside src", src, s)
		}
	}
	if err == ErrIncomplete {
		checkNeed(t, src, req.Need)
	}
	if err == nil {
		checkDecodeAgain(t, src[:n], &req)
	}
}

// checkNeed checks that an incomplete src needs this many bytes in all, no more and no fewer.
func checkNeed(t *testing.T, src []byte, need int) {
	var req Request
	if need == 0 {
		if bytes.IndexByte(src, '\n') >= 0 {
			t.Errorf("Decode(%q): Need = 0 though the line is whole", src)
		}
		return
	}
	limit := fuzzDecoder.MaxLine + fuzzDecoder.MaxItem + bodyEndSize
	if need <= len(src) || need > limit {
		t.Fatalf("Decode(%q): Need = %d of at most %d", src, need, limit)
	}
	padded := append(bytes.Clone(src), make([]byte, need-len(src))...)
	if _, err := fuzzDecoder.Decode(padded[:need-1], &req); err != ErrIncomplete {
		t.Errorf("Decode(%q) = %v, want %v", padded[:need-1], err, ErrIncomplete)
	}
	if _, err := fuzzDecoder.Decode(padded, &req); err == ErrIncomplete {
		t.Errorf("Decode(%q) = %v with Need satisfied", padded, err)
	}
}

// checkDecodeAgain checks that a decoded request, encoded again, decodes to itself.
func checkDecodeAgain(t *testing.T, src []byte, req *Request) {
	switch req.Op {
	case OpDelete, OpFlush, OpFlushExpired:
		if len(req.Queue) == 0 {
			return // cannot be encoded
		}
	}
	encoded := AppendRequest(nil, req)
	var again Request
	n, err := Decoder{}.Decode(encoded, &again) // numbers may be longer than they were
	if err != nil || n != len(encoded) {
		t.Fatalf("Decode(%q), encoded from %q = %d bytes, %v", encoded, src, n, err)
	}
	req.BadEnd = false // AppendRequest ends what it encodes as it should
	if got, want := requestString(&again), requestString(req); got != want {
		t.Errorf("Decode(%q) = %s, want %s as from %q", encoded, got, want, src)
	}
	if twice := AppendRequest(nil, &again); !bytes.Equal(twice, encoded) {
		t.Errorf("AppendRequest of %q = %q", encoded, twice)
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

		var whole, part Reply
		n, err := DecodeReply(src, &whole)
		partN, partErr := DecodeReply(src[:at], &part)
		if partErr == ErrIncomplete {
			if partN != 0 || err == nil && n <= at {
				t.Errorf("DecodeReply(%q) = %d bytes, %v; whole %d bytes",
					src[:at], partN, partErr, n)
			}
			return
		}
		got, want := replyResultString(&part, partErr), replyResultString(&whole, err)
		if got != want || partN != n {
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
	for _, s := range [][]byte{r.Queue, r.Data, r.Text} {
		if !within(s, src) {
			t.Errorf("DecodeReply(%q): %q lies outside src", src, s)
		}
	}
	if err == ErrIncomplete && r.Need != 0 && r.Need <= len(src) {
		t.Errorf("DecodeReply(%q): Need = %d", src, r.Need)
	}
	if err == nil && r.Kind == KindValue {
		encoded := AppendValue(nil, r.Queue, r.Flags, r.Data)
		if r.CAS != 0 {
			encoded = AppendLeased(nil, r.Queue, r.Flags, r.Data, r.CAS)
		}
		got, encodedN := decodeReplyString(string(encoded))
		r.Meta = nil // AppendMeta words it
		if want := replyResultString(&r, nil); got != want || encodedN != len(encoded) {
			t.Errorf("DecodeReply(%q) = %s, want %s as from %q", encoded, got, want, src)
		}
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

// FuzzDecodeListed checks that a value of a list ends where it ends, however much of what follows has come.
func FuzzDecodeListed(f *testing.F) {
	list := AppendListed(nil, []byte("q"), 7, 3, []byte("VALUE q/8 0 1\r\n"))
	f.Add(list, 20)
	f.Add([]byte(ReplyEnd), 2)
	f.Add([]byte("VALUE q/1 0 99999999999\r\n"), 5)
	f.Add([]byte("VALUE q/1 0 -1\r\nx\r\n"), 5)
	f.Fuzz(func(t *testing.T, src []byte, at int) {
		var whole, part Reply
		n, err := DecodeListed(src, &whole)
		if n > len(src) || (n == 0) != (err != nil) {
			t.Fatalf("DecodeListed(%q) = %d bytes, %v", src, n, err)
		}
		at = min(max(at, 0), len(src))
		partN, partErr := DecodeListed(src[:at], &part)
		switch {
		case err == nil && at >= n && (partN != n || partErr != nil):
			t.Errorf("DecodeListed(%q) = %d bytes, %v; whole %d bytes", src[:at], partN, partErr, n)
		case err == nil && at < n && partErr == nil:
			t.Errorf("DecodeListed(%q) takes part of %q", src[:at], src[:n])
		}
		if err == nil && whole.Kind == KindValue && len(whole.Queue) > 0 {
			again := AppendValue(nil, whole.Queue, whole.Flags, whole.Data)
			var r Reply
			if _, err := DecodeListed(again, &r); err != nil || !bytes.Equal(r.Data, whole.Data) || r.Flags != whole.Flags {
				t.Errorf("DecodeListed(%q) = %q with flags %d, %v", again, r.Data, r.Flags, err)
			}
		}
	})
}
