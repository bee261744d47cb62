package netloop

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// said is what a fresh client that sends p gets, " END" behind it if the connection ends, and "" if it
// waits.
func (ts *testServer) said(proto protocol, p string) string {
	c := ts.dial(proto)
	c.feed([]byte(p), 1<<20)
	out, ended := c.received()
	if ended {
		return string(out) + " END"
	}
	c.hangUp()
	return string(out)
}

// edgeNames are names of queues and whether they are legal.
var edgeNames = []struct {
	name  string
	legal bool
}{
	{"a", true},
	{strings.Repeat("n", 250), true},
	{strings.Repeat("n", 255), true},
	{strings.Repeat("n", 256), false},
	{strings.Repeat("n", 4000), false},
	{"a+", true},
	{"a+b", true},
	{"a++b+c", true},
	{"+", false},
	{"++", false},
	{"+a", true},
	{"a/b", false},
	{"a.b", false},
	{"a~b", false},
	{"a\x00b", false},
	{"a\x01b", true},
	{"a\tb", true},
	{"a\x7fb", true},
	{"a\rb", true},
}

// TestEdgesOfNames tests that all protocols agree which names are legal, and that a name is the same queue in all of
// them. A refused name leaves nothing behind.
func TestEdgesOfNames(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		for _, tt := range edgeNames {
			c := ts.dialThrift()
			put := c.call(c.codec.AppendPut(nil, c.next(), []byte(tt.name), 0, []byte("T")))
			stored, done, want := "STORED\r\n", "+1\n", "T M X"
			if !tt.legal {
				stored, done = "CLIENT_ERROR\r\n END", " END"
			}
			if strings.Trim(tt.name, "+") == "" { // the codec refuses it, and knows where the next request is
				stored = "CLIENT_ERROR\r\n"
			}
			if strings.ContainsAny(tt.name, "\x00\x01\x7f") { // in no line of the text protocol
				done, want = "-Not a request of the text protocol.\n END", "T M"
			}
			if put.Failed == tt.legal || put.Count != 0 != tt.legal {
				t.Errorf("%.20q: Thrift put = %+v", tt.name, put)
			}
			if got := ts.said(memcacheProtocol{}, "set "+tt.name+" 0 0 1\r\nM\r\n"); got != stored {
				t.Errorf("%.20q: memcache set: %q, want %q", tt.name, got, stored)
			}
			if got := ts.said(textProtocol{}, "put "+tt.name+":\nX\n\n"); got != done {
				t.Errorf("%.20q: text put: %q, want %q", tt.name, got, done)
			}
			if !tt.legal {
				get := c.call(c.codec.AppendGet(nil, c.next(), []byte(tt.name), everything))
				if !get.Failed {
					t.Errorf("%.20q: Thrift get = %+v, want an exception", tt.name, get)
				}
			} else if got, _ := c.get(tt.name, everything); got != want {
				t.Errorf("%.20q: get: %q, want %q", tt.name, got, want)
			}
			c.hangUp()
			if _, made := ts.opts.Engine.QueueStats(engine.Now(), []byte(tt.name)); made != tt.legal {
				t.Errorf("%.20q: there is a queue: %t, want %t", tt.name, made, tt.legal)
			}
		}
	})
}

// TestEdgesOfForeignNames tests names beyond ASCII. Memcache and text take their bytes for Latin-1.
func TestEdgesOfForeignNames(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		for _, tt := range []struct{ sent, queue string }{
			{"\xe9", "é"},
			{"é", "Ã©"},
			{strings.Repeat("\xff", 127), strings.Repeat("ÿ", 127)},
			{strings.Repeat("\xff", 128), ""}, // 256 bytes
		} {
			stored, done := "STORED\r\n", "+1\n"
			if tt.queue == "" {
				stored, done = "CLIENT_ERROR\r\n END", " END"
			}
			if got := ts.said(memcacheProtocol{}, "set "+tt.sent+" 0 0 1\r\nM\r\n"); got != stored {
				t.Errorf("%.20q: memcache set: %q, want %q", tt.sent, got, stored)
			}
			if got := ts.said(textProtocol{}, "put "+tt.sent+":\nX\n\n"); got != done {
				t.Errorf("%.20q: text put: %q, want %q", tt.sent, got, done)
			}
			if tt.queue == "" {
				continue
			}
			c := ts.dialThrift()
			if got, _ := c.get(tt.queue, everything); got != "M X" {
				t.Errorf("%.20q: Thrift get of %q: %q, want M X", tt.sent, tt.queue, got)
			}
			c.hangUp()
		}
		c := ts.dialThrift()
		defer c.hangUp()
		for _, bad := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} { // no UTF-8
			r := c.call(c.codec.AppendPut(nil, c.next(), []byte(bad), 0, []byte("T")))
			if !r.Failed || !strings.Contains(string(r.Message), "Queue name is not UTF-8.") {
				t.Errorf("Thrift put to %q = %+v", bad, r)
			}
		}
	})
}

