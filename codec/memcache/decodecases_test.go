package memcache

import (
	"slices"
	"strings"
)

// Results of decodeString that many cases share.
const (
	badFlags    = `reply "CLIENT_ERROR\r\n": flags are not a 32-bit number`
	missing     = `reply "CLIENT_ERROR\r\n": missing argument`
	plusName    = `reply "CLIENT_ERROR\r\n": queue name of plus signs only`
	slashKey    = `reply "CLIENT_ERROR\r\n": get key of slashes only`
	badCount    = `close "CLIENT_ERROR\r\n": byte count is not a number from 0 to 2147483647`
	badExpiry   = `close "CLIENT_ERROR\r\n": expiry is not a 32-bit number`
	badOptions  = `close "CLIENT_ERROR\r\n": get options contradict each other`
	badWait     = `close "CLIENT_ERROR\r\n": get wait time is not a 32-bit number`
	badMonitor  = `close "CLIENT_ERROR\r\n": monitor argument is not a 32-bit number`
	badConfirm  = `close "CLIENT_ERROR\r\n": confirm count is not a 32-bit number`
	emptyName   = `close "CLIENT_ERROR\r\n": get with an empty queue name`
	emptyLine   = `close "CLIENT_ERROR\r\n": empty request line`
	longLine    = `close "CLIENT_ERROR\r\n": request line too long`
	setWords    = `close "CLIENT_ERROR\r\n": set without queue, flags, expiry and byte count`
	unknown     = `close "CLIENT_ERROR\r\n": unknown command`
	foreign     = `close "CLIENT_ERROR\r\n": not a request of the memcache protocol`
	unsupported = `close "CLIENT_ERROR\r\n": storage command other than set`
	setQ        = `set "q" flags=0 expiry=0 data="x"`
)

type decodeTest struct {
	name string
	d    Decoder
	in   string // one request; every proper prefix of it is incomplete
	want string // as resultString has it
}

// decodeTests also seed FuzzDecode. A name that starts with M and a number is that of a test vector
// of the protocol.
var decodeTests = slices.Concat(storeTests, argsTests, leaseTests, keyTests)

