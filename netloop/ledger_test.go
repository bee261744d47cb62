package netloop

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// ledgerLimit is the memory limit of an engine whose buffers are to matter.
const ledgerLimit = 16 << 20

func newLedgerServer(t *testing.T, opts Options, memory int64) *testServer {
	ts := &testServer{t: t, fs: segmenttest.New(), opts: opts, memory: memory, set: defaults()}
	ts.set.Default.Sync = engine.SyncNever
	ts.start()
	return ts
}

// ask sends p and returns what comes back.
func (c *testClient) ask(p string) string {
	before, _ := c.received()
	c.feed([]byte(p), len(p))
	after, _ := c.received()
	return string(after[len(before):])
}

// inUse is how much of the engine's limit is in use.
func (ts *testServer) inUse() int64 { return ts.opts.Engine.Stats().MemoryBytes }

// partial is the beginning of a put: a client sends so many bytes of the item, and then nothing.
func partial(n int) string { return fmt.Sprintf("set p 0 0 %d\r\n%s", n+1, strings.Repeat("x", n)) }

// TestLedgerOfInput tests that what clients have sent of items counts against the memory limit:
// queues spill, then puts are refused, while gets and confirms go on; and that all is well again
// when those clients have gone. No buffer grows past the limit. Without the call of settle in tick, the
// queue stays in memory, and the last put is stored.
func TestLedgerOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, ledgerLimit)
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		item := strings.Repeat("y", 10_000)
		for i := range 400 { // 4 MB
			if got := c.ask(fmt.Sprintf("set q 0 0 10000\r\n%s\r\n", item)); got != "STORED\r\n" {
				t.Fatalf("put %d: %q", i, got)
			}
		}
		own := ts.inUse()
		var partials []*testClient
		most := int64(0)
		send := func(upTo int64) { // large items, and smaller ones when there is no room for those any more
			for n, size := 0, 5<<18; ts.inUse() < upTo && n < 100; n++ {
				p := ts.dial(memcacheProtocol{})
				if got := p.ask(partial(size)); got != "" {
					size /= 2
				}
				most = max(most, ts.inUse())
				partials = append(partials, p)
			}
		}
		send(ledgerLimit/4*3 + 1)
		<-time.After(5 * time.Second) // of the bubble: the background looks for the largest queues
		synctest.Wait()
		q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("q"))
		if !q.ReadBehind || q.MemBytes > q.Bytes/2 {
			t.Errorf("%d of %d bytes of the queue are in memory, want it to spill", q.MemBytes, q.Bytes)
		}
		send(ledgerLimit)
		if most < ledgerLimit || most > ledgerLimit+smallInput {
			t.Errorf("%d bytes are in use, want %d, and what one client may have in any case", most, ledgerLimit)
		}
		for _, tt := range []struct{ ask, want string }{
			{"set r 0 0 1\r\nx\r\n", "SERVER_ERROR out of memory\r\n"},
			{"get q/open\r\n", "VALUE q 0 10000\r\n" + item + "\r\nEND\r\n"},
			{"get q/close\r\n", "END\r\n"},
			{"get q\r\n", "VALUE q 0 10000\r\n" + item + "\r\nEND\r\n"},
		} {
			if got := c.ask(tt.ask); got != tt.want {
				t.Errorf("past the limit, %.20q is answered %.40q, want %.40q", tt.ask, got, tt.want)
			}
		}
		for _, p := range partials {
			p.hangUp()
		}
		if got := c.ask("set r 0 0 1\r\nx\r\n"); got != "STORED\r\n" {
			t.Errorf("with %d bytes in use, a put is answered %q", ts.inUse(), got)
		}
		if got := ts.inUse(); got > own {
			t.Errorf("%d bytes are in use at the end, want no more than %d", got, own)
		}
	})
}

// TestLedgerOfOutput tests that replies that a client does not read count until it does, or until
// it is gone.
func TestLedgerOfOutput(t *testing.T) {
	for _, end := range []string{"reads", "gone"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newLedgerServer(t, Options{}, ledgerLimit)
				defer ts.stop()
				c := ts.dial(memcacheProtocol{})
				r := &fitfulReader{testClient: c}
				ts.do(func() { c.session.sink = r })
				const items, size = 20, 200_000
				for range items {
					c.feed(fmt.Appendf(nil, "set q 0 0 %d\r\n%0200000d\r\n", size, 1), size+100)
				}
				before, unread := ts.inUse(), r.unsent()
				c.feed(bytes.Repeat([]byte("get q/peek\r\n"), items), 1<<10)
				owed := int64(r.unsent() - unread)
				if owed < DefaultMaxPending {
					t.Fatalf("%d bytes wait for a client that does not read", owed)
				}
				if got := ts.inUse() - before; got < owed-ledgerStep || got > owed+ledgerStep {
					t.Errorf("%d bytes wait, and %d are counted", owed, got)
				}
				if end == "gone" {
					r.hangUp()
				} else {
					ts.do(func() { r.reads = true })
					ts.loop.post(&r.session, writable)
					<-time.After(time.Second) // of the bubble: the rest is run in turns of its own
					synctest.Wait()
				}
				if got := ts.inUse() - before; got != 0 {
					t.Errorf("%d bytes are counted at the end", got)
				}
			})
		})
	}
}

