package text

import "testing"

const allocRuns = 100

func TestDecodeAllocs(t *testing.T) {
	for _, tt := range decodeTests {
		src := []byte(tt.in)
		var req Request
		for _, src := range [][]byte{src, src[:len(src)-1]} { // whole and incomplete
			got := testing.AllocsPerRun(allocRuns, func() { tt.d.Decode(src, &req) })
			if got != 0 {
				t.Errorf("%s: Decode(%.80q) allocates %v times, want 0", tt.name, src, got)
			}
		}
	}
}

// TestAppendReplyAllocs covers refusals too: an unknown command is worded from the request.
func TestAppendReplyAllocs(t *testing.T) {
	dst := make([]byte, 0, DefaultMaxLine)
	for _, tt := range decodeTests {
		var req Request
		_, err := tt.d.Decode([]byte(tt.in), &req)
		refused, ok := err.(*ProtocolError)
		if !ok {
			continue
		}
		got := testing.AllocsPerRun(allocRuns, func() { refused.AppendReply(dst, &req) })
		if got != 0 {
			t.Errorf("%s: AppendReply allocates %v times, want 0", tt.name, got)
		}
	}
}

func TestDecodeItemAllocs(t *testing.T) {
	d := Decoder{MaxItem: 8}
	for _, in := range []string{"a\n", "\n", "a", "123456789", "123456789\n", "1234567\r\n"} {
		src := []byte(in)
		var at Items
		if got := testing.AllocsPerRun(allocRuns, func() { d.DecodeItem(src, &at) }); got != 0 {
			t.Errorf("DecodeItem(%q) allocates %v times, want 0", in, got)
		}
	}
}

func TestDecodeReplyAllocs(t *testing.T) {
	for _, tt := range decodeReplyTests {
		src, runs := []byte(tt.in), allocRuns
		if len(src) > 1<<20 {
			runs = 2 // it reads all of it
		}
		var r Reply
		if got := testing.AllocsPerRun(runs, func() { DecodeReply(src, &r) }); got != 0 {
			t.Errorf("%s: DecodeReply(%.80q) allocates %v times, want 0", tt.name, tt.in, got)
		}
	}
}

func TestEncodeAllocs(t *testing.T) {
	dst := make([]byte, 0, 1024)
	check := func(name string, encode func([]byte) []byte) {
		if got := testing.AllocsPerRun(allocRuns, func() { encode(dst) }); got != 0 {
			t.Errorf("%s: the encoder allocates %v times, want 0", name, got)
		}
	}
	for _, tt := range replyTests {
		check(tt.name, tt.encode)
	}
	for _, tt := range clientTests {
		check(tt.name, tt.encode)
	}
}
