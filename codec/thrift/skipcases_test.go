package thrift

import "strings"

// skipTests are puts with a field that nobody asked for.
var skipTests = []decodeTest{
	{name: "skip bool", in: skipped(`02 0009 ff`), want: putNothing},
	{name: "skip byte", in: skipped(`03 0009 01`), want: putNothing},
	{name: "skip double", in: skipped(`04 0009 0102030405060708`), want: putNothing},
	{name: "skip i16", in: skipped(`06 0009 0102`), want: putNothing},
	{name: "skip i32", in: skipped(`08 0009 01020304`), want: putNothing},
	{name: "skip i64", in: skipped(`0a 0009 0102030405060708`), want: putNothing},
	{name: "skip string", in: skipped(`0b 0009 00000003 "abc"`), want: putNothing},
	{name: "skip empty string", in: skipped(`0b 0009 00000000`), want: putNothing},
	{name: "skip empty struct", in: skipped(`0c 0009 00`), want: putNothing},
	{name: "skip struct", in: skipped(`0c 0009 02 0001 01 0c 0002 08 0001 00000001 00 00`),
		want: putNothing},
	{name: "skip list of bytes", in: skipped(`0f 0009 03 00000003 010203`), want: putNothing},
	{name: "skip list of strings", in: skipped(`0f 0009 0b 00000002 00000001 "a" 00000000`),
		want: putNothing},
	{name: "skip list of structs", in: skipped(`0f 0009 0c 00000003 00 00 02 0001 01 00`),
		want: putNothing},
	{name: "skip list of lists", in: skipped(`0f 0009 0f 00000002 03 00000001 01 0b 00000000`),
		want: putNothing},
	{name: "skip set of doubles", in: skipped(`0e 0009 04 00000001 0102030405060708`),
		want: putNothing},
	{name: "skip map of numbers", in: skipped(`0d 0009 06 08 00000002 0001 00000001 0002 00000002`),
		want: putNothing},
	{name: "skip map of strings and structs", in: skipped(`0d 0009 0b 0c 00000001 00000001 "k" 00`),
		want: putNothing},
	{name: "skip map of numbers and strings", in: skipped(`0d 0009 03 0b 00000001 01 00000000`),
		want: putNothing},
	{name: "skip map of maps", in: skipped(`0d 0009 03 0d 00000001 01 00 00 00000000`),
		want: putNothing},
	{name: "skip empty collections of no type",
		in:   skipped(`0d 0009 00 00 00000000 0f 0009 00 00000000 0e 0009 ff 00000000`),
		want: putNothing},
	{name: "skip many empty structs", in: skipped(`0f 0009 0c 00000040` + strings.Repeat(`00`, 64)),
		want: putNothing},
	{name: "skip many empty strings",
		in: skipped(`0f 0009 0b 00000040` + strings.Repeat(`00000000`, 64)), want: putNothing},
	{name: "skip many empty lists",
		in: skipped(`0f 0009 0f 00000040` + strings.Repeat(`0b 00000000`, 64)), want: putNothing},
	{name: "skip many empty maps",
		in:   skipped(`0f 0009 0d 00000040` + strings.Repeat(`0b 0b 00000000`, 64)),
		want: putNothing},
	{name: "skip negative id", in: skipped(`08 ffff 00000001`), want: putNothing},
	{name: "skip id 0", in: skipped(`08 0000 00000001`), want: putNothing},
	{name: "skip the deepest structs", in: skipped(nested(maxDepth, `0c 0009 `, `00 `)),
		want: putNothing},
	{name: "skip structs too deep", in: skipped(nested(maxDepth+1, `0c 0009 `, `00 `)),
		want: refusedPut(errDepth)},
	{name: "skip the deepest lists",
		in:   skipped(`0f 0009 ` + nested(maxDepth-1, `0f 00000001 `, ``) + `03 00000001 01`),
		want: putNothing},
	{name: "skip lists too deep by one",
		in:   skipped(`0f 0009 ` + nested(maxDepth, `0f 00000001 `, ``) + `03 00000001 01`),
		want: refusedPut(errDepth)},
	{name: "skip lists too deep", in: skipped(`0f 0009 ` + strings.Repeat(`0f 00000001 `, 1000)),
		want: refusedPut(errDepth)},
	{name: "skip maps too deep",
		in:   skipped(`0d 0009 ` + strings.Repeat(`0d 0d 00000001 `, 1000)),
		want: refusedPut(errDepth)},

	{name: "skip type 1", in: skipped(`01 0009`), want: refusedPut(errType)},
	{name: "skip type 5", in: skipped(`05 0009`), want: refusedPut(errType)},
	{name: "skip type 16", in: skipped(`10 0009 00000000000000000000000000000000`),
		want: refusedPut(errType)},
	{name: "skip type 255", in: skipped(`ff 0009`), want: refusedPut(errType)},
	{name: "skip list of type 0", in: skipped(`0f 0009 00 00000001 01`), want: refusedPut(errType)},
	{name: "skip list of type 1", in: skipped(`0f 0009 01 00000002 0102`),
		want: refusedPut(errType)},
	{name: "skip map with keys of type 1", in: skipped(`0d 0009 01 03 00000001 01`),
		want: refusedPut(errType)},
	{name: "skip map with values of type 1", in: skipped(`0d 0009 03 01 00000001 01`),
		want: refusedPut(errType)},
	{name: "skip struct with a field of type 1", in: skipped(`0c 0009 01 0001 00`),
		want: refusedPut(errType)},
	{name: "skip string of negative size", in: skipped(`0b 0009 ffffffff`),
		want: refusedPut(errNegativeSize)},
	{name: "skip list of negative size", in: skipped(`0f 0009 03 ffffffff`),
		want: refusedPut(errNegativeSize)},
	{name: "skip map of negative size", in: skipped(`0d 0009 03 03 80000000`),
		want: refusedPut(errNegativeSize)},
	{name: "skip string of negative size in a list",
		in: skipped(`0f 0009 0b 00000002 ffffffff 00000000`), want: refusedPut(errNegativeSize)},

	{name: "skip largest string", in: skipped(`0b 0009 7fffffff`), want: truncated},
	{name: "skip largest list of bools", in: skipped(`0f 0009 02 7fffffff`), want: truncated},
	{name: "skip largest list of doubles", in: skipped(`0f 0009 04 7fffffff`), want: truncated},
	{name: "skip largest list of type 1", in: skipped(`0f 0009 01 7fffffff`), want: truncated},
	{name: "skip largest list of structs", in: skipped(`0f 0009 0c 7fffffff`), want: truncated},
	{name: "skip largest list of lists", in: skipped(`0f 0009 0f 7fffffff`), want: truncated},
	{name: "skip largest set of strings", in: skipped(`0e 0009 0b 7fffffff`), want: truncated},
	{name: "skip largest map of bools", in: skipped(`0d 0009 02 02 7fffffff`), want: truncated},
	{name: "skip largest map of type 1", in: skipped(`0d 0009 01 01 7fffffff`), want: truncated},
	{name: "skip largest map of maps", in: skipped(`0d 0009 0d 0d 7fffffff`), want: truncated},
	{name: "skip half a map", in: skipped(`0d 0009 0b 03 00000002 00000001 "k" 01 00000040`),
		want: truncated},
	{name: "skip half a list of strings", in: skipped(`0f 0009 0b 00000002 00000001 "k"`),
		want: truncated},
	{name: "skip half a struct", in: putHead + queueArg + `0c 0009 02 0001`, want: truncated},
	{name: "skip half a bool", in: putHead + queueArg + `02 0009`, want: truncated},
}

