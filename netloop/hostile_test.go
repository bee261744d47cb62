package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// hostileInput is what no client should send, and how it is answered. After each the server goes on
// serving others.
type hostileInput struct {
	name  string
	in    string
	out   string
	close bool
}

var hostileMemcache = []hostileInput{
	{"negative byte count", "set q 0 0 -5\r\n", "CLIENT_ERROR\r\n", true},
	{"20 digits", "set q 0 0 99999999999999999999\r\n", "CLIENT_ERROR\r\n", true},
	{"byte count over 31 bits", "set q 0 0 2147483648\r\n", "CLIENT_ERROR\r\n", true},
	{"no byte count", "set q 0 0\r\n", "CLIENT_ERROR\r\n", true},
	{"byte count in hex", "set q 0 0 0x10\r\n", "CLIENT_ERROR\r\n", true},
	{"300-byte name", "set " + strings.Repeat("n", 300) + " 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"300-byte name, get", "get " + strings.Repeat("n", 300) + "\r\n", "CLIENT_ERROR\r\n", true},
	{"path as name", "set ../x 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"absolute path as name", "set /etc/passwd 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"dots as name", "get ..\r\n", "CLIENT_ERROR\r\n", true},
	{"NUL in name", "set a\x00b 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"HTTP", "GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n", "CLIENT_ERROR\r\n", true},
	{"HTTP root", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "CLIENT_ERROR\r\n", true},
	{"HTTP with commands", "GET /fresh HTTP/1.1\r\nset fresh 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"HTTP DELETE", "DELETE /fresh HTTP/1.1\r\nset fresh 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CLIENT_ERROR\r\n", true},
	{"SSH with commands", "SSH-2.0-OpenSSH_9.9\r\nset fresh 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"TLS hello without a line end", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "CLIENT_ERROR\r\n", true},
	{"TLS hello with commands", "\x16\x03\x01\x02\x00\nset fresh 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"HTTP POST", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", "CLIENT_ERROR\r\n", true},
	{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", "CLIENT_ERROR\r\n", true},
	{"body without CRLF", "set q 0 0 5\r\nhelloXXversion\r\n", "STORED\r\nCLIENT_ERROR\r\n", true},
	{"body longer than said", "set q 0 0 5\r\nhello\r shutdown\r\n", "STORED\r\nCLIENT_ERROR\r\n", true},
	{"body shorter than said", "set q 0 0 5\r\nhi\r\nquit\r\n", "STORED\r\nCLIENT_ERROR\r\n", true},
	{"100 KB line", strings.Repeat("a", 100<<10), "CLIENT_ERROR\r\n", true},
	{"100 KB line of spaces", strings.Repeat(" ", 100<<10), "CLIENT_ERROR\r\n", true},
	{"100 KB key", "get " + strings.Repeat("k", 100<<10) + "\r\n", "CLIENT_ERROR\r\n", true},
	{"empty lines", "\r\n\r\n\r\n", "CLIENT_ERROR\r\n", true},
	{"NULs", strings.Repeat("\x00", 64) + "\n", "CLIENT_ERROR\r\n", true},
	{"unknown command", "frobnicate\r\n", "CLIENT_ERROR\r\n", true},
	{"binary protocol", "\x80\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\n", "CLIENT_ERROR\r\n", true},
	{"binary protocol with commands", "\x80\x0b\x00\x00\nset fresh 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"Redis", "*1\r\n$4\r\nPING\r\n", "CLIENT_ERROR\r\n", true},
	{"Redis with commands", "*2\r\n$4\r\nECHO\r\n$7\r\nset fresh 0 0 1\r\nx\r\n", "CLIENT_ERROR\r\n", true},
	{"options galore", "get q" + strings.Repeat("/x", 3000) + "\r\n", "END\r\n", false},
	{"lease of 20 digits", "get q/lease=99999999999999999999\r\n", "CLIENT_ERROR lease is not a number from 1 to 999999999999\r\n", false},
	{"lease of 0", "gets q/lease=0\r\n", "CLIENT_ERROR lease is not a number from 1 to 999999999999\r\n", false},
	{"delay of 20 digits", "set q/delay=99999999999999999999 0 0 1\r\nx\r\n", "CLIENT_ERROR delay is not a number from 0 to 999999999999\r\n", false},
	{"delay below 0", "set q/delay=-1 0 0 1\r\nx\r\n", "CLIENT_ERROR delay is not a number from 0 to 999999999999\r\n", false},
	{"receipt beyond 64 bits", "get q/close=18446744073709551616\r\n", "CLIENT_ERROR receipt is not a number from 1 to 18446744073709551615\r\n", false},
	{"receipt of nobody", "get q/abort=18446744073709551615\r\n", "CLIENT_ERROR not held\r\n", false},
	{"receipt with letters", "delete q/lease=0x10\r\n", "CLIENT_ERROR receipt is not a number from 1 to 18446744073709551615\r\n", false},
	{"touch for ever", "touch q/lease=1 2147483648\r\n", "CLIENT_ERROR touch needs seconds from 1 to 2147483647\r\n", false},
	{"touch of memcached", "touch q 60\r\n", "CLIENT_ERROR touch needs <queue>/lease, <queue>/lease=<receipt>, <queue>/id=<id> or <queue>/key=<key>\r\n", false},
	{"leases galore", "get q" + strings.Repeat("/lease=1", 1000) + "\r\n", "CLIENT_ERROR an option is given twice\r\n", false},
	{"monitor for ever", "monitor q 2147483647 0\r\n", "END\r\n", false},
	{"confirm too many", "confirm q 2147483647\r\n", "ERROR\r\n", false},
	{"status of another world", "status beyond\r\n", "CLIENT_ERROR\r\n", true},
}

const notText = "-Not a request of the text protocol.\n"

// The text protocol closes where it cannot tell what comes next, and answers otherwise.
var hostileText = []hostileInput{
	{"300-byte name", "get " + strings.Repeat("n", 300) + "\n", "", true},
	{"path as name", "put ../x:\nx\n\n", "", true},
	{"dots as name", "get ..\n", "", true},
	{"NUL in name", "get a\x00b\n", notText, true},
	{"HTTP", "GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n", notText, true},
	{"HTTP POST with commands", "POST / HTTP/1.1\r\nHost: a\r\n\r\nput fresh:\nx\n\n", notText, true},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", notText, true},
	{"RTSP with commands", "SETUP rtsp://h/ RTSP/1.0\r\nput fresh:\nx\n\n", notText, true},
	{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", notText, true},
	{"TLS hello without a line end", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", notText, true},
	{"TLS hello with commands", "\x16\x03\x01\x02\x00\nput fresh:\nx\n\n", notText, true},
	{"SSH with commands", "SSH-2.0-OpenSSH_9.9\r\nput fresh:\nx\n\n", notText, true},
	{"Redis with commands", "*2\r\n$4\r\nECHO\r\n$7\r\nput fresh:\nx\n\n", notText, true},
	{"Redis, inline", "+PING\r\nput fresh:\nx\n\n", notText, true},
	{"memcache binary with commands", "\x80\x0b\x00\x00\nput fresh:\nx\n\n", notText, true},
	{"memcache set with commands", "set q 0 0 15\r\nput fresh:\nx\n\n\r\n", notText, true},
	{"control characters behind a command", "version\nversion \x1b\x01\nput fresh:\nx\n\n", ":3.0.0\n" + notText, true},
	{"spaces", "    \n", "", true},
	{"100 KB line", strings.Repeat("a", 100<<10), "-Request line too long.\n", true},
	{"100 KB line of items", "put q:\n" + strings.Repeat("a", 100<<10) + "\n\n", "+1\n", false},
	{"number over 31 bits", "get q 2147483648\n", "-Error parsing timeout.\n", false},
	{"negative timeout", "get q -1\n", "*\n", false},
	{"meta of something", "get q meta=1\n", "-Meta takes no value.\n", false},
	{"list from nowhere", "list q from=x\n", "-From is not a number from 0 to 18446744073709551615.\n", false},
	{"lease of 20 digits", "get q lease=99999999999999999999\n", "-Lease is not a number from 1 to 999999999999.\n", false},
	{"delay below 0", "put q delay=-1:\nx\n\n", "-Delay is not a number from 0 to 999999999999.\n", false},
	{"receipt beyond 64 bits", "abort q receipt=18446744073709551616\n", "-Receipt is not a number from 1 to 18446744073709551615.\n", false},
	{"monitor for ever", "monitor q -2147483648\n", "*\n", false},
	{"confirm too many", "confirm q 2147483647\n", "-Not that many transactions open.\n", false},
	{"items to a bad name", "put a.b:\nx\nquit\n\n", "", true},
	{"items to a command without", "version:\nshutdown\n\n", ":3.0.0\n", false},
	{"status of another world", "status beyond\n", "-Unknown status.\n", false},
	{"20 digits", "put q 99999999999999999999:\nx\n\n", "-Error parsing expiration time.\n", false},
}

// Thrift frames that are no calls end the connection.
var hostileThrift = []hostileInput{
	{"negative frame", "\xff\xff\xff\xff\x80\x01", "", true},
	{"frame of 2 GiB", "\x7f\xff\xff\xff\x80\x01", "", true},
	{"HTTP", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", true},
	{"memcache", "set q 0 0 1\r\nx\r\n", "", true},
	{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", "", true},
	{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", "", true},
	{"Redis", "*1\r\n$4\r\nPING\r\n", "", true},
	{"binary protocol of memcache", "\x80\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\n", "", true},
	{"empty frame", "\x00\x00\x00\x00", "", true},
	{"zeros", strings.Repeat("\x00", 4096), "", true},
	{"name of 2 GiB", "\x00\x00\x00\x10\x80\x01\x00\x01\x7f\xff\xff\xffput!\x00\x00\x00\x01", "", true},
	{"list of 2 billion items", "\x00\x00\x00\x1f\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01" +
		"\x0b\x00\x01\x00\x00\x00\x01q\x0f\x00\x02\x0b\x7f\xff\xff\xff", "", true},
	{"list of 2 billion keys", "\x00\x00\x00\x1f\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01" +
		"\x0b\x00\x01\x00\x00\x00\x01q\x0f\x00\x05\x0b\x7f\xff\xff\xff", "", true},
	{"list of a billion weights", "\x00\x00\x00\x1b\x80\x01\x00\x01\x00\x00\x00\x07get_any\x00\x00\x00\x01" +
		"\x0f\x00\x04\x08\x40\x00\x00\x00", "", true},
	{"any of no queues", "\x00\x00\x00\x14\x80\x01\x00\x01\x00\x00\x00\x07get_any\x00\x00\x00\x01\x00",
		"\x00\x00\x00j\x80\x01\x00\x03\x00\x00\x00\x07get_any\x00\x00\x00\x01\x0b\x00\x01\x00\x00\x00H" +
			"Internal error processing get_any: 'queue_names must have 1 to 16 names'" +
			"\x08\x00\x02\x00\x00\x00\x06\x00", false},
	{"a reply", "\x00\x00\x00\x10\x80\x01\x00\x02\x00\x00\x00\x03put\x00\x00\x00\x01\x00", "", true},
	{"deep nesting", "\x00\x00\x10\x0b\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01" +
		strings.Repeat("\x0c\x00\x09", 1364),
		"\x00\x00\x005\x80\x01\x00\x03\x00\x00\x00\x03put\x00\x00\x00\x01\x0b\x00\x01" +
			"\x00\x00\x00\x17structs nested too deep\x08\x00\x02\x00\x00\x00\x07\x00", false},
}

func TestHostileInput(t *testing.T) {
	testHostile(t, memcacheProtocol{}, hostileMemcache)
	testHostile(t, textProtocol{}, hostileText)
	testHostile(t, thriftProtocol{}, hostileThrift)
	testHostile(t, burrowProtocol{}, hostileBurrow)
}

func testHostile(t *testing.T, proto protocol, inputs []hostileInput) {
	for _, tt := range inputs {
		t.Run(fmt.Sprintf("%T/%s", proto, tt.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{}, defaults())
				defer ts.stop()
				for _, size := range []int{1 << 20, 1} {
					c, had := ts.dial(proto), ts.stored()
					c.feed([]byte(tt.in), max(size, len(tt.in)/500)) // a piece for each byte of short ones
					if out, ended := c.received(); string(out) != tt.out || ended != tt.close {
						t.Errorf("in pieces of %d: got %q, closed %t, want %q, %t", size, out, ended, tt.out, tt.close)
					}
					if !tt.close {
						c.hangUp()
					}
					if n := ts.stored() - had; n != storedBy(tt.out) {
						t.Errorf("in pieces of %d: %d items are stored, and the reply says %d", size, n, storedBy(tt.out))
					}
					ts.expectService()
				}
				if n := ts.loop.Counters().NotProtocol; tt.out == notText && n != 2 {
					t.Errorf("%d connections counted for not speaking the protocol, want 2", n)
				}
				step := max(len(tt.in)/500, 1) // at every place of most
				for cut := 0; cut < len(tt.in); cut += step {
					c, had := ts.dial(proto), ts.stored()
					c.feed([]byte(tt.in[:cut]), 1<<20)
					out, ended := c.received()
					if !strings.HasPrefix(tt.out, string(out)) || ended && !tt.close {
						t.Errorf("cut at %d: got %q, closed %t", cut, out, ended)
					}
					if !ended {
						c.hangUp()
					}
					n, said := ts.stored()-had, storedBy(string(out))
					if proto == (textProtocol{}) && strings.HasPrefix(tt.in, "put q:\n") && n > 0 {
						said = int64(strings.Count(tt.in[:cut], "\n")) - 1 // an item to a line; the reply is behind the last
					}
					if n != said {
						t.Errorf("cut at %d: %d items are stored, and the reply %q says %d", cut, n, out, said)
					}
				}
				ts.expectService()
				if kept := ts.server.buffered.Load(); kept != 0 {
					t.Errorf("%d bytes of input are still counted as kept", kept)
				}
			})
		})
	}
}

// stored returns how many items puts have stored so far.
func (ts *testServer) stored() int64 { return ts.opts.Engine.Stats().TotalItems }

// storedBy returns how many items the replies of any protocol say are stored.
func storedBy(replies string) int64 {
	n := strings.Count(replies, "STORED\r\n") - strings.Count(replies, "NOT_STORED\r\n")
	return int64(n + strings.Count(replies, "+1\n") + strings.Count(replies, "HTTP/1.1 201 "))
}

// expectService checks that a new client is served.
func (ts *testServer) expectService() {
	ts.t.Helper()
	c := ts.dial(memcacheProtocol{})
	c.feed([]byte("set fresh 0 0 1\r\nx\r\nget fresh\r\n"), 1<<20)
	const want = "STORED\r\nVALUE fresh 0 1\r\nx\r\nEND\r\n"
	if out, ended := c.received(); string(out) != want || ended {
		ts.t.Errorf("a new client got %q, closed %t, want %q", out, ended, want)
	}
	c.hangUp()
}

// An item over the limit is read over to its last byte, whatever it says, and costs no memory.
func TestOversizedItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxItemSize: 100}, defaults())
		defer ts.stop()
		for _, size := range []int{1 << 20, 7, 1} {
			c := ts.dial(memcacheProtocol{})
			body := strings.Repeat("shutdown\r\n", 50)
			c.feed([]byte("set q 0 0 500\r\n"+body+"\r\nversion\r\n"), size)
			const want = "NOT_STORED\r\nVERSION 3.0.0\r\n"
			if out, ended := c.received(); string(out) != want || ended {
				t.Errorf("in pieces of %d: got %q, closed %t, want %q", size, out, ended, want)
			}
			if len(c.session.in) > 0 {
				t.Errorf("%d bytes of a refused item are kept", len(c.session.in))
			}
			c.hangUp()
		}
		c := ts.dial(memcacheProtocol{})
		c.feed([]byte("set q 0 0 2147483647\r\n"+strings.Repeat("x", 1<<20)), 1<<16)
		if out, ended := c.received(); string(out) != "NOT_STORED\r\n" || ended {
			t.Errorf("2 GiB announced: got %q, closed %t", out, ended)
		}
		c.hangUp()
		ts.expectService()
	})
}
