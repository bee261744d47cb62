package netloop

import (
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
)

// TestItemOnItsWayToNobody tests that an item which was on its way to a client that has gone does not count as
// delivered.
func TestItemOnItsWayToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxOpenReads: 1}, defaults())
		defer ts.stop()
		for _, get := range []string{"get q/t=5000\r\n", "gets q/lease=5000/t=5000\r\n", "get q/lease=5000/t=5000\r\n"} {
			waiting := ts.dial(memcacheProtocol{})
			waiting.feed([]byte(get), len(get))
			before := ts.server.Counters().DeliveredToDead
			ts.do(func() {
				puts := []engine.PutRequest{{Data: []byte("x")}}
				if _, err := ts.opts.Engine.PutAll(engine.Now(), []byte("q"), puts); err != nil {
					t.Error(err)
				}
				ts.loop.endSession(&waiting.session, false) // before it hears of the item
			})
			ts.do(func() { ts.loop.copyCounters() })
			if got := ts.server.Counters().DeliveredToDead - before; got != 1 {
				t.Errorf("%q: %d items were brought back, want 1", get, got)
			}
			got := ts.said(memcacheProtocol{}, "get q/meta\r\n")
			if !regexp.MustCompile(`"deliveries":1,`).MatchString(got) {
				t.Errorf("%q: the next client gets %q, want the first delivery", get, got)
			}
		}
	})
}

// TestLapsedReadsAreForgotten tests that a session keeps no read whose lease has lapsed, and those that have none.
func TestLapsedReadsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxOpenReads: 10}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		say := func(request string) {
			c.feed([]byte(request), len(request))
			out, _ := c.received()
			c.consume(len(out))
		}
		for range 4 {
			say("set q 0 0 1\r\nx\r\n")
		}
		say("get q/lease=1000\r\nget q/open\r\nget q/lease=1000\r\nget q/lease=9000\r\n")
		count := func(want int) {
			t.Helper()
			ts.do(func() {
				if got := c.session.countReads([]byte("q")); got != want {
					t.Errorf("the session has %d open reads, want %d", got, want)
				}
			})
		}
		count(4)
		(&player{t: t}).pass("1100")
		count(2)
		(&player{t: t}).pass("8000")
		count(1)
		say("get q/close\r\n")
		count(0)
	})
}

// TestManyLeasedReadsAreWork tests that a request of a client with many leased reads, which the server looks at, counts
// as work of its turn.
func TestManyLeasedReadsAreWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxOpenReads: 10_000}, defaults())
		defer ts.stop()
		const reads = 2000
		for range reads {
			ts.said(memcacheProtocol{}, "set q 0 0 1\r\nx\r\n")
		}
		c := ts.dial(memcacheProtocol{})
		for range reads {
			c.feed([]byte("get q/lease=60000\r\n"), len("get q/lease=60000\r\n"))
			out, _ := c.received()
			c.consume(len(out))
		}
		ts.do(func() {
			c.session.work = 0
			if got := c.session.countReads([]byte("q")); got != reads || c.session.work < reads/readsPerWork {
				t.Errorf("a look at %d open reads is %d units of work, want %d", got, c.session.work, reads/readsPerWork)
			}
		})
	})
}
