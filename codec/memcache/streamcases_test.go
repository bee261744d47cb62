package memcache

import "strings"

// streamTests also seed FuzzDecode. Items larger than 64 bytes are too large in them.
var streamTests = []struct {
	name, in string
	want     []string
}{
	{
		"M25 only the first key counts",
		"set m25a 0 0 1\r\n1\r\nset m25b 0 0 1\r\n2\r\nget m25a m25b\r\nget m25b\r\n",
		[]string{
			`set "m25a" flags=0 expiry=0 data="1"`, `set "m25b" flags=0 expiry=0 data="2"`,
			`get "m25a"`, `get "m25b"`,
		},
	},
	{
		"M35 close and open in both orders",
		"get m35/close/open\r\nget m35/open/close\r\n",
		[]string{`get "m35" open close`, `get "m35" open close`},
	},
	{
		"M38 quit",
		"set m38 0 0 1\r\na\r\nget m38/open\r\nquit\r\n",
		[]string{`set "m38" flags=0 expiry=0 data="a"`, `get "m38" open`, `quit`},
	},
	{
		"M57 delete",
		"set m57 0 0 1\r\na\r\ndelete m57\r\nget m57\r\n",
		[]string{`set "m57" flags=0 expiry=0 data="a"`, `delete "m57"`, `get "m57"`},
	},
	{
		"M92 excess data",
		"set m92 0 0 5\r\nhello world\r\n",
		[]string{
			`set "m92" flags=0 expiry=0 data="hello" badend`,
			unknown,
		},
	},
	{
		"M93 pipelining",
		"set m93 0 0 1\r\na\r\nset m93 0 0 1\r\nb\r\nget m93\r\nversion\r\n",
		[]string{
			`set "m93" flags=0 expiry=0 data="a"`, `set "m93" flags=0 expiry=0 data="b"`,
			`get "m93"`, `version`,
		},
	},
	{
		"M17 missing arguments do not close",
		"get\r\nconfirm m17\r\nflush\r\ndelete\r\nget m17\r\n",
		[]string{
			missing, missing, missing, missing, `get "m17"`,
		},
	},
	{
		"M09 bad flags, then a get",
		"set m09 abc 0 1\r\nx\r\nget m09\r\n",
		[]string{badFlags, `get "m09"`},
	},
	{
		"nothing after a fatal error",
		"die in a fire\r\nget q\r\n",
		[]string{unknown},
	},
	{
		"body of an unsupported store is no command",
		"add q 0 0 8\r\nshutdown\r\nget q\r\n",
		[]string{unsupported},
	},
	{
		"body without its line end swallows two bytes",
		"set q 0 0 1\r\nxget q\r\nget q\r\n",
		[]string{
			`set "q" flags=0 expiry=0 data="x" badend`,
			unknown,
		},
	},
	{
		"body ended by two line feeds",
		"set q 0 0 1\nx\n\nget q\n",
		[]string{`set "q" flags=0 expiry=0 data="x"`, `get "q"`},
	},
	{
		"item too large is skipped",
		"set q 0 0 65 noreply\r\n" + strings.Repeat("get q\r\n", 10)[:65] + "\r\nget q\r\n",
		[]string{`too large "q" skip=67 noreply`, `get "q"`},
	},
	{
		"item too large breaks off",
		"set q 0 0 65\r\nget q\r\n",
		[]string{`too large "q" skip=67`, `60 bytes to skip`},
	},
	{
		"request breaks off",
		"get q\r\nget q",
		[]string{`get "q"`, `5 bytes left`},
	},
	{
		"HTTP request for the root",
		"GET / HTTP/1.1\r\nHost: localhost:22133\r\n\r\n",
		[]string{foreign},
	},
	{
		"HTTP request for a page",
		"GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
		[]string{foreign},
	},
	{
		"HTTP post with a command in its body",
		"POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\nflush_all\r\n",
		[]string{foreign},
	},
	{
		"line of 100 KB",
		strings.Repeat("x", 100_000) + "\r\nget q\r\n",
		[]string{longLine},
	},
	{
		"TLS hello",
		"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\xc3", 32) + "\x00\x00\n",
		[]string{foreign},
	},
	{
		"line of NULs, refused at its first byte",
		strings.Repeat("\x00", DefaultMaxLine),
		[]string{foreign},
	},
	{
		"binary protocol with a command in it",
		"\x80\x0b\x00\nflush_all\r\n",
		[]string{foreign},
	},
	{
		"HTTP request whose method is a command",
		"DELETE /q HTTP/1.0\nflush_all\r\n",
		[]string{foreign},
	},
}
