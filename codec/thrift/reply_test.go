package thrift

import (
	"bytes"
	"testing"
)

// replyTests are the replies that the test vectors lack, and those with a response header, written
// out by hand.
type goldenTest struct {
	name   string
	encode func(dst []byte) []byte
	want   string // one or more frames
}

var replyTests = []goldenTest{
	{
		"count",
		func(dst []byte) []byte {
			return AppendCount(dst, Call{Method: MethodAbort, Seq: -2}, 2147483647)
		},
		`00000019 80010002 00000005 "abort" fffffffe 08 0000 7fffffff 00`,
	},
	{
		"count with a header",
		func(dst []byte) []byte {
			return AppendCount(dst, Call{Method: MethodPut, Seq: 1, Upgraded: true}, 3)
		},
		`00000018 00 80010002 00000003 "put" 00000001 08 0000 00000003 00`,
	},
	{
		"void with a header",
		func(dst []byte) []byte {
			return AppendVoid(dst, Call{Method: MethodFlushQueue, Seq: 1, Upgraded: true})
		},
		`00000019 00 80010002 0000000b "flush_queue" 00000001 00`,
	},
	{
		"upgrade accepted, whatever the sequence id",
		func(dst []byte) []byte { return AppendUpgrade(dst, Call{Method: MethodUpgrade, Seq: 9}) },
		`00000028 80010002 0000001b "__can__finagle__trace__v3__" 00000000 00`,
	},
	{
		"queue info",
		func(dst []byte) []byte {
			return AppendQueueInfo(dst, Call{Method: MethodPeek, Seq: 1}, &QueueInfo{
				HasHead: true, Items: 1, Bytes: 2, JournalBytes: 3, AgeMillis: 4, Waiters: 5,
				OpenReads: -1,
			})
		},
		`00000056 80010002 00000004 "peek" 00000001 0c 0000 0b 0001 00000000
			0a 0002 0000000000000001 0a 0003 0000000000000002 0a 0004 0000000000000003
			0a 0005 0000000000000004 08 0006 00000005 08 0007 ffffffff 00 00`,
	},
	{
		"items, one of them empty, with a header",
		func(dst []byte) []byte {
			start := len(dst)
			dst = BeginItems(dst, Call{Method: MethodGet, Seq: 1, Upgraded: true})
			dst = AppendItem(dst, &Item{Data: []byte("ab"), ID: -1, Deliveries: 1})
			dst = AppendItem(dst, &Item{Data: nil, ID: 0, Deliveries: 3})
			return EndItems(dst, start, 2)
		},
		`00000048 00 80010002 00000003 "get" 00000001 0f 0000 0c 00000002
			0b 0001 00000002 "ab" 0a 0002 ffffffffffffffff 00
			0b 0001 00000000 0a 0002 0000000000000000 08 0003 00000003 00 00`,
	},
	{
		"touch",
		func(dst []byte) []byte { return AppendDeadline(dst, Call{Method: MethodTouch, Seq: 1}, 258) },
		`0000001d 80010002 00000005 "touch" 00000001 0a 0000 0000000000000102 00`,
	},
	{
		"items behind another reply",
		func(dst []byte) []byte {
			dst = AppendVoid(dst, Call{Method: MethodSetStatus, Seq: 1})
			start := len(dst)
			dst = BeginItems(dst, Call{Method: MethodGet, Seq: 2})
			return EndItems(dst, start, 0)
		},
		`00000017 80010002 0000000a "set_status" 00000001 00
		00000018 80010002 00000003 "get" 00000002 0f 0000 0c 00000000 00`,
	},
	{
		"an item with a key, from one of several queues",
		func(dst []byte) []byte {
			start := len(dst)
			dst = BeginItems(dst, Call{Method: MethodGetAny, Seq: 2})
			dst = AppendItem(dst, &Item{Data: []byte("ab"), ID: 5, Deliveries: 2, Key: []byte("K"), Queue: []byte("q")})
			return EndItems(dst, start, 1)
		},
		`00000048 80010002 00000007 "get_any" 00000002 0f 0000 0c 00000001
			0b 0001 00000002 "ab" 0a 0002 0000000000000005 08 0003 00000002 0b 0004 00000001 "K" 0b 0005 00000001 "q" 00 00`,
	},
	{
		"listed items",
		func(dst []byte) []byte {
			start := len(dst)
			dst = BeginItems(dst, Call{Method: MethodBrowse, Seq: 3})
			dst = AppendListed(dst, &Listed{ID: 1, Data: []byte("x"), Added: 2})
			dst = AppendListed(dst, &Listed{ID: 2, Key: []byte("K"), Deliveries: 1, Added: 3, Expires: 4, Due: 5,
				From: []byte("q"), Why: []byte("rejected")})
			return EndItems(dst, start, 2)
		},
		`0000009b 80010002 00000006 "browse" 00000003 0f 0000 0c 00000002
			0a 0001 0000000000000001 0b 0002 00000001 "x" 08 0004 00000000 0a 0005 0000000000000002 00
			0a 0001 0000000000000002 0b 0002 00000000 0b 0003 00000001 "K" 08 0004 00000001 0a 0005 0000000000000003
			0a 0006 0000000000000004 0a 0007 0000000000000005 0b 0008 00000001 "q" 0b 0009 00000008 "rejected" 00 00`,
	},
	{
		"exception instead of items",
		func(dst []byte) []byte {
			start := len(dst)
			call := Call{Method: MethodGet, Seq: 2}
			dst = AppendItem(BeginItems(dst, call), &Item{Data: []byte("x"), ID: 1, Deliveries: 1})
			return AppendException(dst[:start], call, ExceptionInternal, "no")
		},
		`00000020 80010003 00000003 "get" 00000002 0b 0001 00000002 "no" 08 0002 00000006 00`,
	},
	{
		"internal error",
		func(dst []byte) []byte {
			return AppendInternalError(dst, Call{Method: MethodPut, Seq: 1}, "full")
		},
		`00000043 80010003 00000003 "put" 00000001 0b 0001 00000025
			"Internal error processing put: 'full'" 08 0002 00000006 00`,
	},
	{
		"unknown method with a header",
		func(dst []byte) []byte {
			req := Request{Call: Call{Seq: 1, Upgraded: true}, Name: []byte("x")}
			return AppendUnknownMethod(dst, &req)
		},
		`00000035 00 80010003 00000001 "x" 00000001 0b 0001 00000018
			"Invalid method name: 'x'" 08 0002 00000001 00`,
	},
}

