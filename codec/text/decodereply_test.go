package text

import (
	"fmt"
	"strings"
	"testing"
)

// decodeReplyTests also seed FuzzDecodeReply.
var decodeReplyTests = []struct {
	name, in string // one reply; every proper prefix of it is incomplete
	want     string // as decodeReplyString has it
}{
	{"count", "+3\n", `count 3`},
	{"count of nothing", "+0\n", `count 0`},
	{"count of 18 digits", "+999999999999999999\n", `count 999999999999999999`},
	{"count of 19 digits", "+1000000000000000000\n", badReply},
	{"count without digits", "+\n", badReply},
	{"negative count", "+-1\n", badReply},
	{"count with carriage return", "+1\r\n", badReply},
	{"error", "-Unknown status.\n", `error "Unknown status."`},
	{"error without words", "-\n", `error ""`},
	{"item", ":hello\n", `item "hello"`},
	{"empty item", ":\n", `item ""`},
	{"item that ends in a carriage return", ":a\r\n", `item "a\r"`},
	{"item that looks like a reply", ":*\n", `item "*"`},
	{"none", "*\n", `none`},
	{"none and more", "*x\n", badReply},
	{"empty line", "\n", badReply},
	{"unknown first byte", "STORED\n", badReply},
	{"line too long", strings.Repeat(":", MaxReplyLine), badReply},
}

const badReply = "text: malformed reply"

func TestDecodeReply(t *testing.T) {
	for _, tt := range decodeReplyTests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in) // once: one has 32 MiB
			got, n := decodeReplyString(in)
			if got != tt.want {
				t.Errorf("DecodeReply(%.80q) = %s, want %s", tt.in, got, tt.want)
			}
			wantN := len(tt.in)
			if tt.want == badReply {
				wantN = 0
			}
			if n != wantN {
				t.Errorf("DecodeReply(%.80q) consumed %d bytes, want %d", tt.in, n, wantN)
			}
			step := max(1, len(tt.in)/10)
			for i := 0; i < len(tt.in); i += step {
				got, n := decodeReplyString(in[:i])
				if got != ErrIncomplete.Error() || n != 0 {
					t.Fatalf("DecodeReply(%.80q) = %s, %d bytes, want %v",
						tt.in[:i], got, n, ErrIncomplete)
				}
			}
			got, n = decodeReplyString([]byte(tt.in + ReplyNone))
			if got != tt.want || n != wantN {
				t.Errorf("DecodeReply(%.80q) = %s, %d bytes, want %s, %d bytes",
					tt.in+ReplyNone, got, n, tt.want, wantN)
			}
		})
	}
}

// TestDecodeReplyMonitor reads the answer to T14's monitor.
func TestDecodeReplyMonitor(t *testing.T) {
	in := "+2\n:a\n:b\n*\n"
	for _, want := range []string{`count 2`, `item "a"`, `item "b"`, `none`} {
		got, n := decodeReplyString([]byte(in))
		if got != want {
			t.Errorf("DecodeReply(%q) = %s, want %s", in, got, want)
		}
		in = in[n:]
	}
	if in != "" {
		t.Errorf("left over: %q", in)
	}
}

func TestKindString(t *testing.T) {
	for kind, want := range map[Kind]string{
		KindCount: "count", KindError: "error", KindItem: "item", KindNone: "none",
		0: "unknown", KindNone + 1: "unknown",
	} {
		if got := kind.String(); got != want {
			t.Errorf("Kind(%d).String() = %q, want %q", kind, got, want)
		}
	}
}

// decodeReplyString decodes the reply at the start of in and returns it, or the error, as text.
func decodeReplyString(in []byte) (string, int) {
	var r Reply
	n, err := DecodeReply(in, &r)
	return replyResultString(&r, err), n
}

// replyResultString returns what DecodeReply returned as text.
func replyResultString(r *Reply, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case r.Kind == KindCount:
		return fmt.Sprintf("%v %d", r.Kind, r.Count)
	case r.Kind == KindNone:
		return r.Kind.String()
	}
	return fmt.Sprintf("%v %q", r.Kind, r.Data)
}

func quote(b []byte) string { return fmt.Sprintf("%q", b) }
