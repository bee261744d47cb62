package netloop

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// TestTooManyChildren tests what clients get that would make one fanout child too many, and that their
// connections stay.
func TestTooManyChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		var gets bytes.Buffer
		for i := range engine.DefaultMaxFanoutChildren {
			fmt.Fprintf(&gets, "get p+%d\r\n", i)
		}
		c := ts.dial(memcacheProtocol{})
		c.feed(gets.Bytes(), gets.Len())
		c.hangUp()
		refusesQueue(t, ts, "too many fanout children")
	})
}

// TestNoMemoryForQueue tests the same of clients that would make a queue past the memory limit.
func TestNoMemoryForQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		e := ts.opts.Engine
		all := e.Stats().MemoryLimit
		e.Account(all)
		refusesQueue(t, ts, "out of memory")
		e.Account(-all)
	})
}

// refusesQueue tests that no client makes the queue p+x, for that reason, in any protocol.
func refusesQueue(t *testing.T, ts *testServer, reason string) {
	t.Helper()
	peek := thrift.Call{Method: thrift.MethodPeek, Seq: 3}
	for _, tt := range []struct {
		proto         protocol
		request, want string
	}{
		{memcacheProtocol{}, "set p+x 0 0 1\r\ny\r\n", "SERVER_ERROR " + reason + "\r\n"},
		{memcacheProtocol{}, "get p+x/open\r\n", "SERVER_ERROR " + reason + "\r\n"},
		{textProtocol{}, "put p+x:\ny\n\n", "-" + reason + "\n"},
		{textProtocol{}, "get p+x\n", "-" + reason + "\n"},
		{
			thriftProtocol{}, string(thrift.Client{}.AppendCall(nil, peek.Method, peek.Seq, []byte("p+x"))),
			string(thrift.AppendInternalError(nil, peek, reason)),
		},
	} {
		c := ts.dial(tt.proto)
		c.feed([]byte(tt.request), 100)
		if got, ended := c.received(); string(got) != tt.want || ended {
			t.Errorf("%q got %q, closed = %t, want %q", tt.request, got, ended, tt.want)
		}
	}
}
