package netloop

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
)

// orderedSink is a sink that notes in a list which of several sessions was sent something.
type orderedSink struct {
	*testClient
	name string
	sent *[]string
}

func (o orderedSink) send(p []byte) {
	*o.sent = append(*o.sent, o.name)
	o.testClient.send(p)
}

// Of one turn, replies with items leave before all others, whoever asked first. Those of a session that was waiting
// leave early too. Without that, producers stay a round ahead of consumers, and a queue that was long once stays so.
// With one loop over dirty in tick.go, this test fails.
func TestItemsLeaveFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		var sent []string
		clients := make(map[string]*testClient)
		for _, name := range []string{"producer", "waiting", "other", "consumer"} {
			c := ts.dial(memcacheProtocol{})
			ts.do(func() { c.session.sink = orderedSink{c, name, &sent} })
			clients[name] = c
			defer c.hangUp()
		}
		clients["waiting"].feed([]byte("get q/t=1000\r\n"), 100)
		ts.do(func() {
			ts.loop.begin()
			clients["producer"].session.receive(bytes.Repeat([]byte("set q 0 0 1\r\nx\r\n"), 2))
			clients["other"].session.receive([]byte("version\r\n"))
			clients["consumer"].session.receive([]byte("get q\r\n"))
			ts.loop.tick()
		})
		if len(sent) != 4 {
			t.Fatalf("replies to %v, want all four", sent)
		}
		if got := slices.Sorted(slices.Values(sent[:2])); !slices.Equal(got, []string{"consumer", "waiting"}) {
			t.Errorf("replies left in the order %v, want those with items first", sent)
		}
	})
}

// What has come while a turn was handled shares its sync, if the loop is to wait for that. A poller
// without a second look fails here.
func TestSecondLookBeforeSync(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, engine.DefaultQueueOptions(), 2)
		before := lt.server.Metrics().Syncs.Total()
		lt.put(0, 1, 1)
		lt.happens = func() { lt.put(1, 1, 1) } // the first look sees one of the two
		lt.want("one turn", lt.turn(0), 1, 1)
		lt.wantReplies(0, 1)
		lt.wantReplies(1, 1)
		if n := lt.server.Metrics().Syncs.Total() - before; n != 1 {
			t.Errorf("%d syncs for two puts, want 1", n)
		}
	})
}
