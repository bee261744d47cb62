package text

import (
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
		"T03 put",
		func(dst []byte) []byte {
			return AppendPut(dst, []byte("t03"), []byte("a"), []byte("b"), []byte("c"))
		},
		"put t03:\na\nb\nc\n\n",
	},
	{
		"put of nothing",
		func(dst []byte) []byte { return AppendPut(dst, []byte("q")) },
		"put q:\n\n",
	},
	{
		"T19 put with expiry",
		func(dst []byte) []byte {
			return AppendPutExpiring(dst, []byte("t19"), 0, []byte("x"))
		},
		"put t19 0:\nx\n\n",
	},
	{
		"put item by item",
		func(dst []byte) []byte {
			dst = AppendRequest(dst, &Request{Op: OpPut, Queue: []byte("q"), ItemsFollow: true})
			dst = AppendPutItem(dst, []byte("a"))
			dst = AppendPutItem(dst, []byte("b"))
			return append(dst, PutEnd...)
		},
		"put q:\na\nb\n\n",
	},
	{
		"get",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q"), 0) },
		"get q\n",
	},
	{
		"T17 get that waits",
		func(dst []byte) []byte { return AppendGet(dst, []byte("t17"), 5000) },
		"get t17 5000\n",
	},
	{
		"get from a queue whose name ends in a colon",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q:"), 0) },
		"get q: \n",
	},
	{
		"get from a queue whose name ends in a carriage return",
		func(dst []byte) []byte { return AppendGet(dst, []byte("q\r"), 0) },
		"get q\r \n",
	},
	{
		"peek",
		func(dst []byte) []byte { return AppendPeek(dst, []byte("q"), -1) },
		"peek q -1\n",
	},
	{
		"monitor",
		func(dst []byte) []byte { return AppendMonitor(dst, []byte("q"), 0) },
		"monitor q 0\n",
	},
	{
		"confirm",
		func(dst []byte) []byte { return AppendConfirm(dst, []byte("q"), 2) },
		"confirm q 2\n",
	},
	{
		"flush",
		func(dst []byte) []byte { return AppendCommand(dst, OpFlush, []byte("q")) },
		"flush q\n",
	},
	{
		"status",
		func(dst []byte) []byte { return AppendCommand(dst, OpStatus, nil) },
		"status\n",
	},
	{
		"status with a name",
		func(dst []byte) []byte { return AppendCommand(dst, OpStatus, []byte("up")) },
		"status up\n",
	},
	{
		"version",
		func(dst []byte) []byte { return AppendCommand(dst, OpVersion, nil) },
		"version\n",
	},
}

func TestClientGolden(t *testing.T) {
	for _, tt := range clientTests {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.encode, tt.want)
		})
	}
}

func TestValidItem(t *testing.T) {
	for _, item := range []string{"", "\n", "a\nb", "\r", "a\r"} {
		if ValidItem([]byte(item)) {
			t.Errorf("ValidItem(%q) = true, want false", item)
		}
	}
	for _, item := range []string{"a", " ", ":", "\ra", "\x00\xff"} {
		if !ValidItem([]byte(item)) {
			t.Errorf("ValidItem(%q) = false, want true", item)
		}
	}
}

// TestAppendRequest checks that every request decodes to itself, and every item, in a pipeline that
// arrives in arbitrary pieces.
func TestAppendRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 8).Draw(t, "requests")
		var stream []byte
		want := ""
		line := func(s string) {
			if want != "" {
				want += "\n"
			}
			want += s
		}
		for i := range requests {
			stream = AppendRequest(stream, &requests[i])
			line(requestString(&requests[i]))
			if !requests[i].ItemsFollow {
				continue
			}
			for _, item := range rapid.SliceOf(rapid.Custom(drawItem)).Draw(t, "items") {
				stream = AppendPutItem(stream, item)
				line("item " + quote(item))
			}
			stream = append(stream, PutEnd...)
			line("end")
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
		if c == ' ' || c == '\n' || isControl(c) {
			c = ':'
		}
		return c
	}), 1, 20).Draw(t, "name")
	req := Request{
		Op:          Op(rapid.IntRange(int(OpPut), int(OpAuth)).Draw(t, "op")),
		ItemsFollow: rapid.Bool().Draw(t, "follow"),
	}
	if req.Op <= OpDelete || req.Op >= OpTouch && req.Op < OpAuth {
		req.Queue = name
	}
	switch req.Op {
	case OpPut:
		if req.HasExpiry = rapid.Bool().Draw(t, "expires"); req.HasExpiry {
			req.ExpiryMillis = rapid.Int32().Draw(t, "expiry")
		}
		drawDelay(t, &req)
	case OpGet:
		req.WaitMillis = rapid.Int32().Draw(t, "wait")
		if req.HasLease = rapid.Bool().Draw(t, "leased"); req.HasLease {
			req.LeaseMillis = rapid.Int64Range(0, maxMillis).Draw(t, "lease")
		}
	case OpTouch:
		req.Receipt = rapid.Uint64Min(1).Draw(t, "receipt")
		req.LeaseMillis = rapid.Int64Range(1, maxMillis).Draw(t, "lease")
	case OpAbort, OpRelease:
		req.Receipt = rapid.Uint64().Draw(t, "receipt")
		drawDelay(t, &req)
	case OpReject:
		req.Receipt = rapid.Uint64().Draw(t, "receipt")
	case OpPeek, OpMonitor:
		req.WaitMillis = rapid.Int32().Draw(t, "wait")
	case OpConfirm:
		if req.Receipt = rapid.Uint64().Draw(t, "receipt"); req.Receipt != 0 {
			break
		}
		req.Count = rapid.Int32().Draw(t, "count")
	case OpAuth:
		req.User, req.Password = name, name
	case OpStatus:
		if rapid.Bool().Draw(t, "named") {
			req.Status = name
		}
	}
	return req
}

func drawDelay(t *rapid.T, req *Request) {
	if req.HasDelay = rapid.Bool().Draw(t, "delayed"); req.HasDelay {
		req.DelayMillis = rapid.Int64Range(0, maxMillis).Draw(t, "delay")
	}
}

// drawItem draws an item that can be put.
func drawItem(t *rapid.T) []byte {
	item := rapid.SliceOf(rapid.Byte()).Filter(ValidItem).Draw(t, "item")
	return item
}