// TestLedgerSteps tests that small changes are not reported, and that everything reported is taken back.
func TestLedgerSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, ledgerLimit)
		defer ts.stop()
		l := ledger{engine: ts.opts.Engine, total: new(atomic.Int64)}
		for _, step := range []struct{ held, known int64 }{
			{ledgerStep - 1, 0},
			{ledgerStep, ledgerStep},
			{2*ledgerStep - 1, ledgerStep},
			{3 * ledgerStep, 3 * ledgerStep},
			{2*ledgerStep + 1, 3 * ledgerStep},
			{10, 10},
			{0, 0},
		} {
			l.held = step.held
			if l.settle(); ts.inUse() != step.known {
				t.Errorf("of %d bytes held the engine knows %d, want %d", step.held, ts.inUse(), step.known)
			}
		}
	})
}

// TestThriftReadsBounded tests that Thrift reads that stay open, while the client that opened them
// comes back with another connection, do not take more memory than there is: past the limit gets are
// refused before they take an item, all else goes on, and gets go on when reads have ended.
func TestThriftReadsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{MaxOpenReads: 1}, ledgerLimit)
		defer ts.stop()
		const items, size = 400, 100_000
		producer := ts.dialThrift()
		defer producer.hangUp()
		for i := range items { // the queue spills: all of it does not fit into memory
			item := fmt.Sprintf("%0*d", size, i)
			if producer.put("q", item) != 1 {
				t.Fatalf("put %d is refused", i)
			}
			pass(100 * time.Millisecond)
		}
		own := ts.inUse()
		var ids []int64
		refused := thrift.Reply{}
		for !refused.Failed && len(ids) < items {
			c := ts.dialThrift()
			frame := c.codec.AppendGet(nil, c.next(), []byte("q"), thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 3_600_000})
			c.feed(frame, 1<<20)
			pass(100 * time.Millisecond)
			refused = c.reply()
			if _, got := itemsOf(refused); !refused.Failed {
				ids = append(ids, got...)
			}
			c.hangUp()
		}
		const want = "Internal error processing get: 'out of memory'"
		if !refused.Failed || string(refused.Message) != want {
			t.Fatalf("with %d reads open, %d bytes in use, get = %+v, want %s", len(ids), ts.inUse(), refused, want)
		}
		if got := ts.inUse(); got > ledgerLimit+4*size {
			t.Errorf("%d bytes are in use, with a limit of %d", got, ledgerLimit)
		}
		head := func(want int) {
			t.Helper()
			if got, _ := producer.get("q", thrift.GetOptions{MaxItems: 1}); got != fmt.Sprintf("%0*d", size, want) {
				t.Errorf("a plain get brings %d bytes that end in %.10q, want item %d", len(got), got[max(len(got)-10, 0):], want)
			}
		}
		head(len(ids)) // the refused get has not taken it
		if n := producer.abort("q", ids...); int(n) != len(ids) {
			t.Errorf("abort = %d, want %d", n, len(ids))
		}
		pass(10 * time.Second)
		if _, got := producer.get("q", thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 100}); len(got) != 1 {
			t.Errorf("a get when the reads have ended brings %d items, want 1", len(got))
		}
		pass(time.Second)
		head(0)
		for next := 1; next < items-1; {
			got, _ := producer.get("q", everything)
			if got == "" {
				t.Fatalf("the queue ends before item %d", next)
			}
			for item := range strings.SplitSeq(got, " ") {
				if next == len(ids) {
					next++ // taken before
				}
				if item != fmt.Sprintf("%0*d", size, next) {
					t.Fatalf("item %.20q came, want %d", strings.TrimLeft(item, "0"), next)
				}
				next++
			}
		}
		pass(10 * time.Second)
		if got := ts.inUse(); got > own {
			t.Errorf("%d bytes are in use at the end, and %d were at the beginning", got, own)
		}
	})
}

// TestThriftReadsOfDeletedQueues tests that what the table keeps of reads whose queues are deleted
// counts against the memory limit until their deadline.
func TestThriftReadsOfDeletedQueues(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 100}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		before := ts.inUse()
		for range 10 {
			c.put("q", "a", "b")
			c.get("q", thrift.GetOptions{MaxItems: 2, AutoAbortMillis: 60_000})
			c.call(c.codec.AppendCall(nil, thrift.MethodDeleteQueue, c.next(), []byte("q")))
		}
		if got := ts.inUse() - before; got < 20*entrySize {
			t.Errorf("20 reads of deleted queues are counted as %d bytes, want %d at least", got, 20*entrySize)
		}
		pass(2 * time.Minute)
		if got := ts.inUse() - before; got != 0 {
			t.Errorf("%d bytes are counted behind the deadline", got)
		}
	})
}

// TestInputRoom tests that a large request takes as much memory as it has bytes, and no more than twice
// what has come of it; and that no buffer grows past the limit on all of them.
//
// Its control is a keepInput that leaves the room to append.
func TestInputRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4 << 20
		ts := newLedgerServer(t, Options{BufferLimit: limit}, 64<<20)
		defer ts.stop()
		most := int64(0)
		send := func(p string) (ended bool) {
			c := ts.dial(memcacheProtocol{})
			for sent := 0; sent < len(p) && !ended; sent += readSize {
				c.feed([]byte(p[sent:min(sent+readSize, len(p))]), readSize)
				most = max(most, ts.server.buffered.Load())
				_, ended = c.received()
			}
			return ended
		}
		request := partial(3<<20 - 1)
		if send(request) || most != int64(len(request))+3 { // one byte and a line end are still to come
			t.Errorf("%d bytes are kept of a request of %d", most, len(request)+3)
		}
		if !send(request) || most > limit {
			t.Errorf("%d bytes are kept of two, want %d at most, and the second client cut off", most, limit)
		}
	})
}
