package netloop

import (
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// TestRunIsBounded tests that a turn runs no more of what one client has sent than its share. Until the rest has been
// run, nothing is read from the client, and it gets every reply.
//
// Its controls are a run without a bound on work, and an unstall that does not look what the turn has
// done for the session.
func TestRunIsBounded(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 1)
		const requests = 3 * maxWork
		sent := []byte(strings.Repeat("get n\r\n", requests)) // more than is read at once
		got := 0
		buf := make([]byte, 1<<20)
		var most, before int64
		for turns := 0; got < requests*len("END\r\n"); turns++ {
			if turns > 1000 {
				t.Fatalf("%d bytes of replies after %d turns, want %d", got, turns, requests*len("END\r\n"))
			}
			if len(sent) > 0 {
				n, _ := unix.Write(lt.peers[0], sent)
				sent = sent[max(n, 0):]
			}
			lt.turn(0)
			if c := lt.conns[lt.fds[0]]; c.session.yielded && len(c.session.in) > readSize {
				t.Fatalf("%d bytes are kept of a client that has to wait for its turn", len(c.session.in))
			}
			n, _, _ := unix.Recvfrom(lt.peers[0], buf, unix.MSG_DONTWAIT)
			got += max(n, 0)
			most, before = max(most, lt.counters.CmdGet-before), lt.counters.CmdGet
		}
		if most > maxWork+maxFetched { // what is left of the turn before, and what is read, together
			t.Errorf("a turn ran %d requests of one client, want %d at most", most, maxWork)
		}
	})
}

// TestYieldKeepsOrder tests that the answers to requests that several turns have run are in order, also
// with syncs in between.
func TestYieldKeepsOrder(t *testing.T) {
	for _, policy := range []engine.SyncPolicy{engine.SyncNever, engine.SyncAlways} {
		synctest.Test(t, func(t *testing.T) {
			set := defaults()
			set.Default.Sync = policy
			ts := newTestServer(t, Options{}, set)
			defer ts.stop()
			c := ts.dial(memcacheProtocol{})
			const n = maxWork
			c.feed([]byte(strings.Repeat("set q 0 0 1\r\nx\r\nget q\r\n", n)+"version\r\n"), 1<<20)
			for range 10 {
				ts.do(ts.loop.tick)
			}
			want := strings.Repeat("STORED\r\nVALUE q 0 1\r\nx\r\nEND\r\n", n) + "VERSION " + Version + "\r\n"
			if got, _ := c.received(); string(got) != want {
				t.Errorf("%d bytes of answers, want %d in order", len(got), len(want))
			}
			c.hangUp()
		})
	}
}
