package text

import (
	"bytes"
	"strings"
	"testing"
)

// TestDecodeStream decodes several requests of one connection, the way a server does, as written
// and one byte at a time.
func TestDecodeStream(t *testing.T) {
	for _, tt := range streamTests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.Join(tt.want, "\n")
			whole := []byte(tt.in)
			if got := transcript(Decoder{MaxItem: 8}, whole); got != want {
				t.Errorf("Decode(%q):\ngot\n%s\nwant\n%s", tt.in, got, want)
			}
			var pieces [][]byte
			for i := range whole {
				pieces = append(pieces, whole[i:i+1])
			}
			if got := transcript(Decoder{MaxItem: 8}, pieces...); got != want {
				t.Errorf("Decode(%q), one byte at a time:\ngot\n%s\nwant\n%s", tt.in, got, want)
			}
		})
	}
}

// streamTests also seed FuzzDecode. Items larger than 8 bytes are too large in them.
var streamTests = []struct {
	name, in string
	want     []string
}{
	{
		"T01 put, get, empty",
		"put t01:\nhello\n\nget t01\n",
		[]string{`put "t01" items`, `item "hello"`, "end", `get "t01"`},
	},
	{
		"T02 CRLF works, command in upper case",
		"PUT t02:\r\nhello\r\n\r\nGET t02\r\n",
		[]string{`put "t02" items`, `item "hello"`, "end", `get "t02"`},
	},
	{
		"T03 several items",
		"put t03:\na\nb\nc\n\nget t03\nget t03\n",
		[]string{
			`put "t03" items`, `item "a"`, `item "b"`, `item "c"`, "end", `get "t03"`, `get "t03"`,
		},
	},
	{
		"T05 put without queue",
		"put:\nx\n\nget q\n",
		[]string{noQueue + " items", `item "x"`, "end", `get "q"`},
	},
	{
		"T07 bad numbers",
		"get t07 abc\npeek t07 abc\nput t07 abc:\nx\n\nget t07\n",
		[]string{badWait, badWait, badExpiry + " items", `item "x"`, "end", `get "t07"`},
	},
	{
		"T08 nothing after a bad number that closes",
		"monitor t08 abc\nget t08\n",
		[]string{badMonitor},
	},
	{
		"T12 confirm",
		"put t12:\na\n\nget t12\nconfirm t12 2\nconfirm t12 1\n",
		[]string{
			`put "t12" items`, `item "a"`, "end",
			`get "t12"`, `confirm "t12" count=2`, `confirm "t12" count=1`,
		},
	},
	{
		"T22 status",
		"status\nstatus ReadOnly\nput t22:\nx\n\nflush t22\ndelete t22\n",
		[]string{
			`status`, `status to="ReadOnly"`, `put "t22" items`, `item "x"`, "end",
			`flush "t22"`, `delete "t22"`,
		},
	},
	{
		"T24 unknown command, empty line",
		"Frob it\n\nstats\n",
		[]string{unknown("frob"), unknown(""), unknown("stats")},
	},
	{
		"put of no items",
		"put q:\n\nget q\n",
		[]string{`put "q" items`, "end", `get "q"`},
	},
	{
		"lines after a command that is not put",
		"get q 5:\nshutdown\nput q:\n\r\nversion\n",
		[]string{
			`get "q" wait=5 items`, `item "shutdown"`, `item "put q:"`, "end", `version`,
		},
	},
	{
		"lines after an unknown command",
		"frob:\nshutdown\n\nversion\n",
		[]string{unknown("frob") + " items", `item "shutdown"`, "end", `version`},
	},
	{
		"items look like anything",
		"put q:\n \n:\n \r\n\r\r\n\xff\x00\xe9\r\na\rb\n\n",
		[]string{
			`put "q" items`, `item " "`, `item ":"`, `item " "`, `item "\r"`,
			`item "\xff\x00\xe9"`, `item "a\rb"`, "end",
		},
	},
	{
		"both line ends mixed",
		"put q:\na\r\nb\n\r\nput q:\r\na\n\n",
		[]string{
			`put "q" items`, `item "a"`, `item "b"`, "end", `put "q" items`, `item "a"`, "end",
		},
	},
	{
		"items of the largest size",
		"put q:\n12345678\n12345678\r\n1234567\r\r\n\n",
		[]string{
			`put "q" items`, `item "12345678"`, `item "12345678"`, `item "1234567\r"`, "end",
		},
	},
	{
		"items too large by one byte",
		"put q:\n123456789\n12345678\r\r\n123456789\r\na\n\nget q\n",
		[]string{
			`put "q" items`, tooLarge, tooLarge, tooLarge, `item "a"`, "end", `get "q"`,
		},
	},
	{
		"item much too large, holding a command and carriage returns",
		"put q:\n" + strings.Repeat("shutdown\r", 20) + "\n\nget q\n",
		[]string{`put "q" items`, tooLarge, "end", `get "q"`},
	},
	{
		"item too large is not ended by an empty line's carriage return",
		"put q:\n123456789\r\n\r\nget q\n",
		[]string{`put "q" items`, tooLarge, "end", `get "q"`},
	},
	{
		"line too large after another command",
		"flush q:\n123456789\n\nget q\n",
		[]string{`flush "q" items`, tooLarge, "end", `get "q"`},
	},
	{
		"items break off",
		"put q:\na\nb",
		[]string{`put "q" items`, `item "a"`, "items left", "1 bytes left"},
	},
	{
		"item too large breaks off",
		"put q:\n123456789abcdef",
		[]string{`put "q" items`, tooLarge, "items left"},
	},
	{
		"request breaks off",
		"get q\nget q",
		[]string{`get "q"`, "5 bytes left"},
	},
	{
		"TLS, refused at its first byte",
		"\x16\x03\x01\x02\x00\nflush q\n",
		[]string{foreign},
	},
	{
		"memcache's binary protocol",
		"\x80\x0b\x00\nflush q\n",
		[]string{foreign},
	},
	{
		"HTTP request",
		"GET / HTTP/1.1\r\nHost: localhost:2222\r\n\r\n",
		[]string{foreign},
	},
	{
		"line of 100 KB",
		strings.Repeat("x", 100_000) + "\nget q\n",
		[]string{longLine},
	},
}

