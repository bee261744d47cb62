package memcache

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
	{"stored", "STORED\r\n", `STORED`},
	{"not stored", "NOT_STORED\r\n", `NOT_STORED`},
	{"end", "END\r\n", `END`},
	{"deleted", "DELETED\r\n", `DELETED`},
	{"error", "ERROR\r\n", `ERROR`},
	{"error with words", "ERROR no such thing\r\n", `ERROR text="no such thing"`},
	{"client error", "CLIENT_ERROR\r\n", `CLIENT_ERROR`},
	{"client error with words", "CLIENT_ERROR bad line\r\n", `CLIENT_ERROR text="bad line"`},
	{"server error", "SERVER_ERROR\r\n", `SERVER_ERROR`},
	{"server error with words", "SERVER_ERROR out of memory\r\n",
		`SERVER_ERROR text="out of memory"`},
	{"bare line feed", "STORED\n", `STORED`},
	{"value", "VALUE work 0 5\r\nhello\r\nEND\r\n", `VALUE "work" flags=0 data="hello"`},
	{"empty value", "VALUE work 0 0\r\n\r\nEND\r\n", `VALUE "work" flags=0 data=""`},
	{"value with line ends", "VALUE q 4294967295 8\r\n\x00\r\nEND\r\xff\r\nEND\r\n",
		`VALUE "q" flags=4294967295 data="\x00\r\nEND\r\xff"`},
	{"value with cas id", "VALUE q 0 1 99\r\nx\r\nEND\r\n", `VALUE "q" flags=0 data="x" cas=99`},
	{"value with the largest cas id", "VALUE q 0 1 18446744073709551615\r\nx\r\nEND\r\n",
		`VALUE "q" flags=0 data="x" cas=18446744073709551615`},
	{"value with a cas id beyond 64 bits", "VALUE q 0 1 18446744073709551616\r\n", ErrBadReply.Error()},
	{"value with a cas id that is no number", "VALUE q 0 1 x\r\n", ErrBadReply.Error()},
	{"touched", "TOUCHED\r\n", `TOUCHED`},
	{"not found", "NOT_FOUND\r\n", `NOT_FOUND`},
	{"value with too many words", "VALUE q 0 1 99 9\r\n", ErrBadReply.Error()},
	{"value without size", "VALUE q 0\r\n", ErrBadReply.Error()},
	{"value without flags", "VALUE q\r\n", ErrBadReply.Error()},
	{"value without name", "VALUE\r\n", ErrBadReply.Error()},
	{"value with bad flags", "VALUE q x 1\r\n", ErrBadReply.Error()},
	{"value with large flags", "VALUE q 4294967296 1\r\n", ErrBadReply.Error()},
	{"value with bad size", "VALUE q 0 x\r\n", ErrBadReply.Error()},
	{"value with empty size", "VALUE q 0 \r\n", ErrBadReply.Error()},
	{"value with negative size", "VALUE q 0 -1\r\n", ErrBadReply.Error()},
	{"value with size beyond 32 bits", "VALUE q 0 2147483648\r\n", ErrBadReply.Error()},
	{"value with size of 20 digits", "VALUE q 0 18446744073709551617\r\n", ErrBadReply.Error()},
	{"value with wrong trailer", "VALUE q 0 1\r\nxy\r\nEND\r\n"[:21], ErrBadReply.Error()},
	{"value without end", "VALUE q 0 1\r\nx\r\nVALUF", ErrBadReply.Error()},
	{"described value", "VALUE q/meta 0 8\r\n{\"id\":7}\r\nVALUE q 3 1 99\r\nx\r\nEND\r\n",
		`VALUE "q" flags=3 data="x" cas=99 meta="{\"id\":7}"`},
	{"value described twice", "VALUE q/meta 0 1\r\nx\r\nVALUE q/meta 0 1\r\nx\r\nVALUE", ErrBadReply.Error()},
	{"receipt in what describes a value", "VALUE q/meta 0 1 5\r\nx\r\nVALUE", ErrBadReply.Error()},
	{"described value with bad flags", "VALUE q/meta 0 1\r\nx\r\nVALUE q x 0\r\n", ErrBadReply.Error()},
	{"version", "VERSION 2.4.1\r\n", `VERSION text="2.4.1"`},
	{"stat", "STAT queue_work_items 12\r\n", `STAT text="queue_work_items 12"`},
	{"stat without value", "STAT queue_m79_children \r\n", `STAT text="queue_m79_children "`},
	{"count", "17\r\n", `text text="17"`},
	{"server status", "READONLY\r\n", `text text="READONLY"`},
	{"flushed all", "Flushed all queues.\r\n", `text text="Flushed all queues."`},
	{"dump line", "queue 'work' {\r\n", `text text="queue 'work' {"`},
	{"dump entry", "  items=1\r\n", `text text="  items=1"`},
	{"empty line", "\r\n", `text`},
	{"status word and more", "STORED items\r\n", `text text="STORED items"`},
	{"status word in lower case", "stored\r\n", `text text="stored"`},
	{"line too long", strings.Repeat("x", MaxReplyLine), ErrBadReply.Error()},
}

