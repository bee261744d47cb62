package thrift

// Parts of frames.
const (
	putReply  = `80010002 00000003 "put" 00000001 `
	getReply  = `80010002 00000003 "get" 00000001 `
	peekReply = `80010002 00000004 "peek" 00000001 `
	nopeError = `80010003 00000004 "nope" 00000001 `
)

// decodeReplyTests also seed FuzzDecodeReply.
var decodeReplyTests = []struct {
	name string
	c    Client
	in   string // the body of one frame
	want string // as decodeReplyString has it
}{
	{name: "count", in: putReply + `08 0000 00000005 00`, want: `put seq=1 count=5`},
	{name: "old header", in: `00000003 "put" 02 00000001 08 0000 00000005 00`,
		want: `put seq=1 count=5`},
	{name: "fields of the future",
		in:   putReply + `0b 0001 00000001 "x" 08 0000 00000005 02 0007 01 00`,
		want: `put seq=1 count=5`},
	{name: "count missing", in: putReply + `00`, want: badReply},
	{name: "count of 64 bits", in: putReply + `0a 0000 0000000000000005 00`, want: badReply},
	{name: "count in another field", in: putReply + `08 0001 00000005 00`, want: badReply},
	{name: "count breaks off", in: putReply + `08 0000 0000`, want: badReply},
	{name: "call", in: putHead + queueArg + `00`, want: badReply},
	{name: "message of type 0", in: `80010000 00000003 "put" 00000001 08 0000 00000005 00`,
		want: badReply},
	{name: "reply of an unknown method", in: `80010002 00000004 "nope" 00000001 00`,
		want: badReply},
	{name: "bytes behind the result", in: putReply + `08 0000 00000005 00 ff`,
		want: `put seq=1 count=5`},
	{name: "void", in: `80010002 0000000b "flush_queue" 00000001 00`, want: `flush_queue seq=1`},
	{name: "void with a result",
		in:   `80010002 0000000b "flush_queue" 00000001 08 0000 00000001 00`,
		want: `flush_queue seq=1`},
	{name: "void breaks off", in: `80010002 0000000b "flush_queue" 00000001`, want: badReply},

	{name: "items",
		in: getReply + `0f 0000 0c 00000002 0b 0001 00000001 "a" 0a 0002 00000000000000ff 00
		0b 0001 00000000 0a 0002 0000000000000000 00 00`,
		want: `get seq=1 items=[255:"a" 0:""]`},
	{name: "items with fields left out, swapped and unknown",
		in: getReply + `0f 0000 0c 00000003 00 0a 0002 0000000000000001 0b 0001 00000001 "b" 00
			0f 0009 03 00000001 07 00 00`,
		want: `get seq=1 items=[0:"" 1:"b" 0:""]`},
	{name: "items delivered before",
		in: getReply + `0f 0000 0c 00000003 0b 0001 00000001 "a" 0a 0002 00000000000000ff 08 0003 00000002 00
		08 0003 00000000 00 08 0003 ffffffff 00 00`,
		want: `get seq=1 items=[255:"a" x2 0:"" 0:""]`},
	{name: "deadline", in: `80010002 00000005 "touch" 00000001 0a 0000 0000000000000102 00`, want: `touch seq=1 due=258`},
	{name: "no deadline", in: `80010002 00000005 "touch" 00000001 0a 0000 0000000000000000 00`, want: `touch seq=1 due=0`},
	{name: "deadline of 32 bits", in: `80010002 00000005 "touch" 00000001 08 0000 00000102 00`, want: badReply},
	{name: "released", in: `80010002 00000007 "release" 00000001 08 0000 00000002 00`, want: `release seq=1 count=2`},
	{name: "rejected", in: `80010002 00000006 "reject" 00000001 08 0000 00000002 00`, want: `reject seq=1 count=2`},
	{name: "no items of another type", in: getReply + `0f 0000 00 00000000 00`,
		want: `get seq=1 items=[]`},
	{name: "items that are strings", in: getReply + `0f 0000 0b 00000001 00000001 "a" 00`,
		want: badReply},
	{name: "most items", in: getReply + `0f 0000 0c 7fffffff 00 00`, want: badReply},
	{name: "one item too many", in: getReply + `0f 0000 0c 00000002 00`, want: badReply},
	{name: "negative number of items", in: getReply + `0f 0000 0c ffffffff 00`, want: badReply},
	{name: "item of negative size", in: getReply + `0f 0000 0c 00000001 0b 0001 ffffffff 00 00`,
		want: badReply},
	{name: "items missing", in: getReply + `00`, want: badReply},

	{name: "queue info", in: peekReply + `0c 0000 0b 0001 00000000 0a 0002 0000000000000001
		0a 0003 0000000000000002 0a 0004 0000000000000003 0a 0005 0000000000000004
		08 0006 00000005 08 0007 00000006 02 0008 01 00 00`,
		want: `peek seq=1 info={head "", 1 items, 2 bytes, journal 3, age 4, waiters 5, open 6}`},
	{name: "empty queue info", in: peekReply + `0c 0000 00 00`,
		want: `peek seq=1 info={head none, 0 items, 0 bytes, journal 0, age 0, waiters 0, open 0}`},
	{name: "queue info breaks off", in: peekReply + `0c 0000 0a 0002 00000000`, want: badReply},
	{name: "queue info twice", in: peekReply + `0c 0000 0b 0001 00000000 00 0c 0000 00 00`,
		want: `peek seq=1 info={head none, 0 items, 0 bytes, journal 0, age 0, waiters 0, open 0}`},

	{name: "version", in: `80010002 0000000b "get_version" 00000001 0b 0000 00000003 "3.0" 00`,
		want: `get_version seq=1 version="3.0"`},
	{name: "status", in: `80010002 0000000e "current_status" 00000001 08 0000 00000002 00`,
		want: `current_status seq=1 status=2`},

	{name: "exception", in: nopeError + `0b 0001 00000002 "no" 08 0002 00000001 00`,
		want: `nope seq=1 exception 1 "no"`},
	{name: "exception of a known method",
		in:   `80010003 00000003 "put" 00000001 08 0002 00000006 0b 0001 00000002 "no" 00`,
		want: `put seq=1 exception 6 "no"`},
	{name: "empty exception", in: nopeError + `00`, want: `nope seq=1 exception 0 ""`},
	{name: "exception with fields of the future", in: nopeError + `0c 0003 00 08 0002 00000007 00`,
		want: `nope seq=1 exception 7 ""`},
	{name: "exception breaks off", in: nopeError + `0b 0001 00000003 "no"`, want: badReply},

	{name: "response header", c: Client{Upgraded: true},
		in:   `00` + putReply + `08 0000 00000005 00`,
		want: `put seq=1 count=5`},
	{name: "response header with spans", c: Client{Upgraded: true},
		in:   `0f 0001 0c 00000001 00 00` + putReply + `08 0000 00000005 00`,
		want: `put seq=1 count=5`},
	{name: "response header missing", c: Client{Upgraded: true},
		in: putReply + `08 0000 00000005 00`, want: badReply},
	{name: "header cannot be parsed", in: `80010002 ffffffff`, want: badReply},
}
