package netloop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// clearQueues are more than a loop flushes at once.
const clearQueues = 10 * clearAtOnce

// fillQueues puts an item into each of clearQueues queues; it has expired when the test goes on.
func fillQueues(ts *testServer, exptime int) {
	var puts bytes.Buffer
	for i := range clearQueues {
		fmt.Fprintf(&puts, "set queue%04d 0 %d 1\r\nx\r\n", i, exptime)
	}
	c := ts.dial(memcacheProtocol{})
	c.feed(puts.Bytes(), puts.Len())
	c.hangUp()
}

func expectNothing(ts *testServer) {
	ts.t.Helper()
	for _, q := range ts.opts.Engine.Queues(engine.Now()) {
		if q.Items > 0 {
			ts.t.Errorf("queue %q still has %d items", q.Name, q.Items)
		}
	}
}

// TestClearLeavesLoop tests that a loop does not flush many queues itself. The requests that are pipelined behind the
// flush are handled after it.
func TestClearLeavesLoop(t *testing.T) {
	flushAll := thrift.Call{Method: thrift.MethodFlushAllQueues, Seq: 7}
	for _, tt := range []struct {
		name          string
		proto         protocol
		request, want string
	}{
		{"flush_all", memcacheProtocol{}, "flush_all\r\n", "Flushed all queues.\r\n"},
		{"flush_all noreply", memcacheProtocol{}, "flush_all noreply\r\n", ""},
		{"flush_all_expired", memcacheProtocol{}, "flush_all_expired\r\n", fmt.Sprint(clearQueues, "\r\n")},
		{
			"flush_all_queues", thriftProtocol{},
			string(thrift.Client{}.AppendCall(nil, flushAll.Method, flushAll.Seq, nil)),
			string(thrift.AppendVoid(nil, flushAll)),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{}, defaults())
				defer ts.stop()
				fillQueues(ts, -1)
				c := ts.dial(tt.proto)
				pipeline, want := tt.request, tt.want
				if tt.proto == (memcacheProtocol{}) {
					pipeline += "set queue0000 0 0 1\r\ny\r\nget queue0000\r\n"
					want += "STORED\r\nVALUE queue0000 0 1\r\ny\r\nEND\r\n"
				}
				ts.do(func() {
					ts.loop.begin()
					c.session.receive([]byte(pipeline))
					if len(c.session.out) > 0 || c.session.state != waiting || c.session.wait.kind != waitJob {
						t.Errorf("the loop has done it all, and has %q to send", c.session.out)
					}
					ts.loop.tick()
				})
				if got, _ := c.received(); string(got) != want {
					t.Errorf("got %q, want %q", got, want)
				}
				expectNothing(ts)
			})
		})
	}
}

// TestClearHangUp tests that a flush goes on when its client has gone, and that others are served.
func TestClearHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		fillQueues(ts, 0)
		c := ts.dial(memcacheProtocol{})
		ts.do(func() {
			ts.loop.begin()
			c.session.receive([]byte("flush_all\r\n"))
			ts.loop.endSession(&c.session, false)
			ts.server.connections.Add(-1)
			ts.loop.tick()
		})
		expectNothing(ts)
		other := ts.dial(memcacheProtocol{})
		other.feed([]byte("flush_all\r\n"), 100)
		if got, _ := other.received(); string(got) != "Flushed all queues.\r\n" {
			t.Errorf("another client got %q", got)
		}
	})
}

// TestClearAtStop tests that the server gives a flush up when it has stopped waiting for requests. The client does not
// hear of a success.
func TestClearAtStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		var puts strings.Builder
		for i := range 3 * clearPiece {
			fmt.Fprintf(&puts, "get queue%05d\r\n", i)
		}
		c := ts.dial(memcacheProtocol{})
		c.feed([]byte(puts.String()), puts.Len())
		before, _ := c.received()
		ts.server.cutOff.Store(true)
		c.feed([]byte("flush_all\r\n"), 100)
		got, ended := c.received()
		if got = got[len(before):]; string(got) != "SERVER_ERROR\r\n" || !ended {
			t.Errorf("got %q, closed = %t, want SERVER_ERROR and the end", got, ended)
		}
	})
}
