package thrift

import (
	"bytes"
	"testing"
)

// fuzzDecoder has a limit that a short input can exceed.
var fuzzDecoder = Decoder{MaxFrame: 1000}

func FuzzDecode(f *testing.F) {
	for i, tt := range decodeTests {
		f.Add(frame(unhex(f, tt.in)), uint(i), tt.d.Upgraded)
	}
	for i, tt := range streamTests {
		f.Add(unhex(f, tt.in), uint(i), false)
	}
	for i, v := range readVectors(f) {
		f.Add(v.frame, uint(i), v.decoder().Upgraded)
	}
	f.Fuzz(func(t *testing.T, src []byte, cut uint, upgraded bool) {
		d := fuzzDecoder
		d.Upgraded = upgraded
		at := int(cut % uint(len(src)+1))
		whole := transcript(d, src)
		if split := transcript(d, src[:at], src[at:]); split != whole {
			t.Errorf("Decode(%x) cut at %d:\ngot\n%s\nwhole\n%s", src, at, split, whole)
		}
		checkDecode(t, d, src)
		checkDecode(t, d, src[:at])
		checkDecode(t, d, frame(src)) // seeds without a length are worth while too
	})
}

// checkDecode checks what Decode promises about one call.
func checkDecode(t *testing.T, d Decoder, src []byte) {
	var req Request
	before := bytes.Clone(src)
	n, err := d.Decode(src, &req)
	if !bytes.Equal(src, before) {
		t.Errorf("Decode(%x) changed its input to %x", before, src)
	}
	if n < 0 || n > len(src) {
		t.Fatalf("Decode(%x) consumed %d bytes of %d", src, n, len(src))
	}
	refused, isRefusal := err.(*ProtocolError)
	isFatal := isRefusal && refused.Fatal
	if nothing := err == ErrIncomplete || isFatal; nothing != (n == 0) {
		t.Errorf("Decode(%x) = %d bytes, %v", src, n, err)
	}
	for _, s := range [][]byte{req.Name, req.ClientID, req.Queue, req.Items.data, req.IDs.data} {
		if !within(s, src) {
			t.Errorf("Decode(%x): %x lies outside src", src, s)
		}
	}
	switch {
	case err == ErrIncomplete:
		checkNeed(t, d, src, req.Need)
	case isRefusal && !isFatal:
		checkRefusal(t, src, refused, &req)
	case err == nil:
		checkItems(t, src, &req)
		checkDecodeAgain(t, src[:n], &req)
	}
}

// checkNeed checks that an incomplete src needs this many bytes in all, no more and no fewer.
func checkNeed(t *testing.T, d Decoder, src []byte, need int) {
	var req Request
	if len(src) < frameHeaderSize && need == 0 {
		return
	}
	if need <= len(src) || need > frameHeaderSize+d.MaxFrame {
		t.Fatalf("Decode(%x): Need = %d of at most %d", src, need, frameHeaderSize+d.MaxFrame)
	}
	padded := append(bytes.Clone(src), make([]byte, need-len(src))...)
	if _, err := d.Decode(padded[:need-1], &req); err != ErrIncomplete {
		t.Errorf("Decode(%x) = %v, want %v", padded[:need-1], err, ErrIncomplete)
	}
	if _, err := d.Decode(padded, &req); err == ErrIncomplete {
		t.Errorf("Decode(%x) = %v with Need satisfied", padded, err)
	}
}

// checkRefusal checks that a client understands the answer.
func checkRefusal(t *testing.T, src []byte, refused *ProtocolError, req *Request) {
	reply := refused.AppendReply(nil, req)
	var r Reply
	n, err := Client{Upgraded: req.Upgraded}.DecodeReply(reply, &r)
	if err != nil || n != len(reply) || !r.Failed || r.Exception != refused.Type ||
		r.Seq != req.Seq || !bytes.Equal(r.Name, req.Name) {
		t.Errorf("Decode(%x) is refused with %x: %v", src, reply, err)
	}
	if len(reply) > 2*len(src)+100 {
		t.Errorf("Decode of %d bytes is refused with %d", len(src), len(reply))
	}
}

// checkItems checks the iterators of a call.
func checkItems(t *testing.T, src []byte, req *Request) {
	items, count := req.Items, req.Items.Len()
	for item, ok := items.Next(); ok; item, ok = items.Next() {
		count--
		if !within(item, src) {
			t.Errorf("Decode(%x): item %x lies outside src", src, item)
		}
	}
	if count != 0 || len(items.data) != 0 {
		t.Errorf("Decode(%x): %d items too few, %d bytes left", src, count, len(items.data))
	}
	if n := req.IDs.Len(); n*idSize != len(req.IDs.data) {
		t.Errorf("Decode(%x): %d ids in %d bytes", src, n, len(req.IDs.data))
	}
}

