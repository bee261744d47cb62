package memcache

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

func TestDecodeReplyAllocs(t *testing.T) {
	for _, tt := range decodeReplyTests {
		src := []byte(tt.in)
		var r Reply
		if got := testing.AllocsPerRun(allocRuns, func() { DecodeReply(src, &r) }); got != 0 {
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

func TestWordsAllocs(t *testing.T) {
	args := []byte("a b c")
	sum := 0
	got := testing.AllocsPerRun(allocRuns, func() {
		for word := range Words(args) {
			sum += len(word)
		}
	})
	if got != 0 {
		t.Errorf("Words allocates %v times, want 0", got)
	}
}
