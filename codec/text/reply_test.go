package text

import (
	"bytes"
	"testing"
)

// replyTests are the replies, written out by hand.
var replyTests = []struct {
	name   string
	encode func(dst []byte) []byte
	want   string
}{
	{"T20 done", constant(ReplyDone), "+0\n"},
	{"T01 none", constant(ReplyNone), "*\n"},
	{"T12 not that many", constant(ReplyNotThatMany), "-Not that many transactions open.\n"},
	{"T23 unknown status", constant(ReplyUnknownStatus), "-Unknown status.\n"},
	{"T23 status forbidden", constant(ReplyStatusForbidden), "-Status forbidden.\n"},
	{
		"T03 count",
		func(dst []byte) []byte { return AppendCount(dst, 3) },
		"+3\n",
	},
	{
		"largest count",
		func(dst []byte) []byte { return AppendCount(dst, 1<<63-1) },
		"+9223372036854775807\n",
	},
	{
		"T01 item",
		func(dst []byte) []byte { return AppendItem(dst, []byte("hello")) },
		":hello\n",
	},
	{
		"empty item, put by another protocol",
		func(dst []byte) []byte { return AppendItem(dst, nil) },
		":\n",
	},
	{
		"item is written as stored",
		func(dst []byte) []byte { return AppendItem(dst, []byte("\x00\n\xff\r")) },
		":\x00\n\xff\r\n",
	},
	{
		"queue",
		func(dst []byte) []byte { return AppendQueue(dst, []byte("work")) },
		":work\n",
	},
	{
		"receipt",
		func(dst []byte) []byte { return AppendReceipt(dst, 1<<64-1) },
		":18446744073709551615\n",
	},
	{
		"what there is to know",
		func(dst []byte) []byte { return AppendMeta(dst, []byte(`{"id":7}`)) },
		":{\"id\":7}\n",
	},
	{
		"item of a list",
		func(dst []byte) []byte { return AppendListed(dst, 7, nil, []byte("hello")) },
		":7\n:hello\n",
	},
	{
		"item of a list, and what there is to know",
		func(dst []byte) []byte { return AppendListed(dst, 7, []byte(`{"id":7}`), []byte("hello")) },
		":7\n:{\"id\":7}\n:hello\n",
	},
	{
		"error",
		func(dst []byte) []byte { return AppendError(dst, "Out of memory.") },
		"-Out of memory.\n",
	},
	{
		"error with line ends and other characters",
		func(dst []byte) []byte { return AppendError(dst, "a\r\n+1\té\x00\x7f\xff\u65e5~") },
		"-a??+1??????~\n",
	},
	{
		"T22 unavailable",
		func(dst []byte) []byte { return AppendUnavailable(dst, "setItem") },
		"-Server not available for operation setItem\n",
	},
	{
		"too many open",
		func(dst []byte) []byte { return AppendTooManyOpen(dst, 0) },
		"-Too many open transactions; limit=0\n",
	},
	{
		"T21 version",
		func(dst []byte) []byte { return AppendVersion(dst, "2.4.1\n") },
		":2.4.1?\n",
	},
	{
		"T22 status",
		func(dst []byte) []byte { return AppendStatus(dst, "ReadOnly") },
		":READONLY\n",
	},
}

func TestReplyGolden(t *testing.T) {
	for _, tt := range replyTests {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.encode, tt.want)
		})
	}
}

// checkGolden checks that encode appends want, whether dst is empty, full or roomy.
func checkGolden(t *testing.T, encode func([]byte) []byte, want string) {
	t.Helper()
	for _, dst := range [][]byte{nil, []byte("before"), make([]byte, 6, 1024)} {
		before := bytes.Clone(dst)
		got := encode(dst)
		if string(got) != string(before)+want {
			t.Errorf("encode(%q) = %q, want %q", before, got, string(before)+want)
		}
	}
}

// constant returns an encoder of a reply that never varies.
func constant(reply string) func([]byte) []byte {
	return func(dst []byte) []byte { return append(dst, reply...) }
}
