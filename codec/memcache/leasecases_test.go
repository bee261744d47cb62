package memcache

import "strings"

// Results of decodeString that several cases of leases share.
const (
	twice       = `reply "CLIENT_ERROR an option is given twice\r\n": an option is given twice`
	combination = `reply "CLIENT_ERROR these options do not go together\r\n": these options do not go together`
	badOr       = `reply "CLIENT_ERROR or needs the name of a queue\r\n": or needs the name of a queue`
	badWeight   = `reply "CLIENT_ERROR weight is not a number from 1 to 1000000\r\n": ` +
		`weight is not a number from 1 to 1000000`
	badLease = `reply "CLIENT_ERROR lease is not a number from 1 to 999999999999\r\n": ` +
		`lease is not a number from 1 to 999999999999`
	badDelay = `reply "CLIENT_ERROR delay is not a number from 0 to 999999999999\r\n": ` +
		`delay is not a number from 0 to 999999999999`
	badReceipt = `reply "CLIENT_ERROR receipt is not a number from 1 to 18446744073709551615\r\n": ` +
		`receipt is not a number from 1 to 18446744073709551615`
	badTouch = `reply "CLIENT_ERROR touch needs <queue>/lease, <queue>/lease=<receipt>, <queue>/id=<id> or <queue>/key=<key>\r\n": ` +
		`touch needs <queue>/lease, <queue>/lease=<receipt>, <queue>/id=<id> or <queue>/key=<key>`
	badSeconds = `reply "CLIENT_ERROR touch needs seconds from 1 to 2147483647\r\n": ` +
		`touch needs seconds from 1 to 2147483647`
)

