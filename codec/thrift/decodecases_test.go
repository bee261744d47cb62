package thrift

import (
	"slices"
	"strings"
)

// Results of decodeString that many cases share.
const (
	badHeader  = "close: message header cannot be parsed"
	badType    = "close: message is not a call"
	truncated  = "close: struct goes beyond the end of its frame"
	putNothing = `put seq=1 "q" items=[] expiry=0`
)

// Parts of frames. What is in quotes stands for itself.
const (
	putHead     = `80010001 00000003 "put" 00000001 `
	getHead     = `80010001 00000003 "get" 00000001 `
	confirmHead = `80010001 00000007 "confirm" 00000001 `
	authHead    = `80010001 0000000c "authenticate" 00000001 `
	statusHead  = `80010001 0000000a "set_status" 00000001 `
	versionHead = `80010001 0000000b "get_version" 00000001 `
	queueArg    = `0b 0001 00000001 "q" `
)

type decodeTest struct {
	name string
	d    Decoder
	in   string // the body of one frame
	want string // as resultString has it
}

// decodeTests also seed FuzzDecode.
var decodeTests = slices.Concat(headerTests, argsTests, skipTests, upgradedTests)

var headerTests = []decodeTest{
	{name: "strict header", in: versionHead + `00`, want: `get_version seq=1`},
	{name: "byte before the message type",
		in:   `80017f01 00000003 "get" 00000001 ` + queueArg + `00`,
		want: `get seq=1 "q" max=0 wait=0 abort=0`},
	{name: "one-way call", in: `80010004 00000004 "peek" 00000001 ` + queueArg + `00`,
		want: `peek seq=1 "q"`},
	{name: "negative sequence id", in: `80010001 00000004 "peek" ffffffff ` + queueArg + `00`,
		want: `peek seq=-1 "q"`},
	{name: "reply", in: `80010002 00000003 "put" 00000001 00`, want: badType},
	{name: "exception", in: `80010003 00000003 "put" 00000001 00`, want: badType},
	{name: "message of type 0", in: `80010000 00000003 "put" 00000001 00`, want: badType},
	{name: "message of type 255", in: `800100ff 00000003 "put" 00000001 00`, want: badType},
	{name: "version 2", in: `80020001 00000003 "put" 00000001 00`,
		want: "close: message of an unknown version"},
	{name: "version of another protocol", in: `82210103 "put" 00`,
		want: "close: message of an unknown version"},
	{name: "old header", in: `00000003 "put" 01 00000001 ` + queueArg + `00`, want: putNothing},
	{name: "old header, reply", in: `00000003 "put" 02 00000001 00`, want: badType},
	{name: "old header without sequence id", in: `00000003 "put" 01 000000`, want: badHeader},
	{name: "old header, name too long for its frame", in: `000000ff "put" 01 00000001 00`,
		want: badHeader},
	{name: "one byte", in: `80`, want: badHeader},
	{name: "version only", in: `80010001`, want: badHeader},
	{name: "name of negative size", in: `80010001 ffffffff "put" 00000001 00`, want: badHeader},
	{name: "name goes beyond the frame", in: `80010001 00000004 "put"`, want: badHeader},
	{name: "no sequence id", in: `80010001 00000003 "put" 000000`, want: badHeader},
	{name: "no arguments", in: putHead, want: truncated},

	{name: "unknown method", in: `80010001 00000004 "nope" 00000002 00`,
		want: `refuse nope seq=2 exception 1 "Invalid method name: 'nope'"`},
	{name: "method in upper case", in: `80010001 00000003 "PUT" 00000001 ` + queueArg + `00`,
		want: `refuse PUT seq=1 exception 1 "Invalid method name: 'PUT'"`},
	{name: "method without name", in: `00000000 01 00000001 00`,
		want: `refuse  seq=1 exception 1 "Invalid method name: ''"`},
	{name: "method that is not UTF-8", in: `80010001 00000003 ff "x" 00 00000001 00`,
		want: "refuse \xffx\x00 seq=1 exception 1 \"Invalid method name: '\\xffx\\x00'\""},
	{name: "method name of the longest length",
		in: `80010001 000000ff "` + strings.Repeat("x", 255) + `" 00000001 00`,
		want: `refuse ` + strings.Repeat("x", 255) + ` seq=1 exception 1 "Invalid method name: '` +
			strings.Repeat("x", 255) + `'"`},
	{name: "method name too long",
		in:   `80010001 00000100 "` + strings.Repeat("x", 256) + `" 00000001 00`,
		want: "close: method name too long"},
	{name: "unknown method, arguments skipped",
		in:   `80010001 00000004 "nope" 00000001 ` + queueArg + `0f 0002 0b 00000000 00`,
		want: `refuse nope seq=1 exception 1 "Invalid method name: 'nope'"`},
	{name: "unknown method, arguments break rules",
		in:   `80010001 00000004 "nope" 00000001 0b 0001 ffffffff 00`,
		want: `refuse nope seq=1 exception 1 "Invalid method name: 'nope'"`},
	{name: "unknown method, arguments break off",
		in: `80010001 00000004 "nope" 00000001 0b 0001 000000ff 00`, want: truncated},
}

