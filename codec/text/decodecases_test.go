package text

import "strings"

// Results of decodeString that many cases share.
const (
	noQueue     = `reply "-Queue name required.\n": no queue name`
	noTimeout   = `reply "-Queue name & timeout required.\n": monitor without wait time`
	noCount     = `reply "-Queue name & count required.\n": confirm without count`
	badWait     = `reply "-Error parsing timeout.\n": wait time is not a 32-bit number`
	badExpiry   = `reply "-Error parsing expiration time.\n": expiry is not a 32-bit number`
	badMonitor  = `close "": monitor wait time is not a 32-bit number`
	badConfirm  = `close "": confirm count is not a 32-bit number`
	onlySpaces  = `close "": request line of spaces only`
	foreign     = `close "-Not a request of the text protocol.\n": not a request of the text protocol`
	longLine    = `close "-Request line too long.\n": request line too long`
	emptyStatus = `reply "-Unknown status.\n": status with an empty name`
)

// unknown is the result of decodeString for an unknown command, as the reply spells it.
func unknown(word string) string {
	return `reply "-Unknown command: ` + word + `\n": unknown command`
}

// decodeTests also seed FuzzDecode. A name that starts with T and a number is that of a test vector
// of the protocol.
var decodeTests = []struct {
	name string
	d    Decoder
	in   string // one line; every proper prefix of it is incomplete
	want string // as resultString has it
}{
	// Requests of browsers.
	{name: "HTTP GET", in: "GET /q HTTP/1.1\r\n", want: foreign},
	{name: "HTTP POST", in: "POST / HTTP/1.0\r\n", want: foreign},
	{name: "HTTP with a space behind it", in: "PUT /q HTTP/1.1 \n", want: foreign},
	{name: "preface of HTTP/2", in: "PRI * HTTP/2.0\r\n", want: foreign},
	{name: "RTSP", in: "OPTIONS rtsp://h/ RTSP/1.0\r\n", want: foreign},
	{name: "version of nothing known", in: "get q 1 FTP/1.0\n", want: `get "q" wait=1`},

	// Other protocols.
	{name: "RESP", in: "*1\r\n", want: foreign},
	{name: "SSH", in: "SSH-2.0-OpenSSH_9.9\r\n", want: foreign},
	{name: "memcache set", in: "SET q 0 0 7\r\n", want: foreign},
	{name: "memcache get", in: "gets q\r\n", want: unknown("gets")},
	{name: "JSON", in: "{\"a\":\n", want: foreign},
	{name: "control character in a name", in: "get a\x00b\n", want: foreign},
	{name: "control character behind a name", in: "get a \x1b[A\n", want: foreign},
	{name: "queue called like a version", in: "get HTTP\n", want: `get "HTTP"`},

	// Framing.
	{name: "T01 put", in: "put t01:\n", want: `put "t01" items`},
	{name: "T01 get", in: "get t01\n", want: `get "t01"`},
	{name: "T02 put in upper case", in: "PUT t02:\r\n", want: `put "t02" items`},
	{name: "T02 get in upper case", in: "GET t02\r\n", want: `get "t02"`},
	{name: "mixed case, name keeps its case", in: "gEt Q\n", want: `get "Q"`},
	{name: "trailing space", in: "get q \n", want: `get "q"`},
	{name: "trailing spaces", in: "get q   \r\n", want: `get "q"`},
	{name: "two carriage returns", in: "get q\r\r\n", want: `get "q\r"`},
	{name: "space after a carriage return", in: "get q\r \n", want: `get "q\r"`},
	{name: "leading space", in: " get q\n", want: unknown("")},
	{name: "tab is part of a word", in: "get\tq\n", want: unknown("get?q")},
	{name: "name with a tab", in: "get a\tb\n", want: `get "a\tb"`},
	{name: "name in Latin-1", in: "get caf\xe9\n", want: `get "caf\xe9"`},
	{name: "T24 empty line", in: "\n", want: unknown("")},
	{name: "empty line with carriage return", in: "\r\n", want: unknown("")},
	{name: "space only", in: " \n", want: onlySpaces},
	{name: "spaces only", in: "   \r\n", want: onlySpaces},
	{name: "T24 unknown command", in: "Frob it\n", want: unknown("frob")},
	{name: "T24 stats", in: "stats\n", want: unknown("stats")},
	{name: "prefix of a command", in: "ge q\n", want: unknown("ge")},
	{name: "command and more", in: "shutdownx\n", want: unknown("shutdownx")},
	{name: "bytes that would fold to put", in: "PU\x14 q\n", want: foreign},
	{name: "unknown command that is not ASCII", in: "\xc9T\xc9\t~\n", want: unknown("?t??~")},
	{name: "unknown command with a carriage return", in: "a\rB\n", want: unknown("a?b")},
	{name: "line of the longest length", d: Decoder{MaxLine: 6}, in: "get q\n", want: `get "q"`},
	{name: "line too long", d: Decoder{MaxLine: 5}, in: "get q", want: longLine},
	{name: "line of 8 KiB", in: "get " + strings.Repeat("q", DefaultMaxLine-4), want: longLine},

	// The colon.
	{name: "colon after any command", in: "get q:\n", want: `get "q" items`},
	{name: "colon after a space", in: "put q :\n", want: `put "q" items`},
	{name: "colon before a space", in: "put q: \n", want: `put "q:"`},
	{name: "two colons", in: "put q::\n", want: `put "q:" items`},
	{name: "colon inside a name", in: "put a:b\n", want: `put "a:b"`},
	{name: "colon before the expiry", in: "put q: 5\n", want: `put "q:" expiry=5`},
	{name: "colon behind a number", in: "put q 5:\n", want: `put "q" expiry=5 items`},
	{name: "colon behind a carriage return", in: "put q\r:\n", want: `put "q\r" items`},
	{name: "colon alone", in: ":\n", want: unknown("") + " items"},
	{name: "two colons alone", in: "::\r\n", want: unknown(":") + " items"},
	{name: "colon behind spaces only", in: "  :\n", want: onlySpaces},
	{name: "colon behind an unknown command", in: "Frob:\n", want: unknown("frob") + " items"},
	{name: "colon behind a command without words", in: "quit:\n", want: `quit items`},

	// PUT.
	{name: "T04 put without colon", in: "put t04\n", want: `put "t04"`},
	{name: "T05 put without queue", in: "put:\n", want: noQueue + " items"},
	{name: "put without queue, with a space", in: "put :\n", want: noQueue + " items"},
	{name: "T07 put with a bad expiry", in: "put t07 abc:\n", want: badExpiry + " items"},
	{name: "T19 put with expiry", in: "put t19 200:\n", want: `put "t19" expiry=200 items`},
	{name: "T19 put with expiry 0", in: "put t19 0:\n", want: `put "t19" expiry=0 items`},
	{name: "put with negative expiry", in: "put q -2147483648\n",
		want: `put "q" expiry=-2147483648`},
	{name: "put with expiry beyond 32 bits", in: "put q 2147483648\n", want: badExpiry},
	{name: "put with an empty expiry", in: "put q  5\n", want: badExpiry},
	{name: "put with more words", in: "put q 5 6 seven\n", want: `put "q" expiry=5`},
	{name: "put with an empty name", in: "put  5\n", want: `put "" expiry=5`},

	// GET and PEEK.
	{name: "T06 get without queue", in: "get\n", want: noQueue},
	{name: "T06 peek without queue", in: "peek\n", want: noQueue},
	{name: "T07 get with a bad timeout", in: "get t07 abc\n", want: badWait},
	{name: "T07 peek with a bad timeout", in: "peek t07 abc\n", want: badWait},
	{name: "T09 peek", in: "peek t09\n", want: `peek "t09"`},
	{name: "T17 get that waits", in: "get t17 5000\n", want: `get "t17" wait=5000`},
	{name: "peek that waits", in: "peek q 1\n", want: `peek "q" wait=1`},
	{name: "get with a negative timeout", in: "get q -1\n", want: `get "q" wait=-1`},
	{name: "get with a plus sign", in: "get q +7\n", want: `get "q" wait=7`},
	{name: "get with a sign only", in: "get q -\n", want: badWait},
	{name: "get with two signs", in: "get q --1\n", want: badWait},
	{name: "get with a timeout of 20 digits", in: "get q 18446744073709551617\n", want: badWait},
	{name: "get with more words", in: "get q 1 x\n", want: `get "q" wait=1`},
	{name: "get with an empty name", in: "get  \xff\n", want: badWait},
	{name: "get has no options", in: "get q/open\n", want: `get "q/open"`},

	// MONITOR and CONFIRM.
	{name: "T14 monitor", in: "monitor t14 400\n", want: `monitor "t14" wait=400`},
	{name: "T16 monitor without time", in: "monitor t16 0\n", want: `monitor "t16" wait=0`},
	{name: "monitor without words", in: "monitor\n", want: noTimeout},
	{name: "T06 monitor without timeout", in: "monitor t06\n", want: noTimeout},
	{name: "monitor with a trailing space", in: "monitor q \n", want: noTimeout},
	{name: "T08 monitor with a bad number", in: "monitor t08 abc\n", want: badMonitor},
	{name: "monitor with a bad number and a colon", in: "monitor q abc:\n", want: badMonitor},
	{name: "T12 confirm", in: "confirm t12 2\n", want: `confirm "t12" count=2`},
	{name: "T13 confirm of nothing", in: "confirm t13 0\n", want: `confirm "t13" count=0`},
	{name: "confirm of a negative count", in: "confirm q -1\n", want: `confirm "q" count=-1`},
	{name: "confirm without words", in: "confirm\n", want: noCount},
	{name: "T06 confirm without count", in: "confirm t06\n", want: noCount},
	{name: "T08 confirm with a bad number", in: "confirm t08 abc\n", want: badConfirm},

	// The rest.
	{name: "T06 flush without queue", in: "flush\n", want: noQueue},
	{name: "T06 delete without queue", in: "delete\n", want: noQueue},
	{name: "T20 flush", in: "flush t20\n", want: `flush "t20"`},
	{name: "T20 delete", in: "delete t20\n", want: `delete "t20"`},
	{name: "delete with more words", in: "delete q noreply\n", want: `delete "q"`},
	{name: "T21 version", in: "version\n", want: `version`},
	{name: "T22 status", in: "status\n", want: `status`},
	{name: "T22 status with a name", in: "status ReadOnly\n", want: `status to="ReadOnly"`},
	{name: "T23 unknown status", in: "status spongebob\n", want: `status to="spongebob"`},
	{name: "status with an empty name", in: "status  up\n", want: emptyStatus},
	{name: "T25 quit", in: "quit\n", want: `quit`},
	{name: "shutdown", in: "Shutdown now\n", want: `shutdown`},

	// Leases and delays.
	{name: "put with a delay", in: "put q delay=5000:\n", want: `put "q" delay=5000 items`},
	{name: "put with an expiry and a delay", in: "put q 60000 delay=5000:\n",
		want: `put "q" expiry=60000 delay=5000 items`},
	{name: "put with a delay of 0", in: "put q delay=0:\n", want: `put "q" delay=0 items`},
	{name: "put with a bad delay", in: "put q delay=x:\n", want: explainedResult(errDelay) + " items"},
	{name: "put with an empty delay", in: "put q delay:\n", want: explainedResult(errDelay) + " items"},
	{name: "put with a delay below 0", in: "put q 5 delay=-1:\n", want: explainedResult(errDelay) + " items"},
	{name: "put with a delay too long", in: "put q delay=1000000000000:\n",
		want: explainedResult(errDelay) + " items"},
	{name: "put with a delay twice", in: "put q delay=1 delay=1:\n", want: explainedResult(errTwice) + " items"},
	{name: "put with a lease", in: "put q lease=5:\n", want: badExpiry + " items"},
	{name: "put with more words and a delay", in: "put q 5 lease=x delay=7\n",
		want: `put "q" expiry=5 delay=7`},
	{name: "get from several", in: "get a or=b or=c\n", want: `get "a" a*0 b*0 c*0`},
	{name: "get from several by weight", in: "get a 5 weight=3 or=b lease=7 weight=1\n",
		want: `get "a" a*3 b*1 wait=5 lease=7`},
	{name: "peek at several", in: "peek a or=b\n", want: `peek "a" a*0 b*0`},
	{name: "get with an or of nothing", in: "get a or=\n", want: explainedResult(errOr)},
	{name: "get with a bad weight", in: "get a 5 weight=0\n", want: explainedResult(errWeight)},
	{name: "get with a large weight", in: "get a weight=1000001 or=b\n", want: explainedResult(errWeight)},
	{name: "get with a weight twice", in: "get a weight=1 weight=1\n", want: explainedResult(errTwice)},
	{name: "get from 17", in: "get a" + strings.Repeat(" or=b", 16) + "\n", want: explainedResult(errManyQueues)},
	{name: "get with a lease", in: "get q lease=30000\n", want: `get "q" lease=30000`},
	{name: "get with a wait and a lease", in: "get q 1000 lease=30000\n", want: `get "q" wait=1000 lease=30000`},
	{name: "get with the queue's lease", in: "get q lease\n", want: `get "q" lease=0`},
	{name: "get with a lease of 0", in: "get q lease=0\n", want: explainedResult(errLease)},
	{name: "get with an empty lease", in: "get q 5 lease=\n", want: explainedResult(errLease)},
	{name: "get with a lease twice", in: "get q lease=5 lease\n", want: explainedResult(errTwice)},
	{name: "get with a delay", in: "get q 5 delay=x\n", want: `get "q" wait=5`},
	{name: "peek with a lease", in: "peek q lease=5\n", want: badWait},
	{name: "put with a key", in: "put q 5 key=K new delay=7:\n", want: `put "q" expiry=5 key="K" new delay=7 items`},
	{name: "put with a key first", in: "put q key=K replace:\n", want: `put "q" key="K" replace items`},
	{name: "put new without key", in: "put q new:\n", want: explainedResult(errNeedsKey) + " items"},
	{name: "put new and replace", in: "put q key=K new replace\n", want: explainedResult(errNeedsKey)},
	{name: "put with a bad key", in: "put q key=a/b\n", want: explainedResult(errKey)},
	{name: "put with an empty key", in: "put q key=\n", want: explainedResult(errKey)},
	{name: "peek by id", in: "peek q id=7\n", want: `peek "q" id=7`},
	{name: "peek by key", in: "peek q key=K\n", want: `peek "q" key="K"`},
	{name: "peek by both", in: "peek q key=K id=7\n", want: explainedResult(errWhich)},
	{name: "peek with a wait by both", in: "peek q 5 key=K id=7\n", want: explainedResult(errWhich)},
	{name: "peek by id 0", in: "peek q id=0\n", want: explainedResult(errID)},
	{name: "list", in: "list q\n", want: `list "q" from=0`},
	{name: "list some", in: "list q from=7 limit=10000 hidden\n", want: `list "q" from=7 limit=10000 hidden`},
	{name: "list too many", in: "list q limit=10001\n", want: explainedResult(errLimit)},
	{name: "list from nowhere", in: "list q from=x\n", want: explainedResult(errFrom)},
	{name: "list with a key", in: "list q key=K\n", want: explainedResult(errOption)},
	{name: "list hidden twice", in: "list q hidden hidden\n", want: explainedResult(errTwice)},
	{name: "list without queue", in: "list\n", want: noQueue},
	{name: "get with meta", in: "get q meta\n", want: `get "q" meta`},
	{name: "get with all there is", in: "get q 1000 meta lease=7 or=r\n",
		want: `get "q" q*0 r*0 wait=1000 meta lease=7`},
	{name: "get with meta and a number behind", in: "get q meta 1000\n", want: `get "q" meta`},
	{name: "get with meta of something", in: "get q meta=1\n", want: explainedResult(errMeta)},
	{name: "get with meta of nothing", in: "get q 5 meta=\n", want: explainedResult(errMeta)},
	{name: "get with meta twice", in: "get q meta meta\n", want: explainedResult(errTwice)},
	{name: "peek with meta", in: "peek q 5 meta\n", want: `peek "q" wait=5 meta`},
	{name: "peek by id with meta", in: "peek q id=7 meta\n", want: `peek "q" id=7 meta`},
	{name: "peek by key, meta first", in: "peek q meta key=K\n", want: `peek "q" key="K" meta`},
	{name: "peek with meta by both", in: "peek q meta key=K id=7\n", want: explainedResult(errWhich)},
	{name: "list with meta", in: "list q meta limit=3\n", want: `list "q" from=0 limit=3 meta`},
	{name: "list with meta of something", in: "list q meta=1\n", want: explainedResult(errMeta)},
	{name: "put with meta", in: "put q 5 meta\n", want: `put "q" expiry=5`},
	{name: "remove with meta", in: "remove q id=7 meta\n", want: explainedResult(errOption)},
	{name: "remove by id", in: "remove q id=7\n", want: `remove "q" id=7`},
	{name: "remove by key", in: "REMOVE q key=K\n", want: `remove "q" key="K"`},
	{name: "remove nothing", in: "remove q\n", want: explainedResult(errWhich)},
	{name: "remove by both", in: "remove q id=7 key=K\n", want: explainedResult(errWhich)},
	{name: "remove a receipt", in: "remove q receipt=7\n", want: explainedResult(errOption)},
	{name: "touch by id", in: "touch q id=7 60000\n", want: `touch "q" id=7 expiry=60000`},
	{name: "touch by key, for ever", in: "touch q key=K 0\n", want: `touch "q" key="K"`},
	{name: "touch by id without a number", in: "touch q id=7\n", want: explainedResult(errExpiryLeft)},
	{name: "touch by id, below 0", in: "touch q id=7 -1\n", want: explainedResult(errExpiryLeft)},
	{name: "confirm a receipt", in: "confirm q receipt=18446744073709551615\n",
		want: `confirm "q" receipt=18446744073709551615`},
	{name: "confirm a receipt of 0", in: "confirm q receipt=0\n", want: explainedResult(errReceipt)},
	{name: "confirm a receipt beyond 64 bits", in: "confirm q receipt=18446744073709551616\n",
		want: explainedResult(errReceipt)},
	{name: "confirm an empty receipt", in: "confirm q receipt\n", want: explainedResult(errReceipt)},
	{name: "touch", in: "Touch q receipt=7 30000\n", want: `touch "q" receipt=7 lease=30000`},
	{name: "touch without queue", in: "touch\n", want: noQueue},
	{name: "touch without receipt", in: "touch q 30000\n", want: explainedResult(errTouch)},
	{name: "touch without words", in: "touch q\n", want: explainedResult(errTouch)},
	{name: "touch without time", in: "touch q receipt=7\n", want: explainedResult(errLease)},
	{name: "touch for no time", in: "touch q receipt=7 0\n", want: explainedResult(errLease)},
	{name: "touch with a bad receipt", in: "touch q receipt=x 5\n", want: explainedResult(errReceipt)},
	{name: "abort", in: "abort q\n", want: `abort "q"`},
	{name: "abort a receipt with a delay", in: "abort q receipt=7 delay=300\n",
		want: `abort "q" receipt=7 delay=300`},
	{name: "delay before receipt", in: "release q delay=300 receipt=7\n",
		want: `release "q" receipt=7 delay=300`},
	{name: "abort with a bad delay", in: "abort q delay=x\n", want: explainedResult(errDelay)},
	{name: "abort with two receipts", in: "abort q receipt=1 receipt=2\n", want: explainedResult(errTwice)},
	{name: "abort with another word", in: "abort q 5\n", want: explainedResult(errOption)},
	{name: "abort without queue", in: "abort\n", want: noQueue},
	{name: "reject", in: "reject q receipt=7\n", want: `reject "q" receipt=7`},
	{name: "reject with a delay", in: "reject q delay=5\n", want: explainedResult(errOption)},
	{name: "auth", in: "AUTH alice s3cret\r\n", want: `auth user="alice" password="s3cret"`},
	{name: "auth with colons", in: "auth a:b c: \n", want: `auth user="a:b" password="c:"`},
	{name: "auth without password", in: "auth alice\n", want: explainedResult(errAuth)},
	{name: "auth without words", in: "auth\n", want: explainedResult(errAuth)},
	{name: "auth with an empty user", in: "auth  s3cret\n", want: explainedResult(errAuth)},
	{name: "auth with a third word", in: "auth alice s3 cret\n", want: explainedResult(errAuth)},
	{name: "release with a lease", in: "release q lease=5\n", want: explainedResult(errOption)},
}

// explainedResult is what resultString makes of a refusal whose reason is sent.
func explainedResult(e *ProtocolError) string { return resultString(new(Request), e) }