// leaseTests are the decodeTests of leases and delays.
var leaseTests = []decodeTest{
	{name: "set with a delay", in: "set q/delay=5000 0 0 1\r\nx\r\n", want: setQ + " delay=5000"},
	{name: "set with a delay of 0", in: "set q/delay=0 0 0 1\r\nx\r\n", want: setQ + " delay=0"},
	{name: "set with the longest delay", in: "set q/delay=999999999999 0 0 1\r\nx\r\n",
		want: setQ + " delay=999999999999"},
	{name: "set with a delay and a slash", in: "set q/delay=1/ 0 0 1\r\nx\r\n", want: setQ + " delay=1"},
	{name: "set with a delay, too large", d: Decoder{MaxItem: 4}, in: "set q/delay=1 0 0 5\r\n",
		want: `too large "q" skip=7`},
	{name: "delay too long", in: "set q/delay=1000000000000 0 0 1\r\nx\r\n", want: badDelay},
	{name: "delay beyond 64 bits", in: "set q/delay=18446744073709551617 0 0 1\r\nx\r\n", want: badDelay},
	{name: "delay below 0", in: "set q/delay=-1 0 0 1\r\nx\r\n", want: badDelay},
	{name: "delay with a plus", in: "set q/delay=+1 0 0 1\r\nx\r\n", want: badDelay},
	{name: "delay that is empty", in: "set q/delay= 0 0 1\r\nx\r\n", want: badDelay},
	{name: "delay without a number", in: "set q/delay 0 0 1\r\nx\r\n", want: badDelay},
	{name: "delay twice", in: "set q/delay=1/delay=1 0 0 1\r\nx\r\n", want: twice},
	{name: "bad delay and noreply", in: "set q/delay=x 0 0 1 noreply\r\nx\r\n", want: badDelay + " (noreply)"},
	{name: "bad delay, too large", d: Decoder{MaxItem: 4}, in: "set q/delay=x 0 0 5\r\n",
		want: `too large "q" skip=7`},
	{name: "flags come before delay", in: "set q/delay=x y 0 1\r\nx\r\n", want: badFlags},
	{name: "set into plus with a delay", in: "set +/delay=1 0 0 1\r\nx\r\n", want: plusName},
	{name: "set with another option", in: "set q/delay=1/foo=2 0 0 1\r\nx\r\n",
		want: `set "q/delay=1/foo=2" flags=0 expiry=0 data="x"`},
	{name: "set with a delay and no name", in: "set /delay=1 0 0 1\r\nx\r\n",
		want: `set "/delay=1" flags=0 expiry=0 data="x"`},

	{name: "several queues", in: "get a/or=b/or=c/t=5\r\n", want: `get "a" a*0 b*0 c*0 wait=5`},
	{name: "several queues with weights", in: "get a/weight=3/or=b/open/weight=1/or=c\r\n",
		want: `get "a" a*3 b*1 c*0 open`},
	{name: "a weight alone", in: "gets a/lease=7/weight=1000000\r\n", want: `get "a" a*1000000 cas lease=7`},
	{name: "several queues, peek and meta", in: "get a/or=b/peek/meta\r\n", want: `get "a" a*0 b*0 peek meta`},
	{name: "or without a queue", in: "get a/or=\r\n", want: badOr},
	{name: "or without a value", in: "get a/or\r\n", want: badOr},
	{name: "or of plus signs", in: "get a/or=+\r\n", want: badOr},
	{name: "weight of 0", in: "get a/weight=0\r\n", want: badWeight},
	{name: "weight below 0", in: "get a/or=b/weight=-1\r\n", want: badWeight},
	{name: "weight too large", in: "get a/weight=1000001\r\n", want: badWeight},
	{name: "weight without a number", in: "get a/weight\r\n", want: badWeight},
	{name: "weight twice", in: "get a/weight=1/weight=2\r\n", want: twice},
	{name: "16 queues", in: "get a" + strings.Repeat("/or=b", 15) + "\r\n", want: `get "a" a*0` + strings.Repeat(" b*0", 15)},
	{name: "17 queues", in: "get a" + strings.Repeat("/or=b", 16) + "\r\n",
		want: `reply "CLIENT_ERROR more than 16 queues\r\n": more than 16 queues`},
	{name: "300 queues", in: "get a" + strings.Repeat("/or=b", 300) + "\r\n",
		want: `reply "CLIENT_ERROR more than 16 queues\r\n": more than 16 queues`},
	{name: "several and close", in: "get a/or=b/close\r\n", want: combination},
	{name: "several and abort", in: "get a/or=b/abort=3\r\n", want: combination},
	{name: "several and release", in: "get a/or=b/release\r\n", want: combination},
	{name: "several and delay", in: "get a/or=b/delay=3\r\n", want: combination},

	{name: "lease with a receipt", in: "gets q/lease=30000\r\n", want: `get "q" cas lease=30000`},
	{name: "lease and wait", in: "GETS q/lease=30000/t=1000\r\n", want: `get "q" wait=1000 cas lease=30000`},
	{name: "lease of the connection", in: "get q/lease=30000\r\n", want: `get "q" lease=30000`},
	{name: "lease of the queue", in: "get q/lease\r\n", want: `get "q" lease=0`},
	{name: "close and lease", in: "get q/close/lease=1\r\n", want: `get "q" close lease=1`},
	{name: "longest lease", in: "get q/lease=999999999999\r\n", want: `get "q" lease=999999999999`},
	{name: "lease of 0", in: "get q/lease=0\r\n", want: badLease},
	{name: "lease below 0", in: "get q/lease=-5\r\n", want: badLease},
	{name: "lease too long", in: "get q/lease=1000000000000\r\n", want: badLease},
	{name: "lease that is empty", in: "get q/lease=\r\n", want: badLease},
	{name: "lease that is no number", in: "get q/lease=abc\r\n", want: badLease},
	{name: "lease twice", in: "get q/lease=1/lease=1\r\n", want: twice},
	{name: "lease and open", in: "get q/lease=1/open\r\n", want: combination},
	{name: "lease and peek", in: "get q/lease=1/peek\r\n", want: combination},
	{name: "lease and abort", in: "get q/lease=1/abort\r\n", want: combination},
	{name: "lease and release", in: "get q/lease=1/release=2\r\n", want: combination},
	{name: "lease and delay", in: "get q/lease=1/delay=2\r\n", want: combination},
	{name: "lease and close by receipt", in: "get q/close=1/lease=2\r\n", want: combination},
	{name: "bad lease and bad wait", in: "get q/lease=0/t=x\r\n", want: badWait},
	{name: "bad lease of the empty name", in: "get /lease=0\r\n", want: badLease},
	{name: "lease of the empty name", in: "get /lease=1\r\n", want: emptyName},

	{name: "close by receipt", in: "get q/close=18446744073709551615\r\n",
		want: `get "q" close receipt=18446744073709551615`},
	{name: "abort by receipt", in: "get q/abort=7\r\n", want: `get "q" abort receipt=7`},
	{name: "abort by receipt with a delay", in: "get q/abort=7/delay=300\r\n",
		want: `get "q" abort receipt=7 delay=300`},
	{name: "delay before abort", in: "get q/delay=0/abort\r\n", want: `get "q" abort delay=0`},
	{name: "release by receipt", in: "get q/release=7\r\n", want: `get "q" release receipt=7`},
	{name: "release with a delay", in: "get q/release/delay=300\r\n", want: `get "q" release delay=300`},
	{name: "reject by receipt", in: "get q/reject=7\r\n", want: `get "q" reject receipt=7`},
	{name: "reject", in: "get q/reject\r\n", want: `get "q" reject`},
	{name: "reject with a delay", in: "get q/reject/delay=300\r\n", want: combination},
	{name: "close with a delay", in: "get q/close=7/delay=300\r\n", want: combination},
	{name: "delay alone", in: "get q/delay=300\r\n", want: combination},
	{name: "bad delay of an abort", in: "get q/abort/delay=x\r\n", want: badDelay},
	{name: "delay of an abort twice", in: "get q/abort/delay=1/delay=2\r\n", want: twice},
	{name: "receipt of 0", in: "get q/close=0\r\n", want: badReceipt},
	{name: "receipt beyond 64 bits", in: "get q/close=18446744073709551616\r\n", want: badReceipt},
	{name: "receipt that is empty", in: "get q/abort=\r\n", want: badReceipt},
	{name: "receipt that is no number", in: "get q/release=7x\r\n", want: badReceipt},
	{name: "two receipts", in: "get q/close=1/abort=2\r\n", want: combination},
	{name: "the same receipt twice", in: "get q/close=1/close=1\r\n", want: twice},
	{name: "close with and without a receipt", in: "get q/close/close=1\r\n", want: twice},
	{name: "release twice", in: "get q/release/release\r\n", want: twice},
	{name: "release and reject", in: "get q/release/reject\r\n", want: combination},
	{name: "release and abort", in: "get q/release/abort\r\n", want: combination},
	{name: "release and close", in: "get q/release/close\r\n", want: combination},
	{name: "release and open", in: "get q/release/open\r\n", want: combination},
	{name: "close by receipt and peek", in: "get q/close=1/peek\r\n", want: combination},

	{name: "meta", in: "get q/meta\r\n", want: `get "q" meta`},
	{name: "meta of a peek", in: "get q/peek/meta\r\n", want: `get "q" peek meta`},
	{name: "meta of an open read", in: "get q/close/open/meta\r\n", want: `get "q" open close meta`},
	{name: "meta of a lease", in: "gets q/lease=5/meta\r\n", want: `get "q" cas lease=5 meta`},
	{name: "meta of a close", in: "get q/close/meta\r\n", want: combination},
	{name: "meta of an abort", in: "get q/abort/meta\r\n", want: combination},
	{name: "meta of open and peek", in: "get q/open/peek/meta\r\n", want: combination},
	{name: "meta twice", in: "get q/meta/meta\r\n", want: twice},
	{name: "options with values that have none", in: "get q/open=1/peek=1/meta=1\r\n", want: `get "q"`},
	{name: "lease in upper case", in: "get q/LEASE=5\r\n", want: `get "q"`},

	{name: "touch", in: "touch q/lease=7 30\r\n", want: `touch "q" receipt=7 seconds=30`},
	{name: "touch the oldest", in: "TOUCH q/lease 30\r\n", want: `touch "q" seconds=30`},
	{name: "touch and noreply", in: "touch q/lease=7 30 noreply\r\n",
		want: `touch "q" receipt=7 seconds=30 noreply`},
	{name: "touch a queue", in: "touch q 30\r\n", want: badTouch},
	{name: "touch with another option", in: "touch q/open 30\r\n", want: badTouch},
	{name: "touch with two options", in: "touch q/lease=1/meta 30\r\n", want: badTouch},
	{name: "touch alone", in: "touch\r\n", want: missing},
	{name: "touch without seconds", in: "touch q/lease=7\r\n", want: badSeconds},
	{name: "touch with 0 seconds", in: "touch q/lease=7 0\r\n", want: badSeconds},
	{name: "touch with -1 seconds", in: "touch q/lease=7 -1\r\n", want: badSeconds},
	{name: "touch beyond 31 bits", in: "touch q/lease=7 2147483648\r\n", want: badSeconds},
	{name: "touch with a bad receipt", in: "touch q/lease=x 30\r\n", want: badReceipt},
	{name: "bad touch and noreply", in: "touch q/lease=x 30 noreply\r\n", want: badReceipt + " (noreply)"},

	{name: "delete a lease", in: "delete q/lease=7\r\n", want: `delete "q" receipt=7`},
	{name: "delete a lease and noreply", in: "delete q/lease=7 noreply\r\n",
		want: `delete "q" receipt=7 noreply`},
	{name: "delete without a receipt", in: "delete q/lease\r\n", want: badReceipt},
	{name: "delete with a bad receipt", in: "delete q/lease=0\r\n", want: badReceipt},
	{name: "delete with more options", in: "delete q/lease=7/x\r\n", want: badReceipt},
	{name: "delete with another option", in: "delete q/x\r\n", want: `delete "q/x"`},
}