var argsTests = []decodeTest{
	{name: "put, all", in: putHead + queueArg + `0f 0002 0b 00000002 00000001 "a" 00000000
		08 0003 fffffffe 00`,
		want: `put seq=1 "q" items=["a" ""] expiry=-2`},
	{name: "put, in another order",
		in: putHead + `08 0003 7fffffff 0f 0002 0b 00000001 00000001 "a"` +
			queueArg + `00`,
		want: `put seq=1 "q" items=["a"] expiry=2147483647`},
	{name: "put, queue only", in: putHead + queueArg + `00`, want: putNothing},
	{name: "put, empty queue name", in: putHead + `0b 0001 00000000 00`,
		want: `put seq=1 "" items=[] expiry=0`},
	{name: "put, queue name in UTF-8", in: putHead + `0b 0001 00000002 "é" 00`,
		want: `put seq=1 "é" items=[] expiry=0`},
	{name: "put, queue name twice", in: putHead + queueArg + `0b 0001 00000002 "r/" 00`,
		want: `put seq=1 "r/" items=[] expiry=0`},
	{name: "put, items twice", in: putHead + queueArg + `0f 0002 0b 00000001 00000001 "a"
		0f 0002 0b 00000001 00000001 "b" 00`,
		want: `put seq=1 "q" items=["b"] expiry=0`},
	{name: "put, bytes behind the arguments", in: putHead + queueArg + `00 0b 0001 ffffffff`,
		want: putNothing},
	{name: "put, empty list of another type", in: putHead + queueArg + `0f 0002 00 00000000 00`,
		want: putNothing},
	{name: "put, items are a set", in: putHead + queueArg + `0e 0002 0b 00000001 00000001 "a" 00`,
		want: putNothing},
	{name: "put, expiry of 64 bits", in: putHead + queueArg + `0a 0003 0000000000000005 00`,
		want: putNothing},
	{name: "put with arguments of the others", in: putHead + queueArg + `08 0001 00000001
		08 0002 00000002 08 0004 00000004 0e 0002 0a 00000000 00`, want: putNothing},
	{name: "get with arguments of the others", in: getHead + queueArg + `08 0001 00000001
		0f 0002 0b 00000001 00000000 0e 0002 0a 00000001 0000000000000001 00`,
		want: `get seq=1 "q" max=0 wait=0 abort=0`},
	{name: "abort with arguments of the others",
		in: `80010001 00000005 "abort" 00000001 ` + queueArg + `08 0001 00000001
			08 0002 00000002 08 0003 00000003 08 0004 00000004 0f 0002 0b 00000001 00000000 00`,
		want: `abort seq=1 "q" ids=[]`},
	{name: "abort with a delay",
		in:   `80010001 00000005 "abort" 00000001 ` + queueArg + `0a 0003 0000000000000000 00`,
		want: `abort seq=1 "q" delay=0 ids=[]`},
	{name: "release with arguments of the others", in: `80010001 00000007 "release" 00000001 ` + queueArg + `
		0e 0002 0a 00000001 0000000000000007 08 0003 00000003 0a 0004 0000000000000003 00`,
		want: `release seq=1 "q" ids=[7]`},
	{name: "release with a delay",
		in:   `80010001 00000007 "release" 00000001 ` + queueArg + `0a 0003 ffffffffffffffff 00`,
		want: `release seq=1 "q" delay=-1 ids=[]`},
	{name: "reject with a delay",
		in:   `80010001 00000006 "reject" 00000001 ` + queueArg + `0a 0003 0000000000000001 00`,
		want: `reject seq=1 "q" ids=[]`},
	{name: "touch", in: `80010001 00000005 "touch" 00000001 ` + queueArg + `0a 0002 0000000000000007 08 0003 00000100 00`,
		want: `touch seq=1 "q" abort=256 id=7`},
	{name: "touch of a set", in: `80010001 00000005 "touch" 00000001 ` + queueArg + `0e 0002 0a 00000000 00`,
		want: `touch seq=1 "q"`},
	{name: "touch without a queue", in: `80010001 00000005 "touch" 00000001 00`,
		want: `refuse touch seq=1 exception 6 "Internal error processing touch: 'queue name missing'"`},
	{name: "get, all",
		in:   getHead + queueArg + `08 0002 00000001 08 0003 00000002 08 0004 00000003 00`,
		want: `get seq=1 "q" max=1 wait=2 abort=3`},
	{name: "get, negative", in: getHead + queueArg + `08 0002 ffffffff 08 0003 80000000 00`,
		want: `get seq=1 "q" max=-1 wait=-2147483648 abort=0`},
	{name: "get, queue only", in: getHead + queueArg + `00`,
		want: `get seq=1 "q" max=0 wait=0 abort=0`},
	{name: "confirm", in: confirmHead + queueArg + `0e 0002 0a 00000003
		0000000000000001 ffffffffffffffff 0000000000000001 00`,
		want: `confirm seq=1 "q" ids=[1 -1 1]`},
	{name: "confirm, queue only", in: confirmHead + queueArg + `00`,
		want: `confirm seq=1 "q" ids=[]`},
	{name: "confirm, empty set of another type",
		in:   confirmHead + queueArg + `0e 0002 0b 00000000 00`,
		want: `confirm seq=1 "q" ids=[]`},
	{name: "confirm, ids are a list",
		in:   confirmHead + queueArg + `0f 0002 0a 00000001 0000000000000001 00`,
		want: `confirm seq=1 "q" ids=[]`},
	{name: "confirm, ids of 32 bits",
		in:   confirmHead + queueArg + `0e 0002 08 00000001 00000001 00`,
		want: `refuse confirm seq=1 exception 7 "elements of the wrong type"`},
	{name: "confirm, ids go beyond the frame",
		in:   confirmHead + queueArg + `0e 0002 0a 00000002 0000000000000001 00`,
		want: truncated},
	{name: "confirm, negative number of ids", in: confirmHead + queueArg + `0e 0002 0a ffffffff 00`,
		want: `refuse confirm seq=1 exception 7 "negative size"`},
	{name: "confirm, most ids", in: confirmHead + queueArg + `0e 0002 0a 7fffffff 00`,
		want: truncated},
	{name: "get_version with arguments", in: versionHead + queueArg + `08 0002 00000001 00`,
		want: `get_version seq=1`},

	{name: "queue name left out", in: putHead + `00`,
		want: `refuse put seq=1 exception 6 "Internal error processing put: 'queue name missing'"`},
	{name: "queue name is a number", in: getHead + `08 0001 00000001 00`,
		want: `refuse get seq=1 exception 6 "Internal error processing get: 'queue name missing'"`},
	{name: "confirm without queue name", in: confirmHead + `00`,
		want: `refuse confirm seq=1 exception 6 ` +
			`"Internal error processing confirm: 'queue name missing'"`},
	{name: "delete_queue without queue name", in: `80010001 0000000c "delete_queue" 00000001 00`,
		want: `refuse delete_queue seq=1 exception 6 ` +
			`"Internal error processing delete_queue: 'queue name missing'"`},

	{name: "authenticate", in: authHead + `0b 0001 00000005 "alice" 0b 0002 00000002 "pw" 00`,
		want: `authenticate seq=1 user="alice" password="pw"`},
	{name: "authenticate the other way round", in: authHead + `0b 0002 00000002 "pw" 0b 0001 00000005 "alice" 00`,
		want: `authenticate seq=1 user="alice" password="pw"`},
	{name: "authenticate without words", in: authHead + `00`, want: `authenticate seq=1 user="" password=""`},
	{name: "set_status quiescent", in: statusHead + `08 0001 00000001 00`,
		want: `set_status seq=1 status=1`},
	{name: "set_status up", in: statusHead + `08 0001 00000003 00`,
		want: `set_status seq=1 status=3`},
	{name: "set_status beyond the enum", in: statusHead + `08 0001 00000004 00`, want: badStatus},
	{name: "set_status negative", in: statusHead + `08 0001 ffffffff 00`, want: badStatus},
	{name: "set_status without status", in: statusHead + `00`, want: badStatus},
	{name: "set_status of another type", in: statusHead + queueArg + `00`, want: badStatus},

	{name: "queue name of negative size", in: putHead + `0b 0001 ffffffff 00`,
		want: `refuse put seq=1 exception 7 "negative size"`},
	{name: "negative number of items", in: putHead + queueArg + `0f 0002 0b 80000000 00`,
		want: `refuse put seq=1 exception 7 "negative size"`},
	{name: "item of negative size", in: putHead + queueArg + `0f 0002 0b 00000001 ffffffff 00`,
		want: `refuse put seq=1 exception 7 "negative size"`},
	{name: "items are numbers", in: putHead + queueArg + `0f 0002 08 00000001 00000001 00`,
		want: `refuse put seq=1 exception 7 "elements of the wrong type"`},
	{name: "queue name goes beyond the frame", in: putHead + `0b 0001 00000003 "qq"`,
		want: truncated},
	{name: "largest queue name", in: putHead + `0b 0001 7fffffff "q"`, want: truncated},
	{name: "most items", in: putHead + queueArg + `0f 0002 0b 7fffffff 00000000 00`,
		want: truncated},
	{name: "one item too many", in: putHead + queueArg + `0f 0002 0b 00000002 00000000 00`,
		want: truncated},
	{name: "first item leaves too little for the second",
		in: putHead + queueArg + `0f 0002 0b 00000002 00000008 "abcdefgh" 00`, want: truncated},
	{name: "last item goes beyond the frame",
		in: putHead + queueArg + `0f 0002 0b 00000001 00000003 "ab"`, want: truncated},
	{name: "largest item", in: putHead + queueArg + `0f 0002 0b 00000001 7fffffff "ab"`,
		want: truncated},
	{name: "list without its count", in: putHead + queueArg + `0f 0002 0b 0000`, want: truncated},
	{name: "no stop byte", in: putHead + queueArg, want: truncated},
	{name: "half a field id", in: putHead + queueArg + `08 00`, want: truncated},
	{name: "half a number", in: putHead + queueArg + `08 0003 0000`, want: truncated},
}

