package memcache

import "strings"

// Results of decodeString that several cases of keys share.
const (
	badKey = `reply "CLIENT_ERROR key must have 1 to 250 bytes, and no control bytes, blanks or slashes\r\n": ` +
		`key must have 1 to 250 bytes, and no control bytes, blanks or slashes`
	needsKey = `reply "CLIENT_ERROR new and replace need a key\r\n": new and replace need a key`
	badID    = `reply "CLIENT_ERROR id is not a number from 1 to 18446744073709551615\r\n": ` +
		`id is not a number from 1 to 18446744073709551615`
	badFrom = `reply "CLIENT_ERROR from is not a number from 0 to 18446744073709551615\r\n": ` +
		`from is not a number from 0 to 18446744073709551615`
	badLimit = `reply "CLIENT_ERROR limit is not a number from 1 to 10000\r\n": ` +
		`limit is not a number from 1 to 10000`
	badTouchExpiry = `reply "CLIENT_ERROR touch needs seconds from 0 to 2147483647\r\n": ` +
		`touch needs seconds from 0 to 2147483647`
)

// keyTests are the decodeTests of keys, and of what is done to single items.
var keyTests = []decodeTest{
	{name: "set with a key", in: "set q/key=K 0 0 1\r\nx\r\n", want: setQ + ` key="K"`},
	{name: "set with key and delay", in: "set q/delay=5/key=K 0 0 1\r\nx\r\n", want: setQ + ` delay=5 key="K"`},
	{name: "set new", in: "set q/key=K/new 0 0 1\r\nx\r\n", want: setQ + ` key="K" new`},
	{name: "set replace", in: "set q/replace/key=K 0 0 1\r\nx\r\n", want: setQ + ` key="K" replace`},
	{name: "key with an equals sign and high bytes", in: "set q/key=a=\xff 0 0 1\r\nx\r\n", want: setQ + ` key="a=\xff"`},
	{name: "longest key", in: "set q/key=" + strings.Repeat("k", 250) + " 0 0 1\r\nx\r\n",
		want: setQ + ` key="` + strings.Repeat("k", 250) + `"`},
	{name: "key too long", in: "set q/key=" + strings.Repeat("k", 251) + " 0 0 1\r\nx\r\n", want: badKey},
	{name: "empty key", in: "set q/key= 0 0 1\r\nx\r\n", want: badKey},
	{name: "key without a value", in: "set q/key 0 0 1\r\nx\r\n", want: badKey},
	{name: "key with a control byte", in: "set q/key=a\tb 0 0 1\r\nx\r\n", want: badKey},
	{name: "key with a delete byte, noreply", in: "set q/key=\x7f 0 0 1 noreply\r\nx\r\n", want: badKey + " (noreply)"},
	{name: "key with a slash", in: "set q/key=a/b 0 0 1\r\nx\r\n", want: badKey},
	{name: "key twice", in: "set q/key=a/key=b 0 0 1\r\nx\r\n", want: twice},
	{name: "new twice", in: "set q/key=a/new/new 0 0 1\r\nx\r\n", want: twice},
	{name: "new without key", in: "set q/new 0 0 1\r\nx\r\n", want: needsKey},
	{name: "replace without key", in: "set q/replace/delay=1 0 0 1\r\nx\r\n", want: needsKey},
	{name: "new and replace", in: "set q/key=a/new/replace 0 0 1\r\nx\r\n", want: combination},
	{name: "new with a value", in: "set q/key=a/new=1 0 0 1\r\nx\r\n",
		want: badKey},

	{name: "look by id", in: "get q/id=7\r\n", want: `get "q" id=7`},
	{name: "look by key, with meta", in: "get q/key=K/meta\r\n", want: `get "q" meta key="K"`},
	{name: "list", in: "get q/from=0/limit=10000/hidden/meta\r\n", want: `get "q" meta from=0 limit=10000 hidden`},
	{name: "list without limit", in: "get q/from=18446744073709551615\r\n", want: `get "q" from=18446744073709551615`},
	{name: "id of 0", in: "get q/id=0\r\n", want: badID},
	{name: "id that is no number", in: "get q/id=x\r\n", want: badID},
	{name: "id without a value", in: "get q/id\r\n", want: badID},
	{name: "id twice", in: "get q/id=1/id=2\r\n", want: twice},
	{name: "id and key", in: "get q/id=1/key=K\r\n", want: combination},
	{name: "id and open", in: "get q/id=1/open\r\n", want: combination},
	{name: "id and wait", in: "get q/id=1/t=5\r\n", want: combination},
	{name: "id and limit", in: "get q/id=1/limit=5\r\n", want: combination},
	{name: "gets by id", in: "gets q/id=1\r\n", want: combination},
	{name: "limit alone", in: "get q/limit=5\r\n", want: combination},
	{name: "hidden alone", in: "get q/hidden\r\n", want: combination},
	{name: "hidden twice", in: "get q/from=1/hidden/hidden\r\n", want: twice},
	{name: "key with a slash in a get", in: "get q/key=a/b\r\n", want: badKey},
	{name: "empty key in a get", in: "get q/key=\r\n", want: badKey},
	{name: "from below 0", in: "get q/from=-1\r\n", want: badFrom},
	{name: "from and lease", in: "get q/from=1/lease=5\r\n", want: combination},
	{name: "limit of 0", in: "get q/from=1/limit=0\r\n", want: badLimit},
	{name: "limit too high", in: "get q/from=1/limit=10001\r\n", want: badLimit},
	{name: "limit twice", in: "get q/from=1/limit=1/limit=1\r\n", want: twice},

	{name: "delete by id", in: "delete q/id=7\r\n", want: `delete "q" id=7`},
	{name: "delete by key", in: "delete q/key=K noreply\r\n", want: `delete "q" key="K" noreply`},
	{name: "delete by a bad id", in: "delete q/id=0\r\n", want: badID},
	{name: "delete by key with a slash", in: "delete q/key=a/b\r\n", want: badKey},
	{name: "delete by id and key", in: "delete q/id=7/key=K\r\n", want: combination},

	{name: "touch by id", in: "touch q/id=7 60\r\n", want: `touch "q" id=7 seconds=60`},
	{name: "touch by key", in: "touch q/key=K 0 noreply\r\n", want: `touch "q" key="K" seconds=0 noreply`},
	{name: "touch by id, below 0", in: "touch q/id=7 -1\r\n", want: badTouchExpiry},
	{name: "touch by id, no seconds", in: "touch q/id=7\r\n", want: badTouchExpiry},
	{name: "touch by id and key", in: "touch q/id=7/key=K 60\r\n", want: badTouch},
	{name: "touch by key with a slash", in: "touch q/key=a/b 60\r\n", want: badKey},
	{name: "touch by a bad id", in: "touch q/id=x 60\r\n", want: badID},
}
