package netloop

import (
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/netloop/ports"
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

// TestReplyKeyOfListener tests that each listener may have its own, and that one without follows the server.
func TestReplyKeyOfListener(t *testing.T) {
	for _, tt := range []struct {
		all  bool
		key  ReplyKey
		want string
	}{
		{false, "", "jobs"}, {false, ReplyRequest, "jobs/open"}, {false, ReplyQueue, "jobs"},
		{true, "", "jobs/open"}, {true, ReplyQueue, "jobs"},
	} {
		s := startServer(t, DefaultEventLoop, Options{ReplyWithKey: tt.all, Listeners: []Listener{{
			Protocol: ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, ReplyKey: tt.key,
		}}}, unsynced())
		open := s.Ports()
		for at, want := range map[string]string{
			open[len(open)-1].Name: tt.want, open[0].Name: map[bool]string{true: "jobs/open", false: "jobs"}[tt.all],
		} {
			p := dialAt(t, at)
			p.send("set jobs 0 0 1\r\na\r\nget jobs/open\r\nget jobs/close\r\nset jobs 0 0 1\r\nb\r\nget jobs/open/or=mail\r\n")
			p.expect("STORED\r\nVALUE " + want + " 0 1\r\na\r\nEND\r\nEND\r\nSTORED\r\n")
			several := "jobs"
			if want != several {
				several = "jobs/open/or=mail"
			}
			p.expect("VALUE " + several + " 0 1\r\nb\r\nEND\r\n")
		}
	}
	for _, l := range []Listener{
		{Protocol: ProtocolText, Port: ports.Spec{Address: "127.0.0.1:0"}, ReplyKey: ReplyRequest},
		{Protocol: ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, ReplyKey: "item"},
	} {
		if err := l.Validate(); err == nil {
			t.Errorf("a listener %+v is valid", l)
		}
	}
}