// TestEdgesOfSizes tests items around max_item_size, and without a byte. A text item is a line, and
// an empty one ends the put.
func TestEdgesOfSizes(t *testing.T) {
	set := defaults()
	set.Default.MaxItemSize = 1000
	testThrift(t, Options{MaxOpenReads: 10}, set, func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		for _, size := range []int{0, 1, 999, 1000, 1001, 100_000} {
			item, fits := strings.Repeat("x", size), size <= 1000
			memcache, text, count := "NOT_STORED\r\n", "+0\n", int32(0)
			var want []string
			if fits {
				memcache, text, count = "STORED\r\n", "+1\n", 1
				want = []string{item, item, item}
			}
			if size == 0 {
				text, want = "+0\n", want[1:]
			}
			if got := c.put("q", item); got != count {
				t.Errorf("%d bytes: Thrift put = %d, want %d", size, got, count)
			}
			if got := ts.said(memcacheProtocol{}, fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", size, item)); got != memcache {
				t.Errorf("%d bytes: memcache set: %q, want %q", size, got, memcache)
			}
			if got := ts.said(textProtocol{}, "put q:\n"+strings.TrimLeft(item+"\n", "\n")+"\n"); got != text {
				t.Errorf("%d bytes: text put: %q, want %q", size, got, text)
			}
			ts.restart()
			c = ts.dialThrift()
			if got, ids := c.get("q", everything); len(ids) != len(want) || got != strings.Join(want, " ") {
				t.Errorf("%d bytes: %d items of %d bytes came back, want %d", size, len(ids), len(got), len(want))
			}
		}
	})
}

// restart kills the server and starts another.
func (ts *testServer) restart() {
	ts.kill()
	ts.start()
}