func TestDecodeReply(t *testing.T) {
	for _, tt := range decodeReplyTests {
		t.Run(tt.name, func(t *testing.T) {
			got, n := decodeReplyString(tt.in)
			if got != tt.want {
				t.Errorf("DecodeReply(%.80q) = %s, want %s", tt.in, got, tt.want)
			}
			wantN := len(tt.in)
			if tt.want == ErrBadReply.Error() {
				wantN = 0
			}
			if n != wantN {
				t.Errorf("DecodeReply(%.80q) consumed %d bytes, want %d", tt.in, n, wantN)
			}
			step := max(1, len(tt.in)/100)
			for i := 0; i < len(tt.in); i += step {
				got, n := decodeReplyString(tt.in[:i])
				if got != ErrIncomplete.Error() || n != 0 {
					t.Fatalf("DecodeReply(%.80q) = %s, %d bytes, want %v",
						tt.in[:i], got, n, ErrIncomplete)
				}
			}
			if got, n := decodeReplyString(tt.in + ReplyEnd); got != tt.want || n != wantN {
				t.Errorf("DecodeReply(%.80q) = %s, %d bytes, want %s, %d bytes",
					tt.in+ReplyEnd, got, n, tt.want, wantN)
			}
		})
	}
}

// TestDecodeReplyMonitor reads the answer to M49's monitor: each item has its own END, and one more
// ends the stream.
func TestDecodeReplyMonitor(t *testing.T) {
	in := "VALUE m49 0 1\r\na\r\nEND\r\nVALUE m49 0 1\r\nb\r\nEND\r\nEND\r\n"
	want := []string{`VALUE "m49" flags=0 data="a"`, `VALUE "m49" flags=0 data="b"`, `END`}
	for _, want := range want {
		got, n := decodeReplyString(in)
		if got != want {
			t.Errorf("DecodeReply(%q) = %s, want %s", in, got, want)
		}
		in = in[n:]
	}
	if in != "" {
		t.Errorf("left over: %q", in)
	}
}

func TestDecodeReplyNeed(t *testing.T) {
	const line, in = "VALUE q 0 1\r\n", "VALUE q 0 1\r\nx\r\nEND\r\n"
	for i := range len(in) {
		var r Reply
		_, err := DecodeReply([]byte(in[:i]), &r)
		want := 0
		if len(line) <= i {
			want = len(in)
		}
		if r.Need != want || err != ErrIncomplete {
			t.Errorf("DecodeReply(%q): Need = %d, error %v, want Need %d",
				in[:i], r.Need, err, want)
		}
	}
}

func TestKindString(t *testing.T) {
	for kind := KindStored; kind <= KindNotFound; kind++ {
		if got := lookupKind([]byte(kind.String())); got != kind {
			t.Errorf("lookupKind(%s) = %v, want %v", kind, got, kind)
		}
	}
	for _, kind := range []Kind{0, KindNotFound + 1} {
		if got := kind.String(); got != "unknown" {
			t.Errorf("Kind(%d).String() = %q, want unknown", kind, got)
		}
	}
}

// decodeReplyString decodes the reply at the start of in and returns it, or the error, as text.
func decodeReplyString(in string) (string, int) {
	var r Reply
	n, err := DecodeReply([]byte(in), &r)
	return replyResultString(&r, err), n
}

// replyResultString returns what DecodeReply returned as text.
func replyResultString(r *Reply, err error) string {
	if err != nil {
		return err.Error()
	}
	s := r.Kind.String()
	if r.Kind == KindValue {
		s += fmt.Sprintf(" %q flags=%d data=%q", r.Queue, r.Flags, r.Data)
	}
	if r.CAS != 0 {
		s += fmt.Sprintf(" cas=%d", r.CAS)
	}
	if r.Meta != nil {
		s += fmt.Sprintf(" meta=%q", r.Meta)
	}
	if len(r.Text) > 0 {
		s += fmt.Sprintf(" text=%q", r.Text)
	}
	if r.Need != 0 {
		s += fmt.Sprintf(" need=%d", r.Need)
	}
	return s
}