const badStatus = `refuse set_status seq=1 exception 6 ` +
	`"Internal error processing set_status: 'Unknown status.'"`

var upgradedTests = []decodeTest{
	{name: "empty header", d: Decoder{Upgraded: true}, in: `00 ` + versionHead + `00`,
		want: `get_version seq=1 upgraded`},
	{name: "whole header", d: Decoder{Upgraded: true},
		in: `0a 0001 0000000000000001 0a 0002 0000000000000002 0a 0003 0000000000000003
			02 0005 01 0c 0006 0b 0001 00000002 "me" 00 0a 0007 0000000000000000 00` +
			versionHead + `00`,
		want: `get_version seq=1 client="me" upgraded`},
	{name: "client id without name", d: Decoder{Upgraded: true},
		in: `0c 0006 00 00` + versionHead + `00`, want: `get_version seq=1 upgraded`},
	{name: "client id with an empty name", d: Decoder{Upgraded: true},
		in:   `0c 0006 0b 0001 00000000 00 00` + versionHead + `00`,
		want: `get_version seq=1 client="" upgraded`},
	{name: "client id with more fields", d: Decoder{Upgraded: true},
		in:   `0c 0006 02 0002 01 0b 0001 00000001 "x" 08 0001 00000001 00 00` + versionHead + `00`,
		want: `get_version seq=1 client="x" upgraded`},
	{name: "client id is a string", d: Decoder{Upgraded: true},
		in: `0b 0006 00000001 "x" 00` + versionHead + `00`, want: `get_version seq=1 upgraded`},
	{name: "two client ids, the last without name", d: Decoder{Upgraded: true},
		in:   `0c 0006 0b 0001 00000001 "x" 00 0c 0006 00 00` + versionHead + `00`,
		want: `get_version seq=1 upgraded`},
	{name: "header with fields of the future", d: Decoder{Upgraded: true},
		in:   `0f 0009 0c 00000001 00 0d 000a 0b 0b 00000000 00` + versionHead + `00`,
		want: `get_version seq=1 upgraded`},
	{name: "header and an old message header", d: Decoder{Upgraded: true},
		in: `00 00000003 "put" 01 00000001 ` + queueArg + `00`, want: putNothing + ` upgraded`},
	{name: "unknown method after a header", d: Decoder{Upgraded: true},
		in:   `00 80010001 00000004 "nope" 00000001 00`,
		want: `refuse nope seq=1 exception 1 "Invalid method name: 'nope'"`},
	{name: "broken arguments after a header", d: Decoder{Upgraded: true},
		in:   `00 ` + putHead + `0b 0001 ffffffff 00`,
		want: `refuse put seq=1 exception 7 "negative size"`},
	{name: "header breaks off", d: Decoder{Upgraded: true}, in: `0a 0001 00000000`,
		want: badHeader},
	{name: "header breaks rules", d: Decoder{Upgraded: true},
		in: `0b 0001 ffffffff 00` + versionHead + `00`, want: badHeader},
	{name: "no header", d: Decoder{Upgraded: true}, in: versionHead + `00`, want: badHeader},
	{name: "header only", d: Decoder{Upgraded: true}, in: `00`, want: badHeader},
	{name: "header on a plain connection",
		in:   `0a 0001 0000000000000001 00` + versionHead + `00`,
		want: "close: method name too long"},
	{name: "question for an upgrade, with arguments",
		in:   `80010001 0000001b "__can__finagle__trace__v3__" 00000007 0c 0001 00 00`,
		want: `__can__finagle__trace__v3__ seq=7`},
	{name: "question for an upgrade, again", d: Decoder{Upgraded: true},
		in:   `00 80010001 0000001b "__can__finagle__trace__v3__" 00000000 00`,
		want: `__can__finagle__trace__v3__ seq=0 upgraded`},
}