// TestEdgesOfExpiry tests when items expire whose expiry is at a border, after a restart too.
func TestEdgesOfExpiry(t *testing.T) {
	const forever, refused, gone = math.MaxInt64, -1, 0
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		now := time.Now().Unix() // of the bubble
		for _, tt := range []struct {
			put string // in memcache, or in text
			is  time.Duration
		}{
			{fmt.Sprintf("set q 0 %d 1\r\nM\r\n", now), gone},
			{fmt.Sprintf("set q 0 %d 1\r\nM\r\n", now+100), 100 * time.Second},
			{"set q 0 0 1\r\nM\r\n", forever},
			{"set q 0 1 1\r\nM\r\n", time.Second},
			{"set q 0 -1 1\r\nM\r\n", gone},
			{"set q 0 -0 1\r\nM\r\n", forever},
			{"set q 0 999999 1\r\nM\r\n", 999_999 * time.Second},
			{"set q 0 1000000 1\r\nM\r\n", gone}, // in 1970
			{"set q 0 2592000 1\r\nM\r\n", gone}, // 30 days are not a border
			{"set q 0 2592001 1\r\nM\r\n", gone},
			{"set q 0 2147483647 1\r\nM\r\n", time.Duration(math.MaxInt32-now) * time.Second},
			{"set q 0 -2147483648 1\r\nM\r\n", gone},
			{"set q 0 2147483648 1\r\nM\r\n", refused},
			{"set q 0 -2147483649 1\r\nM\r\n", refused},
			{"set q 0 9223372036854775807 1\r\nM\r\n", refused},
			{"set q 0 9223372036854775808 1\r\nM\r\n", refused},
			{"set q 0 -9223372036854775809 1\r\nM\r\n", refused},
			{"set q 0 99999999999999999999 1\r\nM\r\n", refused},
			{"put q:\nM\n\n", forever},
			{"put q 0:\nM\n\n", gone},
			{"put q 1:\nM\n\n", time.Millisecond},
			{"put q -1:\nM\n\n", gone},
			{"put q 2147483647:\nM\n\n", math.MaxInt32 * time.Millisecond},
			{"put q -2147483648:\nM\n\n", gone},
			{"put q 2147483648:\nM\n\n", refused},
			{"put q 9223372036854775807:\nM\n\n", refused},
			{"put q 18446744073709551616:\nM\n\n", refused},
		} {
			proto, stored := protocol(memcacheProtocol{}), "STORED\r\n"
			if tt.put[0] == 'p' {
				proto, stored = textProtocol{}, "+1\n"
			}
			got := ts.said(proto, tt.put)
			if (got == stored) != (tt.is != refused) {
				t.Errorf("%q: %q", tt.put, got)
			}
			ts.restart()
			pass(time.Millisecond)
			if there := ts.peeked(); there != (tt.is > 0) {
				t.Errorf("%q: there at once: %t", tt.put, there)
			}
			if tt.is > time.Millisecond && tt.is < time.Hour {
				pass(tt.is - 10*time.Millisecond)
				if !ts.peeked() {
					t.Errorf("%q: gone before %v", tt.put, tt.is)
				}
				pass(20 * time.Millisecond)
				if ts.peeked() {
					t.Errorf("%q: there behind %v", tt.put, tt.is)
				}
			}
			ts.said(memcacheProtocol{}, "flush q\r\n")
		}
		c := ts.dialThrift()
		defer c.hangUp()
		for _, tt := range []struct {
			millis int32
			there  bool
		}{{0, true}, {-1, false}, {math.MinInt32, false}, {1, true}, {math.MaxInt32, true}} {
			c.call(c.codec.AppendPut(nil, c.next(), []byte("q"), tt.millis, []byte("M")))
			if got := ts.peeked(); got != tt.there {
				t.Errorf("Thrift expiry of %d ms: there at once %t, want %t", tt.millis, got, tt.there)
			}
			ts.said(memcacheProtocol{}, "flush q\r\n")
		}
	})
}

// peeked reports whether an item is at the head of q.
func (ts *testServer) peeked() bool {
	return ts.said(memcacheProtocol{}, "get q/peek\r\n") != "END\r\n"
}