// storeTests are the decodeTests of framing and of commands with a body.
var storeTests = []decodeTest{
	// Framing.
	{name: "M01 set", in: "set m01 0 0 5\r\nhello\r\n",
		want: `set "m01" flags=0 expiry=0 data="hello"`},
	{name: "M01 get", in: "get m01\r\n", want: `get "m01"`},
	{name: "M02 command in upper case", in: "SET m02 0 0 1\r\nx\r\n",
		want: `set "m02" flags=0 expiry=0 data="x"`},
	{name: "M02 command in mixed case", in: "gEt m02\r\n", want: `get "m02"`},
	{name: "M02 name keeps its case", in: "Get M02\r\n", want: `get "M02"`},
	{name: "M03 bare line feed", in: "get m03\n", want: `get "m03"`},
	{name: "set with bare line feed", in: "set q 0 0 1\nx\r\n", want: setQ},
	{name: "two carriage returns", in: "get q\r\r\n", want: `get "q\r"`},
	{name: "carriage return inside a line", in: "get q\rx\r\n", want: `get "q\rx"`},
	{name: "trailing space", in: "get q \r\n", want: `get "q"`},
	{name: "trailing spaces", in: "get q   \r\n", want: `get "q"`},
	{name: "space after a carriage return", in: "get q\r \r\n", want: `get "q\r"`},
	{name: "set with trailing space", in: "set q 0 0 1 \r\nx\r\n", want: setQ},
	{name: "tab is part of a word", in: "get\tq\r\n", want: unknown},
	{name: "name with a tab", in: "get a\tb\r\n", want: `get "a\tb"`},
	{name: "leading space", in: " get q\r\n", want: unknown},
	{name: "M14 empty line", in: "\r\n", want: emptyLine},
	{name: "line feed only", in: "\n", want: emptyLine},
	{name: "space only", in: " \r\n", want: emptyLine},
	{name: "spaces only", in: "    \n", want: emptyLine},
	{name: "carriage returns only", in: "\r\r\n", want: unknown},
	{name: "M13 unknown command", in: "die in a fire\r\n", want: unknown},
	{name: "prefix of a command", in: "ge q\r\n", want: unknown},
	{name: "command and more", in: "flush_all_expiredx\r\n", want: unknown},
	{name: "command of three other letters", in: "gat q\r\n", want: unknown},
	{name: "bytes that would fold to get", in: "GE\x14 q\r\n", want: unknown},
	{name: "bytes that would fold to flush_all", in: "flush\x7fall\r\n", want: unknown},
	{name: "word that folds to stats in Unicode", in: "\u017ftats\r\n", want: unknown},
	{name: "space in the first three bytes", in: "g t q\r\n", want: unknown},

	// SET.
	{name: "M04 binary data", in: "set m04 0 0 8\r\n\x00\r\nEND\r\xff\r\n",
		want: `set "m04" flags=0 expiry=0 data="\x00\r\nEND\r\xff"`},
	{name: "M05 empty item", in: "set m05 0 0 0\r\n\r\n",
		want: `set "m05" flags=0 expiry=0 data=""`},
	{name: "M07 noreply", in: "set m07 0 0 1 noreply\r\nx\r\n",
		want: `set "m07" flags=0 expiry=0 data="x" noreply`},
	{name: "noreply after another word", in: "set q 0 0 1 y noreply\r\nx\r\n",
		want: setQ + " noreply"},
	{name: "noreply and trailing space", in: "set q 0 0 1 noreply \r\nx\r\n",
		want: setQ + " noreply"},
	{name: "noreply is not last", in: "set q 0 0 1 noreply y\r\nx\r\n", want: setQ},
	{name: "noreply is case-sensitive", in: "set q 0 0 1 NOREPLY\r\nx\r\n", want: setQ},
	{name: "word ending in noreply", in: "set q 0 0 1 xnoreply\r\nx\r\n", want: setQ},
	{name: "more words are ignored", in: "set q 0 0 1 y z\r\nx\r\n", want: setQ},
	{name: "M08 flags", in: "set m08 123 0 1\r\nx\r\n",
		want: `set "m08" flags=123 expiry=0 data="x"`},
	{name: "largest flags", in: "set q 4294967295 0 1\r\nx\r\n",
		want: `set "q" flags=4294967295 expiry=0 data="x"`},
	{name: "negative flags", in: "set q -1 0 1\r\nx\r\n",
		want: `set "q" flags=4294967295 expiry=0 data="x"`},
	{name: "smallest flags", in: "set q -2147483648 0 1\r\nx\r\n",
		want: `set "q" flags=2147483648 expiry=0 data="x"`},
	{name: "flags below 32 bits", in: "set q -2147483649 0 1\r\nx\r\n", want: badFlags},
	{name: "flags beyond 32 bits", in: "set q 4294967296 0 1\r\nx\r\n", want: badFlags},
	{name: "M09 bad flags", in: "set m09 abc 0 1\r\nx\r\n", want: badFlags},
	{name: "empty flags", in: "set q  0 1\r\nx\r\n", want: badFlags},
	{name: "bad flags and noreply", in: "set q x 0 1 noreply\r\nx\r\n",
		want: badFlags + " (noreply)"},
	{name: "M10 bad expiry", in: "set m10 0 abc 1\r\nx\r\n", want: badExpiry},
	{name: "empty expiry", in: "set q 0  1\r\nx\r\n", want: badExpiry},
	{name: "expiry beyond 32 bits", in: "set q 0 2147483648 1\r\nx\r\n", want: badExpiry},
	{name: "bad expiry goes before bad flags", in: "set q x y 1\r\nx\r\n", want: badExpiry},
	{name: "M62 relative expiry", in: "set m62 0 1 1\r\nx\r\n",
		want: `set "m62" flags=0 expiry=1 data="x"`},
	{name: "M63 negative expiry", in: "set m63 0 -1 1\r\nx\r\n",
		want: `set "m63" flags=0 expiry=-1 data="x"`},
	{name: "largest expiry", in: "set q 0 2147483647 1\r\nx\r\n",
		want: `set "q" flags=0 expiry=2147483647 data="x"`},
	{name: "smallest expiry", in: "set q 0 -2147483648 1\r\nx\r\n",
		want: `set "q" flags=0 expiry=-2147483648 data="x"`},
	{name: "M11 four words", in: "set m11 0 0\r\n", want: setWords},
	{name: "four words and a space", in: "set q 0 0 \r\n", want: setWords},
	{name: "three words", in: "set q 0\r\n", want: setWords},
	{name: "two words", in: "set q\r\n", want: setWords},
	{name: "one word", in: "set\r\n", want: setWords},
	{name: "one word of another store", in: "cas\r\n", want: setWords},
	{name: "M12 bad byte count", in: "set m12 0 0 abc\r\n", want: badCount},
	{name: "empty byte count", in: "set q 0 0  5\r\n", want: badCount},
	{name: "negative byte count", in: "set q 0 0 -5\r\n", want: badCount},
	{name: "byte count of minus zero", in: "set q 0 0 -0\r\n\r\n",
		want: `set "q" flags=0 expiry=0 data=""`},
	{name: "byte count with plus", in: "set q 0 0 +1\r\nx\r\n", want: setQ},
	{name: "byte count of a sign", in: "set q 0 0 -\r\n", want: badCount},
	{name: "byte count in hex", in: "set q 0 0 0x1\r\n", want: badCount},
	{name: "byte count with a point", in: "set q 0 0 1.0\r\n", want: badCount},
	{name: "byte count with leading zeros", in: "set q 0 0 00000000000000000001\r\nx\r\n",
		want: setQ},
	{name: "byte count beyond 32 bits", in: "set q 0 0 2147483648\r\n", want: badCount},
	{name: "byte count of 20 digits", in: "set q 0 0 18446744073709551617\r\n", want: badCount},
	{name: "byte count of 40 digits", in: "set q 0 0 " + strings.Repeat("9", 40) + "\r\n",
		want: badCount},
	{name: "bad byte count goes before bad expiry", in: "set q x y z\r\n", want: badCount},
	{name: "largest byte count", in: "set q 0 0 2147483647\r\n",
		want: `too large "q" skip=2147483649`},
	{name: "item too large", d: Decoder{MaxItem: 4}, in: "set q 0 0 5 noreply\r\n",
		want: `too large "q" skip=7 noreply`},
	{name: "item too large goes before bad flags", d: Decoder{MaxItem: 4},
		in: "set q x y 5\r\n", want: `too large "q" skip=7`},
	{name: "item just not too large", d: Decoder{MaxItem: 4}, in: "set q 0 0 4\r\nabcd\r\n",
		want: `set "q" flags=0 expiry=0 data="abcd"`},
	{name: "empty queue name in set", in: "set  0 0 1\r\nx\r\n",
		want: `set "" flags=0 expiry=0 data="x"`},
	{name: "set into plus", in: "set + 0 0 1\r\nx\r\n", want: plusName},
	{name: "set into plus, flags first", in: "set ++ x 0 1\r\nx\r\n", want: badFlags},
	{name: "M74 names are not judged", in: "set m74.x~/y 0 0 1\r\nx\r\n",
		want: `set "m74.x~/y" flags=0 expiry=0 data="x"`},
	{name: "name of 300 bytes", in: "get " + strings.Repeat("n", 300) + "\r\n",
		want: `get "` + strings.Repeat("n", 300) + `"`},
	{name: "name with NUL and high bytes", in: "get a\x00\xe9\xff\r\n",
		want: `get "a\x00\xe9\xff"`},
	{name: "body end that is no line end", in: "set q 0 0 1\r\nxyz", want: setQ + " badend"},

	// Storage commands that are framed and then refused.
	{name: "M15 add", in: "add m15 0 0 5\r\nswiss\r\n", want: unsupported},
	{name: "M16 cas", in: "cas m16 0 0 1 99\r\nx\r\n", want: unsupported},
	{name: "replace", in: "REPLACE q 0 0 1\r\nx\r\n", want: unsupported},
	{name: "append", in: "append q 0 0 1\r\nx\r\n", want: unsupported},
	{name: "prepend", in: "prepend q 0 0 1\r\nx\r\n", want: unsupported},
	{name: "add with bad byte count", in: "add q 0 0 x\r\n", want: badCount},
	{name: "add with four words", in: "add q 0 0\r\n", want: setWords},
	{name: "add too large", d: Decoder{MaxItem: 4}, in: "add q 0 0 5\r\n", want: unsupported},
}