// checkDecodeAgain checks that a decoded call, encoded again, decodes to itself.
func checkDecodeAgain(t *testing.T, src []byte, req *Request) {
	client := Client{Upgraded: req.Upgraded, ClientID: req.ClientID}
	encoded := client.AppendRequest(nil, req)
	var again Request
	n, err := Decoder{Upgraded: req.Upgraded}.Decode(encoded, &again)
	if err != nil || n != len(encoded) {
		t.Fatalf("Decode(%x), encoded from %x = %d bytes, %v", encoded, src, n, err)
	}
	if got, want := requestString(&again), requestString(req); got != want {
		t.Errorf("Decode(%x) = %s, want %s as from %x", encoded, got, want, src)
	}
	if twice := client.AppendRequest(nil, &again); !bytes.Equal(twice, encoded) {
		t.Errorf("AppendRequest of %x = %x", encoded, twice)
	}
}

func FuzzDecodeReply(f *testing.F) {
	for i, tt := range decodeReplyTests {
		f.Add(frame(unhex(f, tt.in)), uint(i), tt.c.Upgraded)
	}
	for i, v := range readVectors(f) {
		f.Add(v.frame, uint(i), v.client().Upgraded)
	}
	f.Fuzz(func(t *testing.T, src []byte, cut uint, upgraded bool) {
		c := Client{MaxFrame: 1000, Upgraded: upgraded}
		at := int(cut % uint(len(src)+1))
		checkDecodeReply(t, c, src)

		var part Reply
		want, n := decodeReplyString(c, src)
		partN, err := c.DecodeReply(src[:at], &part)
		got, _ := decodeReplyString(c, src[:at])
		if err == ErrIncomplete {
			if partN != 0 || n > 0 && n <= at {
				t.Errorf("DecodeReply(%x) = %d bytes, %s; whole %d bytes", src[:at], partN, got, n)
			}
		} else if got != want || partN != n {
			t.Errorf("DecodeReply(%x) = %s, %d bytes, want %s, %d bytes",
				src[:at], got, partN, want, n)
		}
	})
}

// checkDecodeReply checks what DecodeReply promises about one call.
func checkDecodeReply(t *testing.T, c Client, src []byte) {
	var r Reply
	before := bytes.Clone(src)
	n, err := c.DecodeReply(src, &r)
	if !bytes.Equal(src, before) {
		t.Errorf("DecodeReply(%x) changed its input to %x", before, src)
	}
	if n < 0 || n > len(src) || (n == 0) != (err != nil) {
		t.Fatalf("DecodeReply(%x) = %d bytes of %d, %v", src, n, len(src), err)
	}
	for _, s := range [][]byte{r.Name, r.Message, r.Version, r.Items.data, r.Info.HeadItem} {
		if !within(s, src) {
			t.Errorf("DecodeReply(%x): %x lies outside src", src, s)
		}
	}
	if err != nil {
		return
	}
	items, count := r.Items, 0
	for it, ok := items.Next(); ok; it, ok = items.Next() {
		if count++; !within(it.Data, src) {
			t.Errorf("DecodeReply(%x): item %x lies outside src", src, it.Data)
		}
	}
	if count != r.Items.Len() || len(items.data) != 0 {
		t.Errorf("DecodeReply(%x): %d items of %d, %d bytes left",
			src, count, r.Items.Len(), len(items.data))
	}
	if r.Method == MethodUpgrade && !r.Failed && r.Seq != 0 {
		return // AppendUpgrade would make it 0
	}
	checkReplyEncoded(t, c, src, &r)
}

// checkReplyEncoded checks that a decoded reply, encoded again, decodes to itself.
func checkReplyEncoded(t *testing.T, c Client, src []byte, r *Reply) {
	if r.Failed && r.Method == 0 {
		return // only AppendUnknownMethod makes such, with a text of its own
	}
	call := Call{Method: r.Method, Seq: r.Seq, Upgraded: c.Upgraded}
	if r.Failed && r.Exception == ExceptionUnknownMethod {
		return
	}
	encoded := appendReply(nil, call, r)
	want := replyString(r)
	got, n := decodeReplyString(Client{Upgraded: c.Upgraded}, encoded)
	if got != want || n != len(encoded) {
		t.Errorf("DecodeReply(%x) = %s, want %s as from %x", encoded, got, want, src)
	}
}
