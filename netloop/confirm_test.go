package netloop

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// manyReads are more than a loop confirms itself for one request.
const manyReads = 3*confirmPiece + 7

// TestConfirmMany tests that a job confirms many reads, and not the loop. It confirms all of them and no others, and
// requests pipelined behind keep their place.
//
// Its control is a confirmMany that leaves all to confirmOldest.
func TestConfirmMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxOpenReads: 2 * manyReads}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		defer c.hangUp()
		c.feed([]byte(strings.Repeat("set q 0 0 1\r\nx\r\n", manyReads+2)), 1<<20)
		c.feed(fmt.Appendf(nil, "monitor q 1000 %d\r\n", manyReads+1), 1<<20)
		got, _ := c.received()
		c.consume(len(got))
		if n := strings.Count(string(got), "VALUE"); n != manyReads+1 {
			t.Fatalf("%d reads are open, want %d", n, manyReads+1)
		}
		job := false
		ts.do(func() {
			ts.loop.begin()
			c.session.receive(fmt.Appendf(nil, "confirm q %d\r\nconfirm q 1\r\nget q\r\n", manyReads))
			job = c.session.wait.kind == waitJob
			ts.loop.tick()
		})
		if !job {
			t.Errorf("%d reads are confirmed on the loop", manyReads)
		}
		if got, _ := c.received(); string(got) != "END\r\nEND\r\nVALUE q 0 1\r\nx\r\nEND\r\n" {
			t.Errorf("the replies are %q", got)
		}
		q, _ := ts.opts.Engine.QueueStats(ts.loop.now, []byte("q"))
		if q.Items != 0 || q.OpenReads != 0 {
			t.Errorf("%d items are left, and %d open reads", q.Items, q.OpenReads)
		}
		if got := c.ask(fmt.Sprintf("confirm q %d\r\n", manyReads)); got != "ERROR\r\n" {
			t.Errorf("a confirm of reads that are not open is answered %q", got)
		}
	})
}

// TestTextConfirmsMany is TestConfirmMany for the text protocol, whose fetches confirm all of their queues. A turn
// confirms some of many, and a later one runs the fetch.
func TestTextConfirmsMany(t *testing.T) {
	const few = confirmPiece - 1 // of each of two queues
	for _, tt := range []struct {
		request, want string
		open          int // reads of a queue
		most          int // that the turn of the request confirms
	}{
		{fmt.Sprintf("confirm q %d\n", manyReads), fmt.Sprintf("+%d\n", manyReads), manyReads, 0},
		{"get q\n", ":last\n", manyReads, confirmPiece},
		{"peek q\n", ":last\n", manyReads, confirmPiece},
		{"monitor q 0\n", "*\n", manyReads, confirmPiece},
		{"get q or=other\n", ":q\n:last\n", few, confirmPiece},
		{"get other\n", ":last\n", few, few},
	} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServer(t, Options{MaxOpenReads: 2 * manyReads}, defaults())
			defer ts.stop()
			c := ts.dial(textProtocol{})
			defer c.hangUp()
			for _, queue := range []string{"q", "other"} {
				c.feed(fmt.Appendf(nil, "put %s:\n%s\n", queue, strings.Repeat("x\n", tt.open)), 1<<20)
				c.feed(fmt.Appendf(nil, "monitor %s 1000\n", queue), 1<<20)
				pass(time.Second)
				c.feed(fmt.Appendf(nil, "put %s:\nlast\n\n", queue), 1<<20)
			}
			got, _ := c.received()
			c.consume(len(got))
			open := func() (n int64) {
				for _, queue := range []string{"q", "other"} {
					q, _ := ts.opts.Engine.QueueStats(ts.loop.now, []byte(queue))
					n += q.OpenReads
				}
				return n
			}
			if n := open(); n != int64(2*tt.open) {
				t.Fatalf("%d reads are open, want %d", n, 2*tt.open)
			}
			ts.do(func() {
				ts.loop.begin()
				c.session.receive([]byte(tt.request + "version\n"))
				if n := int64(2*tt.open-tt.most) - open(); n > 1 {
					t.Errorf("%q: the turn confirms %d reads more than %d", tt.request, n, tt.most)
				}
				ts.loop.tick()
			})
			pass(time.Second)
			if got, _ := c.received(); string(got) != tt.want+":"+Version+"\n" {
				t.Errorf("%q: the reply is %q, want %q", tt.request, got, tt.want)
			}
			left := int64(tt.open)
			if strings.Contains(tt.request, "or=") {
				left = 0
			}
			if n := open(); n != left && n != left+1 {
				t.Errorf("%q: %d reads are left, want %d", tt.request, n, left)
			}
		})
	}
}

// TestConfirmManyByID is TestConfirmMany for the ids of Thrift.
func TestConfirmManyByID(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 2 * manyReads}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		items := make([]string, manyReads+1)
		for i := range items {
			items[i] = "x"
		}
		c.put("q", items...)
		_, ids := c.get("q", thrift.GetOptions{MaxItems: manyReads + 1, AutoAbortMillis: 60_000})
		if len(ids) != manyReads+1 {
			t.Fatalf("%d reads are open, want %d", len(ids), manyReads+1)
		}
		own := ts.inUse()
		ids = append(ids[:manyReads:manyReads], 1, 2, 3) // nobody has these
		if n := c.confirm("q", ids...); n != manyReads {
			t.Errorf("confirm = %d, want %d", n, manyReads)
		}
		q, _ := ts.opts.Engine.QueueStats(ts.loop.now, []byte("q"))
		if q.Items != 0 || q.OpenReads != 1 {
			t.Errorf("%d items are left, and %d open reads, want none and one", q.Items, q.OpenReads)
		}
		if got := ts.inUse(); got > own {
			t.Errorf("%d bytes are in use, and %d were before", got, own)
		}
	})
}

// TestReceiptsOfLargeCall tests that the loop does not copy the ids of a large call, which the session's input holds
// while jobs use it. It copies those of a small one, which lies in the loop's buffer.
func TestReceiptsOfLargeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		c := ts.dial(thriftProtocol{})
		defer c.hangUp()
		const ids = 1_000_000
		frame := thrift.Client{}.AppendConfirm(nil, 1, []byte("q"), make([]int64, ids)...)
		for _, large := range []bool{true, false} {
			var req thrift.Request
			if _, err := (thrift.Decoder{}).Decode(frame, &req); err != nil {
				t.Fatal(err)
			}
			ts.do(func() {
				s := &c.session
				var before, after runtime.MemStats
				s.pinned = large
				runtime.ReadMemStats(&before)
				_, receipts, ok := s.takeReceipts(&req)
				runtime.ReadMemStats(&after)
				s.pinned = false
				if took := after.TotalAlloc - before.TotalAlloc; !ok || (took < receiptSize*ids) != large {
					t.Errorf("of a large call %t: %t, and %d bytes were copied", large, ok, took)
				}
				if n := len(receipts()); n != ids {
					t.Errorf("of a large call %t: %d receipts, want %d", large, n, ids)
				}
				ts.opts.Engine.Account(-receiptSize * ids)
			})
		}
	})
}
