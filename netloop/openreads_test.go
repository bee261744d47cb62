package netloop

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// manyQueues are more than a loop has time for, when a client has an open read of each.
const manyQueues = 1000

// openReads is how many reads are open on many queues.
func (ts *testServer) openReads() (n int64) {
	for i := range manyQueues {
		q, _ := ts.opts.Engine.QueueStats(engine.Now(), fmt.Appendf(nil, "q%d", i))
		n += q.OpenReads
	}
	return n
}

// openMany has a client open the one item of each of many queues.
func openMany(ts *testServer) *testClient {
	c := ts.dial(memcacheProtocol{})
	var gets []byte
	for i := range manyQueues {
		name := fmt.Appendf(nil, "q%d", i)
		if _, err := ts.opts.Engine.PutAll(engine.Now(), name, []engine.PutRequest{{Data: []byte("x")}}); err != nil {
			ts.t.Fatal(err)
		}
		gets = fmt.Appendf(gets, "get q%d/open\r\n", i)
	}
	c.feed(gets, 1<<20)
	if n := ts.openReads(); n != manyQueues {
		ts.t.Fatalf("%d reads are open, want %d", n, manyQueues)
	}
	return c
}

// TestReadsOfManyQueues has the reads of a client on many queues come back: when it goes, and when an operator says so.
// The loop brings back those of some queues, and a job the others.
func TestReadsOfManyQueues(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServer(t, Options{}, defaults())
			defer ts.stop()
			before := ts.inUse()
			c := openMany(ts)
			ts.do(func() {
				ts.loop.begin()
				n := int64(0)
				if ends {
					ts.loop.endSession(&c.session, false)
					ts.server.connections.Add(-1)
					n = ts.loop.counters.ReadsDropped
				} else {
					n = ts.loop.bringBack(&c.session, func(int) {})
				}
				if n > manyQueues/2 {
					t.Errorf("the loop has brought back the reads of %d queues itself", n)
				}
				ts.loop.tick()
			})
			if n := ts.openReads(); n != 0 {
				t.Errorf("%d reads are open, want none", n)
			}
			if n := ts.server.Counters().ReadsDropped; ends && n != manyQueues {
				t.Errorf("%d reads are counted as dropped, want %d", n, manyQueues)
			}
			if !ends {
				c.hangUp()
			}
			for i := range manyQueues {
				ts.opts.Engine.Delete(engine.Now(), fmt.Appendf(nil, "q%d", i))
			}
			if now := ts.inUse(); now > before {
				t.Errorf("%d bytes are in use, and %d were before", now, before)
			}
		})
	}
}

// TestListReadsOfManyQueues tests that the loop looks at few of the queues that a client has reads of. It counts all reads, and
// shows the queue that somebody asks for.
func TestListReadsOfManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		c := openMany(ts)
		ts.do(func() {
			for _, queue := range []string{"q777", "", "none"} {
				got, shown := c.session.describe(queue), maxShown
				if queue == "q777" {
					shown++
				}
				if got.Open != manyQueues || len(got.OpenReads) != shown {
					t.Errorf("asked for %q: %d reads, of %d queues; want %d, of %d", queue, got.Open, len(got.OpenReads), manyQueues, shown)
				}
				if queue != "" && got.concerns(queue) != (queue == "q777") || queue == "q777" && got.Oldest(queue) == 0 {
					t.Errorf("%q is shown: %t, oldest %d", queue, got.concerns(queue), got.Oldest(queue))
				}
			}
		})
		c.hangUp()
	})
}

// TestEmptyReadsAreForgotten ends reads of many queues in every order of opening and closing. The session remembers
// few of the queues without an open read, and gives back the memory of the others.
func TestEmptyReadsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		c := openMany(ts)
		reads := &c.session.reads
		for i := range manyQueues / 2 {
			c.feed(fmt.Appendf(nil, "get q%d/close\r\n", 2*i), 1<<20)
			c.feed(fmt.Appendf(nil, "get q%d/abort\r\nget q%d/open\r\n", 2*i+1, 2*i+1), 1<<20)
			empty := 0
			for _, q := range reads.queues {
				if q.len() == 0 {
					empty++
				}
			}
			if empty != reads.empty || empty > maxEmptyReads || len(reads.unused) > 2*maxForgotten {
				t.Fatalf("%d queues are empty, %d as counted, and %d in the list", empty, reads.empty, len(reads.unused))
			}
		}
		if n := len(reads.queues); n > manyQueues/2+maxEmptyReads || reads.open != manyQueues/2 {
			t.Errorf("%d queues are remembered, and %d reads are open", n, reads.open)
		}
		c.hangUp()
		if reads.size != 0 {
			t.Errorf("%d bytes stay counted", reads.size)
		}
	})
}

// TestHoldersOfManyQueues leases an item of each of many queues over one connection, and confirms them. The connection
// forgets most queues, and what they took is given back.
func TestHoldersOfManyQueues(t *testing.T) {
	testThrift(t, Options{}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		for i := range manyQueues {
			queue := fmt.Sprint("q", i)
			c.put(queue, "x")
			_, ids := c.get(queue, thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 60_000})
			if i%2 == 0 {
				c.confirm(queue, ids...)
			}
		}
		if n := len(c.session.thrift.holders); n < manyQueues/2 || n > manyQueues/2+4*maxForgotten {
			t.Errorf("%d queues are remembered, and %d have leases", n, manyQueues/2)
		}
		before, size := ts.inUse(), c.session.thrift.holdersSize
		c.hangUp()
		if after := ts.inUse(); after > before-size {
			t.Errorf("%d bytes are in use, and %d were before, %d of them for the connection", after, before, size)
		}
	})
}