// aroundTests are replies with an item that is sent from where it lies.
var aroundTests = []goldenTest{
	{
		"get_any",
		func(dst []byte) []byte {
			it := Item{ID: 5, Deliveries: 2, Key: []byte("K"), Queue: []byte("q")}
			front, behind := AppendItemAround(dst, Call{Method: MethodGetAny, Seq: 2}, &it, 2)
			return append(append(front, "ab"...), behind...)
		},
		`00000048 80010002 00000007 "get_any" 00000002 0f 0000 0c 00000001
			0b 0001 00000002 "ab" 0a 0002 0000000000000005 08 0003 00000002 0b 0004 00000001 "K" 0b 0005 00000001 "q" 00 00`,
	},
	{
		"browse",
		func(dst []byte) []byte {
			it := Listed{ID: 1, Added: 2}
			front, behind := AppendListedAround(dst, Call{Method: MethodBrowse, Seq: 3}, &it, 1)
			return append(append(front, "x"...), behind...)
		},
		`00000041 80010002 00000006 "browse" 00000003 0f 0000 0c 00000001
			0a 0001 0000000000000001 0b 0002 00000001 "x" 08 0004 00000000 0a 0005 0000000000000002 00 00`,
	},
}

func TestReplyAround(t *testing.T) {
	for _, tt := range aroundTests {
		t.Run(tt.name, func(t *testing.T) { checkGolden(t, tt.encode, unhex(t, tt.want)) })
	}
}

func TestReplyGolden(t *testing.T) {
	for _, tt := range replyTests {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.encode, unhex(t, tt.want))
		})
	}
}

// checkGolden checks that encode appends want, whether dst is empty, full or roomy.
func checkGolden(t *testing.T, encode func([]byte) []byte, want []byte) {
	t.Helper()
	for _, dst := range [][]byte{nil, []byte("before"), make([]byte, 6, 1024)} {
		before := bytes.Clone(dst)
		got := encode(dst)
		if !bytes.Equal(got, append(before, want...)) {
			t.Errorf("encode(%q)\n= %x\nwant\n%x", dst, got, append(before, want...))
		}
	}
}

// TestAppendItemOverhead checks what AppendItem adds to an item, as its callers count on it.
func TestAppendItemOverhead(t *testing.T) {
	for _, size := range []int{0, 1, 1000} {
		it := Item{Data: make([]byte, size), ID: 1, Deliveries: 2, Key: []byte("K"), Queue: []byte("q")}
		if got := len(AppendItem(nil, &it)); got != size+2+ItemOverhead {
			t.Errorf("AppendItem of %d bytes appends %d, want %d", size, got, size+2+ItemOverhead)
		}
		listed := Listed{Data: make([]byte, size), Key: []byte("K"), From: []byte("q"), Why: []byte("rejected"), Expires: 1, Due: 1}
		if got := len(AppendListed(nil, &listed)); got != size+10+ListedOverhead {
			t.Errorf("AppendListed of %d bytes appends %d, want %d", size, got, size+10+ListedOverhead)
		}
	}
}
