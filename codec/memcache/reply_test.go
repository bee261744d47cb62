package memcache

import (
	"bytes"
	"math"
	"testing"
)

// replyTests are the replies, written out by hand.
var replyTests = []struct {
	name   string
	encode func(dst []byte) []byte
	want   string
}{
	{"stored", constant(ReplyStored), "STORED\r\n"},
	{"not stored", constant(ReplyNotStored), "NOT_STORED\r\n"},
	{"end", constant(ReplyEnd), "END\r\n"},
	{"deleted", constant(ReplyDeleted), "DELETED\r\n"},
	{"touched", constant(ReplyTouched), "TOUCHED\r\n"},
	{"not found", constant(ReplyNotFound), "NOT_FOUND\r\n"},
	{
		"leased",
		func(dst []byte) []byte {
			return AppendLeased(dst, []byte("q"), 7, []byte("hello"), math.MaxUint64)
		},
		"VALUE q 7 5 18446744073709551615\r\nhello\r\nEND\r\n",
	},
	{
		"meta",
		func(dst []byte) []byte {
			return AppendMeta(dst, []byte("q"), &Meta{ID: 7, Deliveries: 1, Added: 1700000000000})
		},
		"VALUE q/meta 0 45\r\n" + `{"id":7,"deliveries":1,"added":1700000000000}` + "\r\n",
	},
	{
		"longest meta",
		func(dst []byte) []byte {
			return AppendMeta(dst, nil, &Meta{
				ID: math.MaxUint64, Deliveries: math.MinInt64, Added: math.MinInt64, Expires: math.MinInt64,
				Due: math.MinInt64, Receipt: math.MaxUint64,
			})
		},
		"VALUE /meta 0 181\r\n" + `{"id":18446744073709551615,"deliveries":-9223372036854775808,` +
			`"added":-9223372036854775808,"expires":-9223372036854775808,"due":-9223372036854775808,` +
			`"receipt":"18446744073709551615"}` + "\r\n",
	},
	{
		"meta of a dead letter with a key",
		func(dst []byte) []byte {
			return AppendMeta(dst, []byte("q"), &Meta{
				ID: 7, Key: []byte(`a"\ß`), Deliveries: 1, Origin: []byte("caf\xe9"), Why: "rejected",
			})
		},
		"VALUE q/meta 0 87\r\n" + `{"id":7,"key":"a\"\\ß","deliveries":1,"added":0,"origin":"caf\u00e9","why":"rejected"}` + "\r\n",
	},
	{
		"listed",
		func(dst []byte) []byte { return AppendListed(dst, []byte("q"), 17, 7, []byte("hello")) },
		"VALUE q/17 7 5\r\nhello\r\n",
	},
	{"error", constant(ReplyError), "ERROR\r\n"},
	{"client error", constant(ReplyClientError), "CLIENT_ERROR\r\n"},
	{"server error", constant(ReplyServerError), "SERVER_ERROR\r\n"},
	{"flushed all", constant(ReplyFlushedAll), "Flushed all queues.\r\n"},
	{"reloaded", constant(ReplyReloaded), "Reloaded config.\r\n"},
	{
		"value",
		func(dst []byte) []byte { return AppendValue(dst, []byte("work"), 0, []byte("hello")) },
		"VALUE work 0 5\r\nhello\r\nEND\r\n",
	},
	{
		"empty value",
		func(dst []byte) []byte { return AppendValue(dst, []byte("work"), 0, nil) },
		"VALUE work 0 0\r\n\r\nEND\r\n",
	},
	{
		"value with flags, line ends and a Latin-1 name",
		func(dst []byte) []byte {
			return AppendValue(dst, []byte("caf\xe9"), 4294967295, []byte("\x00\r\nEND\r\xff"))
		},
		"VALUE caf\xe9 4294967295 8\r\n\x00\r\nEND\r\xff\r\nEND\r\n",
	},
	{
		"value header and trailer",
		func(dst []byte) []byte {
			dst = AppendValueHeader(dst, []byte("work"), 7, 1<<31-1)
			return append(dst, ValueTrailer...)
		},
		"VALUE work 7 2147483647\r\n\r\nEND\r\n",
	},
	{
		"client error without words",
		func(dst []byte) []byte { return AppendClientError(dst, "") },
		"CLIENT_ERROR\r\n",
	},
	{
		"client error with words",
		func(dst []byte) []byte { return AppendClientError(dst, "line too long") },
		"CLIENT_ERROR line too long\r\n",
	},
	{
		"server error without words",
		func(dst []byte) []byte { return AppendServerError(dst, "") },
		"SERVER_ERROR\r\n",
	},
	{
		"server error with words",
		func(dst []byte) []byte { return AppendServerError(dst, "out of memory") },
		"SERVER_ERROR out of memory\r\n",
	},
	{
		"server error with line ends in its words",
		func(dst []byte) []byte { return AppendServerError(dst, "a\r\nSTORED\r\n\x7f\xe9") },
		"SERVER_ERROR a  STORED   \xe9\r\n",
	},
	{
		"version",
		func(dst []byte) []byte { return AppendVersion(dst, "2.4.1") },
		"VERSION 2.4.1\r\n",
	},
	{
		"count",
		func(dst []byte) []byte { return AppendCount(dst, 1<<63-1) },
		"9223372036854775807\r\n",
	},
	{
		"count of nothing",
		func(dst []byte) []byte { return AppendCount(dst, 0) },
		"0\r\n",
	},
	{
		"status",
		func(dst []byte) []byte { return AppendStatus(dst, "ReadOnly") },
		"READONLY\r\n",
	},
	{
		"stats",
		func(dst []byte) []byte {
			dst = AppendStatInt(dst, "uptime", 12)
			dst = AppendStat(dst, "reserved_memory_ratio", "0.125")
			dst = AppendQueueStatInt(dst, "work+audit", "bytes", 900)
			dst = AppendQueueStat(dst, "work", "children", "work+a,work+b")
			dst = AppendQueueStat(dst, "m79", "children", "")
			return append(dst, ReplyEnd...)
		},
		"STAT uptime 12\r\n" +
			"STAT reserved_memory_ratio 0.125\r\n" +
			"STAT queue_work+audit_bytes 900\r\n" +
			"STAT queue_work_children work+a,work+b\r\n" +
			"STAT queue_m79_children \r\n" +
			"END\r\n",
	},
	{
		"dump_stats",
		func(dst []byte) []byte {
			dst = AppendDumpQueue(dst, "m90")
			dst = AppendDumpEntryInt(dst, "put_items", 1)
			dst = AppendDumpEntryInt(dst, "put_bytes", 3)
			dst = AppendDumpEntry(dst, "children", "m90a,m90b")
			dst = append(dst, DumpQueueEnd...)
			return append(dst, ReplyEnd...)
		},
		"queue 'm90' {\r\n" +
			"  put_items=1\r\n" +
			"  put_bytes=3\r\n" +
			"  children=m90a,m90b\r\n" +
			"}\r\n" +
			"END\r\n",
	},
	{
		"M89 dump_stats of an unknown queue",
		func(dst []byte) []byte {
			dst = AppendDumpQueue(dst, "m89")
			dst = append(dst, DumpNothing...)
			dst = append(dst, DumpQueueEnd...)
			return append(dst, ReplyEnd...)
		},
		"queue 'm89' {\r\n  \r\n}\r\nEND\r\n",
	},
	{
		"dump_config",
		func(dst []byte) []byte {
			dst = AppendDumpQueue(dst, "work")
			dst = AppendDumpEntryInt(dst, "max_items", 1<<31-1)
			dst = AppendDumpEntry(dst, "sync_journal", "never")
			dst = AppendDumpEntry(dst, "move_expired_to", "(none)")
			dst = append(dst, DumpQueueEnd...)
			return append(dst, ReplyEnd...)
		},
		"queue 'work' {\r\n" +
			"  max_items=2147483647\r\n" +
			"  sync_journal=never\r\n" +
			"  move_expired_to=(none)\r\n" +
			"}\r\n" +
			"END\r\n",
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
