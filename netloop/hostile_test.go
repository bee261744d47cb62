package netloop

import (
	"strings"
	"testing"
	"testing/synctest"
)

// hostileInputs are what no client should send, and how each is answered. After each the server goes on
// serving others.
var hostileInputs = []struct {
	name  string
	in    string
	out   string
	close bool
}{
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
	{"HTTP root", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "CLIENT_ERROR\r\nCLIENT_ERROR\r\n", true},
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
	{"Redis", "*1\r\n$4\r\nPING\r\n", "CLIENT_ERROR\r\n", true},
	{"options galore", "get q" + strings.Repeat("/x", 3000) + "\r\n", "END\r\n", false},
	{"monitor for ever", "monitor q 2147483647 0\r\n", "END\r\n", false},
	{"confirm too many", "confirm q 2147483647\r\n", "ERROR\r\n", false},
	{"status of another world", "status beyond\r\n", "CLIENT_ERROR\r\n", true},
}

func TestHostileInput(t *testing.T) {
	for _, tt := range hostileInputs {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{}, defaults())
				defer ts.stop()
				for _, size := range []int{1 << 20, 1} {
					c := ts.dial(memcacheProtocol{})
					c.feed([]byte(tt.in), max(size, len(tt.in)/500)) // a piece for each byte of short ones
					if out, ended := c.received(); string(out) != tt.out || ended != tt.close {
						t.Errorf("in pieces of %d: got %q, closed %t, want %q, %t", size, out, ended, tt.out, tt.close)
					}
					if !tt.close {
						c.hangUp()
					}
					ts.expectService()
				}
				step := max(len(tt.in)/50, 1)
				for cut := 0; cut < len(tt.in); cut += step {
					c := ts.dial(memcacheProtocol{})
					c.feed([]byte(tt.in[:cut]), 1<<20)
					if out, ended := c.received(); !strings.HasPrefix(tt.out, string(out)) || ended && !tt.close {
						t.Errorf("cut at %d: got %q, closed %t", cut, out, ended)
					}
					if _, ended := c.received(); !ended {
						c.hangUp()
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