// skipped is a put with more fields than it needs.
func skipped(fields string) string { return putHead + fields + queueArg + `00` }

// nested is depth values, each inside the one before it.
func nested(depth int, begin, end string) string {
	return strings.Repeat(begin, depth) + strings.Repeat(end, depth)
}

// refusedPut is the result of decodeString for a put that breaks a rule.
func refusedPut(err *ProtocolError) string {
	return `refuse put seq=1 exception 7 "` + err.Reason + `"`
}

// streamTests hold whole frames. They also seed FuzzDecode.
var streamTests = []struct {
	name, in string
	want     []string
}{
	{
		"H25 two pipelined requests in one segment",
		`0000002d ` + putHead + `0b 0001 00000002 "hp" 0f 0002 0b 00000001 00000001 "x"
			08 0003 00000000 00
		0000002e 80010001 00000003 "get" 00000002 0b 0001 00000002 "hp" 08 0002 00000001
			08 0003 00000000 08 0004 00000000 00`,
		[]string{
			`put seq=1 "hp" items=["x"] expiry=0`, `get seq=2 "hp" max=1 wait=0 abort=0`,
		},
	},
	{
		"a refused call costs one reply",
		`00000011 80010001 00000004 "nope" 00000001 00
		0000001a ` + putHead + `0b 0001 ffffffff 0b 0001 00
		00000018 ` + versionHead + `00`,
		[]string{
			`refuse nope seq=1 exception 1 "Invalid method name: 'nope'"`,
			`refuse put seq=1 exception 7 "negative size"`, `get_version seq=1`,
		},
	},
	{
		"H26 a request header only after the upgrade",
		`00000028 80010001 0000001b "__can__finagle__trace__v3__" 00000000 00
		00000025 0c 0006 0b 0001 00000001 "x" 00 00 ` + versionHead + `00
		00000018 ` + versionHead + `00`,
		[]string{
			`__can__finagle__trace__v3__ seq=0`, `get_version seq=1 client="x" upgraded`, badHeader,
		},
	},
	{
		"nothing after a fatal error",
		`00000010 ` + putHead + `00 0000000f ` + putHead + `00000018 ` + versionHead + `00`,
		[]string{
			`refuse put seq=1 exception 6 "Internal error processing put: 'queue name missing'"`,
			truncated,
		},
	},
	{
		"frame breaks off",
		`00000018 ` + versionHead,
		[]string{"27 bytes left"},
	},
	{
		"memcache request",
		`"get work" 0d0a`,
		[]string{"close: frame too long"},
	},
}
