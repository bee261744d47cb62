package memcache

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// clientTests are the requests a client sends, written out by hand.
var clientTests = []struct {
	name   string
	encode func(dst []byte) []byte
	want   string
}{
	{
		"set",
		func(dst []byte) []byte { return AppendSet(dst, []byte("q"), 0, 0, []byte("hello")) },
		"set q 0 0 5\r\nhello\r\n",
	},
	{
		"set with flags and expiry",
		func(dst []byte) []byte { return AppendSet(dst, []byte("q"), 4294967295, -1, nil) },
		"set q 4294967295 -1 0\r\n\r\n",
	},
	{
		"set header",
		func(dst []byte) []byte { return AppendSetHeader(dst, []byte("q"), 1, 60, 1024, true) },
		"set q 1 60 1024 noreply\r\n",
	},
	{
		"get",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q"), GetOptions{}) },
		"get q\r\n",
	},
	{
		"get with close, open and wait",
		func(dst []byte) []byte {
			options := GetOptions{Open: true, Close: true, WaitMillis: 1000}
			return AppendGet(dst, []byte("q"), options)
		},
		"get q/t=1000/close/open\r\n",
	},
	{
		"get with abort",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q"), GetOptions{Abort: true}) },
		"get q/abort\r\n",
	},
	{
		"get with peek",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q"), GetOptions{Peek: true}) },
		"get q/peek\r\n",
	},
	{
		"monitor",
		func(dst []byte) []byte { return AppendMonitor(dst, []byte("q"), 10, 100) },
		"monitor q 10 100\r\n",
	},
	{
		"monitor with the server's limit",
		func(dst []byte) []byte {
			return AppendRequest(dst, &Request{Op: OpMonitor, Queue: []byte("q"), Seconds: 10})
		},
		"monitor q 10\r\n",
	},
	{
		"confirm",
		func(dst []byte) []byte { return AppendConfirm(dst, []byte("q"), 100) },
		"confirm q 100\r\n",
	},
	{
		"delete",
		func(dst []byte) []byte { return AppendCommand(dst, OpDelete, []byte("q")) },
		"delete q\r\n",
	},
	{
		"delete without reply",
		func(dst []byte) []byte {
			return AppendRequest(dst, &Request{Op: OpDelete, Queue: []byte("q"), NoReply: true})
		},
		"delete q noreply\r\n",
	},
	{
		"flush",
		func(dst []byte) []byte { return AppendCommand(dst, OpFlush, []byte("q")) },
		"flush q\r\n",
	},
	{
		"flush_expired",
		func(dst []byte) []byte { return AppendCommand(dst, OpFlushExpired, []byte("q")) },
		"flush_expired q\r\n",
	},
	{
		"status change",
		func(dst []byte) []byte { return AppendCommand(dst, OpStatus, []byte("readonly")) },
		"status readonly\r\n",
	},
	{
		"dump_stats",
		func(dst []byte) []byte { return AppendCommand(dst, OpDumpStats, []byte("a b")) },
		"dump_stats a b\r\n",
	},
	{
		"set with a delay",
		func(dst []byte) []byte {
			return AppendSetDelayed(dst, []byte("q"), 5000, 0, 0, []byte("hello"))
		},
		"set q/delay=5000 0 0 5\r\nhello\r\n",
	},
	{
		"gets with a lease",
		func(dst []byte) []byte {
			options := GetOptions{CAS: true, Lease: true, LeaseMillis: 30000, WaitMillis: 1000, Meta: true}
			return AppendGet(dst, []byte("q"), options)
		},
		"gets q/t=1000/lease=30000/meta\r\n",
	},
	{
		"get with the queue's lease",
		func(dst []byte) []byte {
			return AppendGet(dst, []byte("q"), GetOptions{Lease: true, Close: true})
		},
		"get q/close/lease\r\n",
	},
	{
		"close a lease",
		func(dst []byte) []byte {
			return AppendGet(dst, []byte("q"), GetOptions{Close: true, Receipt: math.MaxUint64})
		},
		"get q/close=18446744073709551615\r\n",
	},
	{
		"abort a lease with a delay",
		func(dst []byte) []byte {
			return AppendGet(dst, []byte("q"), GetOptions{Abort: true, Receipt: 7, Delay: true, DelayMillis: 300})
		},
		"get q/abort=7/delay=300\r\n",
	},
	{
		"release a lease",
		func(dst []byte) []byte {
			return AppendGet(dst, []byte("q"), GetOptions{Release: true, Receipt: 7})
		},
		"get q/release=7\r\n",
	},
	{
		"reject",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q"), GetOptions{Reject: true}) },
		"get q/reject\r\n",
	},
	{
		"touch",
		func(dst []byte) []byte { return AppendTouch(dst, []byte("q"), 7, 30) },
		"touch q/lease=7 30\r\n",
	},
	{
		"touch the oldest",
		func(dst []byte) []byte { return AppendTouch(dst, []byte("q"), 0, 30) },
		"touch q/lease 30\r\n",
	},
	{
		"delete a lease",
		func(dst []byte) []byte {
			return AppendRequest(dst, &Request{Op: OpDelete, Queue: []byte("q"), Receipt: 7})
		},
		"delete q/lease=7\r\n",
	},
	{"status", command(OpStatus), "status\r\n"},
	{"flush_all", command(OpFlushAll), "flush_all\r\n"},
	{"flush_all_expired", command(OpFlushAllExpired), "flush_all_expired\r\n"},
	{"stats", command(OpStats), "stats\r\n"},
	{"dump_config", command(OpDumpConfig), "dump_config\r\n"},
	{"version", command(OpVersion), "version\r\n"},
	{"reload", command(OpReload), "reload\r\n"},
	{"shutdown", command(OpShutdown), "shutdown\r\n"},
	{"quit", command(OpQuit), "quit\r\n"},
}

