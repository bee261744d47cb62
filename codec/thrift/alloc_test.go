package thrift

import "testing"

const allocRuns = 100

// TestDecodeAllocs covers refusals too, with their answers, and frames that are not whole.
func TestDecodeAllocs(t *testing.T) {
	dst := make([]byte, 0, 1024)
	check := func(name string, d Decoder, src []byte) {
		t.Helper()
		var req Request
		got := testing.AllocsPerRun(allocRuns, func() {
			_, err := d.Decode(src, &req)
			if refused, ok := err.(*ProtocolError); ok {
				refused.AppendReply(dst, &req)
			}
		})
		if got != 0 {
			t.Errorf("%s: Decode(%.80x) allocates %v times, want 0", name, src, got)
		}
	}
	for _, tt := range decodeTests {
		src := frame(unhex(t, tt.in))
		check(tt.name, tt.d, src)
		check(tt.name, tt.d, src[:len(src)-1])
	}
	for _, v := range readVectors(t) {
		if !v.isReply() {
			check(v.name, v.decoder(), v.frame)
		}
	}
}

func TestDecodeReplyAllocs(t *testing.T) {
	for _, tt := range decodeReplyTests {
		src := frame(unhex(t, tt.in))
		var r Reply
		if got := testing.AllocsPerRun(allocRuns, func() { tt.c.DecodeReply(src, &r) }); got != 0 {
			t.Errorf("%s: DecodeReply(%x) allocates %v times, want 0", tt.name, src, got)
		}
	}
}

func TestEncodeAllocs(t *testing.T) {
	dst := make([]byte, 0, 1024)
	check := func(name string, encode func()) {
		t.Helper()
		if got := testing.AllocsPerRun(allocRuns, encode); got != 0 {
			t.Errorf("%s: the encoder allocates %v times, want 0", name, got)
		}
	}
	for _, tt := range replyTests {
		check(tt.name, func() { tt.encode(dst) })
	}
	for _, tt := range clientTests {
		check(tt.name, func() { tt.encode(dst) })
	}
	for _, v := range readVectors(t) {
		var r Reply
		if !v.isReply() {
			continue
		}
		if _, err := v.client().DecodeReply(v.frame, &r); err != nil || r.Failed {
			continue // an exception's text is converted by the test
		}
		version := string(r.Version)
		call := Call{Method: r.Method, Seq: r.Seq, Upgraded: v.client().Upgraded}
		check(v.name, func() {
			if r.Method == MethodGetVersion {
				AppendVersion(dst, call, version)
				return
			}
			appendReply(dst, call, &r)
		})
	}
}

func TestIteratorAllocs(t *testing.T) {
	src := Client{}.AppendPut(nil, 1, []byte("q"), 0, []byte("a"), []byte("b"))
	var put, confirm Request
	Decoder{}.Decode(src, &put)
	Decoder{}.Decode(Client{}.AppendConfirm(nil, 1, []byte("q"), 1, 2), &confirm)
	sum := 0
	got := testing.AllocsPerRun(allocRuns, func() {
		for item := range put.Items.All() {
			sum += len(item)
		}
		items := put.Items
		for item, ok := items.Next(); ok; item, ok = items.Next() {
			sum += len(item)
		}
		for id := range confirm.IDs.All() {
			sum += int(id)
		}
	})
	if got != 0 || sum == 0 {
		t.Errorf("reading items and ids allocates %v times, want 0", got)
	}
}
