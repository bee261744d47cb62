package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// numbers are the items 0 to n-1.
func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// TestManyReadsDropped tests that a session that ends leaves it to a job to bring most of its many reads back. A
// client that fetches meanwhile waits. The items come back in order, and are counted.
//
// Its controls are a dropReads that brings all back itself, and one that leaves all to a job.
func TestManyReadsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxOpenReads: 2 * manyReads}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		var puts strings.Builder
		for _, item := range numbers(manyReads + 1) {
			fmt.Fprintf(&puts, "set q 0 0 %d\r\n%s\r\n", len(item), item)
		}
		c.feed([]byte(puts.String()), 1<<20)
		c.feed(fmt.Appendf(nil, "monitor q 1000 %d\r\n", manyReads), 1<<20)
		open := func() int64 {
			q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("q"))
			return q.OpenReads
		}
		if open() != manyReads {
			t.Fatalf("%d reads are open, want %d", open(), manyReads)
		}
		again := ts.dial(memcacheProtocol{})
		defer again.hangUp()
		const oldest = "VALUE q 0 1\r\n0\r\nEND\r\n"
		ts.do(func() {
			ts.loop.begin()
			ts.loop.endSession(&c.session, false)
			if n := ts.loop.counters.ReadsDropped; n > abortPiece {
				t.Errorf("the loop has brought %d reads back itself", n)
			}
			// The client may be back before the job is done: then it waits for the oldest item.
			ts.loop.begin()
			again.session.receive([]byte("get q\r\n"))
			if s := &again.session; s.state != waiting && string(s.out) != oldest {
				t.Errorf("before all reads are back, a get brings %q", s.out)
			}
			ts.server.connections.Add(-1)
			ts.loop.tick()
		})
		ts.server.jobs.Wait()
		if n := ts.server.Counters().ReadsDropped; n != manyReads || open() != 0 {
			t.Errorf("%d reads are counted as dropped, and %d are open, want %d and none", n, open(), manyReads)
		}
		synctest.Wait()
		if got, _ := again.received(); string(got) != oldest {
			t.Errorf("the get behind the reads got %q", got)
		}
		thrifty := ts.dialThrift()
		defer thrifty.hangUp()
		if got, _ := thrifty.get("q", everything); got != strings.Join(numbers(manyReads + 1)[1:], " ") {
			t.Errorf("the queue then has %.100q", got)
		}
	})
}

// TestAbortManyByID tests that a job aborts many reads of the Thrift table. Their items come back in the order in
// which they were opened, whatever the order of the ids.
func TestAbortManyByID(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 2 * manyReads}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		c.put("q", numbers(manyReads+1)...)
		_, first := c.get("q", thrift.GetOptions{MaxItems: 10, AutoAbortMillis: 60_000})
		_, ids := c.get("q", thrift.GetOptions{MaxItems: manyReads - 10, AutoAbortMillis: 60_000})
		if len(ids) != manyReads-10 {
			t.Fatalf("%d reads are open, want %d", len(ids), manyReads-10)
		}
		own := ts.inUse()
		ids = append(append(ids, 1, 2, 3), first...) // nobody has the first three
		frame := c.codec.AppendAbort(nil, c.next(), []byte("q"), ids...)
		ts.do(func() {
			ts.loop.begin()
			c.session.receive(frame)
			if s := &c.session; len(s.out) > 0 || s.wait.kind != waitJob {
				t.Errorf("%d reads are aborted on the loop", len(ids))
			}
			ts.loop.tick()
		})
		if n := c.reply().Count; n != manyReads {
			t.Errorf("abort = %d, want %d", n, manyReads)
		}
		if got := ts.inUse(); got > own {
			t.Errorf("%d bytes are in use, and %d were before", got, own)
		}
		if got, _ := c.get("q", everything); got != strings.Join(numbers(manyReads+1), " ") {
			t.Errorf("the queue then has %.100q", got)
		}
	})
}

// TestGetManyLeavesLoop tests that a job ends a Thrift get of many items. The items are gone for good, or stay open
// and come back in order at their deadline.
func TestGetManyLeavesLoop(t *testing.T) {
	for _, autoAbort := range []int32{0, 1000} {
		t.Run(fmt.Sprint(autoAbort), func(t *testing.T) {
			testThrift(t, Options{MaxOpenReads: 2 * manyReads}, defaults(), func(t *testing.T, ts *testServer) {
				c := ts.dialThrift()
				defer c.hangUp()
				c.put("q", numbers(manyReads)...)
				before := ts.inUse()
				frame := c.codec.AppendGet(nil, c.next(), []byte("q"), thrift.GetOptions{MaxItems: -1, AutoAbortMillis: autoAbort})
				jobs := false
				ts.do(func() {
					ts.loop.begin()
					c.session.receive(frame)
					for n := 0; n < 100 && c.session.state == stalled; n++ { // it has much to collect
						ts.loop.tick()
						ts.loop.begin()
						ts.loop.goOn()
					}
					jobs = c.session.wait.kind == waitJob
					ts.loop.tick()
				})
				if !jobs {
					t.Errorf("the loop ends a get of %d items", manyReads)
				}
				got, ids := itemsOf(c.reply())
				if got != strings.Join(numbers(manyReads), " ") || len(ids) != manyReads {
					t.Errorf("got %d items %.100q", len(ids), got)
				}
				want := ""
				if autoAbort > 0 {
					pass(999 * time.Millisecond)
					if got, _ := c.get("q", everything); got != "" {
						t.Errorf("before the deadline there is %.100q", got)
					}
					pass(2 * time.Millisecond)
					want = strings.Join(numbers(manyReads), " ")
				}
				if got, _ := c.get("q", everything); got != want {
					t.Errorf("then there is %.100q, want %.100q", got, want)
				}
				pass(time.Minute)
				if got := ts.inUse(); got > before {
					t.Errorf("%d bytes are in use at the end, and %d were before", got, before)
				}
			})
		})
	}
}
