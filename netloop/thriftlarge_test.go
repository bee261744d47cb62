package netloop

import (
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// TestThriftLargePutStaysOutOfAccounts tests that no put reaches a queue of an account, also one that is so large that
// a job decodes it. Only Burrow's clients reach them.
func TestThriftLargePutStaysOutOfAccounts(t *testing.T) {
	testThrift(t, Options{}, defaults(), func(t *testing.T, ts *testServer) {
		for _, size := range []int{1, 2 * largeCall} {
			c := ts.dialThrift()
			c.feed(c.codec.AppendPut(nil, c.next(), []byte("acme/work"), 0, make([]byte, size)), 4<<10)
			pass(time.Second)
			if out, _ := c.received(); !strings.Contains(string(out), "illegal characters") {
				t.Errorf("%d bytes for acme/work: %q", size, out)
			}
			c.hangUp()
		}
		ts.do(func() {
			if _, ok := ts.loop.engine.QueueStats(engine.Now(), []byte("acme/work")); ok {
				t.Error("the queue of an account exists")
			}
		})
	})
}

// TestQuotaOfManyLargeCalls: a user that sends large puts over many connections at the same moment gets no more through
// than over one. A build that charges for the items when they are stored lets each have a minute's worth.
func TestQuotaOfManyLargeCalls(t *testing.T) {
	withQuota(t, access.Quota{Operations: 2000}, func(t *testing.T, qs *quotaServer) {
		const items, connections = 70_000, 20
		frame := thrift.Client{}.AppendPut(nil, 1, []byte("work"), 0, make([][]byte, items)...)
		if len(frame) <= largeCall {
			t.Fatalf("a call of %d bytes is not large", len(frame))
		}
		var all []*testClient
		for range connections {
			all = append(all, qs.as(thriftProtocol{}, "alice"))
		}
		qs.do(func() { // in one turn: no job has ended when the last begins
			qs.loop.begin()
			for _, c := range all {
				c.session.receive(frame[:len(frame)-1])
				c.session.receive(frame[len(frame)-1:])
			}
			qs.loop.tick()
		})
		pass(time.Second)
		refused := 0
		for _, c := range all {
			out, _ := c.received()
			refused += strings.Count(string(out), "over quota: 2000 operations a second")
		}
		if stored := qs.items("work"); stored != items || refused != connections-1 {
			t.Errorf("%d items are stored, and %d calls are refused; want those of one call, and all others", stored, refused)
		}
		qs.hangUpAll()
	})
}
