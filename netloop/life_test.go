package netloop

import (
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
)

// TestEndedInATurn ends a connection in the turn in which it has put an item, as an operator or a stop does. The reply is
// sent all the same, unless its client cannot read it.
func TestEndedInATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, engine.Settings{Default: engine.DefaultQueueOptions()})
		defer ts.stop()
		for canRead, want := range map[bool]string{true: "STORED\r\n", false: ""} {
			c := ts.dial(memcacheProtocol{})
			ts.do(func() {
				ts.loop.begin()
				c.session.receive([]byte("set q 0 0 1\r\nx\r\n"))
				ts.loop.endSession(&c.session, canRead)
				ts.server.connections.Add(-1)
				ts.loop.tick()
			})
			if got, _ := c.received(); string(got) != want {
				t.Errorf("a client that can read (%t) got %q, want %q", canRead, got, want)
			}
		}
	})
}
