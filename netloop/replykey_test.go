package netloop

import (
	"testing"
	"testing/synctest"
)

// TestReplyKey tests what the reply to a GET names, whether the item was there or came later.
func TestReplyKey(t *testing.T) {
	for _, tt := range []struct {
		withKey      bool
		open, waited string
	}{
		{false, "jobs", "jobs"},
		{true, "jobs/t=1000/open", "jobs/t=500/"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServer(t, Options{ReplyWithKey: tt.withKey, MaxOpenReads: 2}, defaults())
			defer ts.stop()
			c, other := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
			say := func(c *testClient, request, want string) {
				t.Helper()
				c.feed([]byte(request), 1<<10)
				got, _ := c.received()
				c.consume(len(got))
				if string(got) != want {
					t.Errorf("withKey %v: %q answers %q, want %q", tt.withKey, request, got, want)
				}
			}
			say(c, "set jobs 0 0 1\r\na\r\nget jobs/t=1000/open\r\nget jobs/close\r\n",
				"STORED\r\nVALUE "+tt.open+" 0 1\r\na\r\nEND\r\nEND\r\n")
			say(c, "get jobs/t=500/\r\n", "")
			say(other, "set jobs 0 0 1\r\nb\r\n", "STORED\r\n")
			say(c, "", "VALUE "+tt.waited+" 0 1\r\nb\r\nEND\r\n")
			say(c, "set jobs 0 0 1\r\nc\r\nget jobs\r\n", "STORED\r\nVALUE jobs 0 1\r\nc\r\nEND\r\n")
		})
	}
}