func TestClientGolden(t *testing.T) {
	for _, tt := range clientTests {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.encode, tt.want)
		})
	}
}

// TestAppendRequest checks that every request decodes to itself, in a pipeline that arrives in
// arbitrary pieces.
func TestAppendRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 8).Draw(t, "requests")
		var stream []byte
		want := ""
		for i := range requests {
			stream = AppendRequest(stream, &requests[i])
			if i > 0 {
				want += "\n"
			}
			want += requestString(&requests[i])
		}
		var pieces [][]byte
		for rest := stream; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if got := transcript(Decoder{}, pieces...); got != want {
			t.Fatalf("Decode(%q):\ngot\n%s\nwant\n%s", stream, got, want)
		}
	})
}

// drawRequest draws a request that can be encoded.
func drawRequest(t *rapid.T) Request {
	name := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) byte {
		c := rapid.Byte().Draw(t, "byte")
		if c == ' ' || c == '\n' || c == '\r' || c == '/' || c == '+' {
			c = 'x'
		}
		return c
	}), 1, 20).Draw(t, "name")
	req := Request{Op: Op(rapid.IntRange(int(OpGet), int(OpTouch)).Draw(t, "op"))}
	switch req.Op {
	case OpGet:
		req.Queue = name
		req.WaitMillis = rapid.Int32().Draw(t, "wait")
		req.CAS = rapid.Bool().Draw(t, "gets")
		switch rapid.IntRange(0, 5).Draw(t, "options") {
		case 0:
			req.Open = rapid.Bool().Draw(t, "open")
			req.Close = rapid.Bool().Draw(t, "close")
		case 1:
			req.Abort = true
		case 2:
			req.Peek = true
		case 3:
			req.HasLease = true
			req.LeaseMillis = rapid.Int64Range(0, maxMillis).Draw(t, "lease")
			req.Close = rapid.Bool().Draw(t, "close")
			req.Meta = rapid.Bool().Draw(t, "meta")
		case 4:
			req.Receipt = rapid.Uint64().Draw(t, "receipt")
			*rapid.SampledFrom([]*bool{&req.Abort, &req.Release}).Draw(t, "how") = true
			if req.HasDelay = rapid.Bool().Draw(t, "delayed"); req.HasDelay {
				req.DelayMillis = rapid.Int64Range(0, maxMillis).Draw(t, "delay")
			}
		}
	case OpSet:
		req.Queue = name
		req.Flags = rapid.Uint32().Draw(t, "flags")
		req.Expiry = int64(rapid.Int32().Draw(t, "expiry"))
		req.Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		req.NoReply = rapid.Bool().Draw(t, "noreply")
		if req.HasDelay = rapid.Bool().Draw(t, "delayed"); req.HasDelay {
			req.DelayMillis = rapid.Int64Range(0, maxMillis).Draw(t, "delay")
		}
	case OpTouch:
		req.Queue = name
		req.Receipt = rapid.Uint64().Draw(t, "receipt")
		req.Seconds = rapid.Int32Range(1, math.MaxInt32).Draw(t, "seconds")
		req.NoReply = rapid.Bool().Draw(t, "noreply")
	case OpMonitor:
		req.Queue = name
		req.Seconds = rapid.Int32().Draw(t, "seconds")
		if req.HasMaxItems = rapid.Bool().Draw(t, "limited"); req.HasMaxItems {
			req.MaxItems = rapid.Int32().Draw(t, "max")
		}
	case OpConfirm:
		req.Queue = name
		req.Count = rapid.Int32().Draw(t, "count")
	case OpDelete:
		req.Queue = name
		req.Receipt = rapid.Uint64().Draw(t, "receipt")
		req.NoReply = rapid.Bool().Draw(t, "noreply")
	case OpFlush, OpFlushExpired:
		req.Queue = name
	case OpFlushAll:
		req.NoReply = rapid.Bool().Draw(t, "noreply")
	case OpStatus, OpDumpStats, OpDumpConfig:
		if rapid.Bool().Draw(t, "named") {
			req.Args = name
		}
	}
	return req
}

// command returns an encoder of a command without words.
func command(op Op) func([]byte) []byte {
	return func(dst []byte) []byte { return AppendCommand(dst, op, nil) }
}