// TestEdgesOfNumbers tests numbers at, and beyond, what their places take, on an empty queue. An
// answer of "" is a wait.
func TestEdgesOfNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxOpenReads: 10}, defaults())
		defer ts.stop()
		const bad = "CLIENT_ERROR\r\n END"
		for _, tt := range []struct {
			proto      protocol
			said, want string
		}{
			{memcacheProtocol{}, "get q/t=0\r\n", "END\r\n"},
			{memcacheProtocol{}, "get q/t=-1\r\n", "END\r\n"},
			{memcacheProtocol{}, "get q/t=-2147483648\r\n", "END\r\n"},
			{memcacheProtocol{}, "get q/t=1\r\n", ""},
			{memcacheProtocol{}, "get q/t=2147483647\r\n", ""},
			{memcacheProtocol{}, "get q/t=+7\r\n", ""},
			{memcacheProtocol{}, "get q/t=2147483648\r\n", bad},
			{memcacheProtocol{}, "get q/t=-2147483649\r\n", bad},
			{memcacheProtocol{}, "get q/t=9223372036854775808\r\n", bad},
			{memcacheProtocol{}, "get q/t=" + strings.Repeat("9", 1000) + "\r\n", bad},
			{memcacheProtocol{}, "get q/t=0x10\r\n", bad},
			{memcacheProtocol{}, "get q/t=1e3\r\n", bad},
			{memcacheProtocol{}, "monitor q 2147483647\r\n", ""},
			{memcacheProtocol{}, "monitor q 0\r\n", "END\r\n"},
			{memcacheProtocol{}, "monitor q -1\r\n", "END\r\n"},
			{memcacheProtocol{}, "monitor q 1 0\r\n", "END\r\n"},
			{memcacheProtocol{}, "monitor q 1 2147483647\r\n", ""},
			{memcacheProtocol{}, "monitor q 2147483648\r\n", bad},
			{memcacheProtocol{}, "monitor q 1 2147483648\r\n", bad},
			{memcacheProtocol{}, "confirm q 0\r\n", "ERROR\r\n"},
			{memcacheProtocol{}, "confirm q -1\r\n", "ERROR\r\n"},
			{memcacheProtocol{}, "confirm q 2147483647\r\n", "ERROR\r\n"},
			{memcacheProtocol{}, "confirm q 2147483648\r\n", bad},
			{memcacheProtocol{}, "set f 4294967295 0 1\r\nM\r\nget f\r\n", "STORED\r\nVALUE f 4294967295 1\r\nM\r\nEND\r\n"},
			{memcacheProtocol{}, "set f -1 0 1\r\nM\r\nget f\r\n", "STORED\r\nVALUE f 4294967295 1\r\nM\r\nEND\r\n"},
			{memcacheProtocol{}, "set f -2147483648 0 1\r\nM\r\nget f\r\n", "STORED\r\nVALUE f 2147483648 1\r\nM\r\nEND\r\n"},
			{memcacheProtocol{}, "set f 4294967296 0 1\r\nM\r\n", "CLIENT_ERROR\r\n"},
			{memcacheProtocol{}, "set f -2147483649 0 1\r\nM\r\n", "CLIENT_ERROR\r\n"},
			{memcacheProtocol{}, "set f 18446744073709551616 0 1\r\nM\r\n", "CLIENT_ERROR\r\n"},
			{memcacheProtocol{}, "set q 0 0 -1\r\n", bad},
			{memcacheProtocol{}, "set q 0 0 2147483648\r\n", bad},
			{memcacheProtocol{}, "set q 0 0 18446744073709551617\r\n", bad},
			{textProtocol{}, "get q 0\n", "*\n"},
			{textProtocol{}, "get q -2147483648\n", "*\n"},
			{textProtocol{}, "get q 2147483647\n", ""},
			{textProtocol{}, "get q 2147483648\n", "-Error parsing timeout.\n"},
			{textProtocol{}, "get q 18446744073709551617\n", "-Error parsing timeout.\n"},
			{textProtocol{}, "peek q 2147483648\n", "-Error parsing timeout.\n"},
			{textProtocol{}, "monitor q 2147483647\n", ""},
			{textProtocol{}, "monitor q -1\n", "*\n"},
			{textProtocol{}, "monitor q 2147483648\n", " END"},
			{textProtocol{}, "confirm q 0\n", "-Not that many transactions open.\n"},
			{textProtocol{}, "confirm q -2147483648\n", "-Not that many transactions open.\n"},
			{textProtocol{}, "confirm q 2147483648\n", " END"},
		} {
			if got := ts.said(tt.proto, tt.said); got != tt.want {
				t.Errorf("%.60q: %q, want %q", tt.said, got, tt.want)
			}
		}
		c := ts.dialThrift()
		defer c.hangUp()
		for _, tt := range []struct {
			thrift.GetOptions
			items int
		}{
			{thrift.GetOptions{MaxItems: math.MinInt32}, 3},
			{thrift.GetOptions{MaxItems: math.MaxInt32}, 3},
			{thrift.GetOptions{MaxItems: 0}, 0},
			{thrift.GetOptions{MaxItems: 3, WaitMillis: math.MaxInt32}, 3},
			{thrift.GetOptions{MaxItems: 3, WaitMillis: math.MinInt32}, 0},
			{thrift.GetOptions{MaxItems: 3, AutoAbortMillis: math.MaxInt32}, 3},
			{thrift.GetOptions{MaxItems: math.MaxInt32, AutoAbortMillis: 1}, 3},
			{thrift.GetOptions{MaxItems: 3, AutoAbortMillis: math.MinInt32}, 3},
		} {
			c.put("n", "a", "b", "c")
			if items, ids := c.get("n", tt.GetOptions); len(ids) != tt.items {
				t.Errorf("%+v: %q, want %d items", tt.GetOptions, items, tt.items)
			}
			ts.said(memcacheProtocol{}, "delete n\r\n")
		}
	})
}