const tooLarge = "text: item too large"

// TestDecodeItemMany checks that a put has no limit on the number of its items.
func TestDecodeItemMany(t *testing.T) {
	const count = 100_000
	src := []byte("put q:\n" + strings.Repeat("x\n", count) + "\n")
	got := transcript(Decoder{}, src)
	want := `put "q" items` + strings.Repeat("\n"+`item "x"`, count) + "\nend"
	if got != want {
		t.Errorf("Decode of %d items returned %d bytes of results, want %d",
			count, len(got), len(want))
	}
}

// TestDecodeItemHold checks that the caller need hold no more than the largest item and its line
// end, and that the zero Decoder has a limit.
func TestDecodeItemHold(t *testing.T) {
	for _, d := range []Decoder{{MaxItem: 1}, {MaxItem: 100}, {}} {
		limit := d.MaxItem
		if limit == 0 {
			limit = DefaultMaxItem
		}
		for _, fill := range []string{"x", "\r"} {
			src := bytes.Repeat([]byte(fill), limit+lineEndSize)
			var at Items
			if _, n, err := d.DecodeItem(src, &at); err != ErrTooLarge || n != limit+1 {
				t.Errorf("DecodeItem of %d times %q = %d bytes, %v, want %d bytes, %v",
					len(src), fill, n, err, limit+1, ErrTooLarge)
			}
		}
	}
}

// TestDecodeItemScanned checks that bytes are looked at once. The second call learns of a line end
// that it must not find, for the bytes are said not to hold one.
func TestDecodeItemScanned(t *testing.T) {
	var (
		d  Decoder
		at Items
	)
	if _, n, err := d.DecodeItem([]byte("abc"), &at); n != 0 || err != ErrIncomplete {
		t.Fatalf("DecodeItem of half a line = %d bytes, %v", n, err)
	}
	item, n, err := d.DecodeItem([]byte("a\ncd\n"), &at)
	if string(item) != "a\ncd" || n != 5 || err != nil {
		t.Errorf("DecodeItem looked at bytes again: item %q, %d bytes, %v", item, n, err)
	}
	if at != (Items{}) {
		t.Errorf("after an item: %+v, want the start of a line", at)
	}
	at.scanned = 10 // against the contract, but no reason to panic
	if _, n, err := d.DecodeItem([]byte("ab"), &at); n != 0 || err != ErrIncomplete {
		t.Errorf("DecodeItem of fewer bytes than before = %d bytes, %v", n, err)
	}
}
