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

// TestLedgerOfInput tests that what clients have sent of items counts against the memory limit. Queues spill, then puts
// are refused, while gets and confirms go on; and that all is well again when those clients have gone. No buffer grows
// past the limit. Without the call of report in tick, the queue stays in memory, and the last put is stored.
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
		send := func(upTo int64) { // large items, and when there is no room for more, small ones: for those nobody gives way
			for n, size := 0, 5<<16; ts.inUse() < upTo && n < 200; n++ {
				p := ts.dial(memcacheProtocol{})
				if got := p.ask(partial(size)); got != "" {
					size = smallInput - 100
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
		if most < ledgerLimit || most > ledgerLimit+ledgerStep+smallInput { // the loop reports in steps
			t.Errorf("%d bytes are in use, want %d, and what a few clients may have in any case", most, ledgerLimit)
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
				before, unread := ts.inUse(), r.unsentBytes()
				c.feed(bytes.Repeat([]byte("get q/peek\r\n"), items), 1<<10)
				owed := int64(r.unsentBytes() - unread)
				if owed < DefaultMaxPending {
					t.Fatalf("%d bytes wait for a client that does not read", owed)
				}
				if got := ts.inUse() - before; got < owed-ledgerStep || got > owed+ledgerStep {
					t.Errorf("%d bytes wait, and %d are counted", owed, got)
				}
				if end == "gone" {
					r.hangUp()
					before -= sessionSize
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
			l.bytes = step.held
			if l.report(); ts.inUse() != step.known {
				t.Errorf("of %d bytes held the engine knows %d, want %d", step.held, ts.inUse(), step.known)
			}
		}
	})
}

// TestThriftReadsBounded tests that open Thrift reads do not take more memory than there is. The client that opened
// them comes back with another connection. Past the limit gets are refused before they take an item, and all else goes
// on. When reads have ended, gets go on.
func TestThriftReadsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items, limit := 400, int64(ledgerLimit)
		if isSample() { // half as much of both
			items, limit = 200, ledgerLimit/2
		}
		const size = 100_000
		ts := newLedgerServer(t, Options{MaxOpenReads: 1}, limit)
		defer ts.stop()
		producer := ts.dialThrift()
		defer producer.hangUp()
		for i := range items { // the queue spills: all of it does not fit into memory
			item := fmt.Sprintf("%0*d", size, i)
			if producer.put("q", item) != 1 {
				t.Fatalf("put %d is refused", i)
			}
			if i%4 == 3 {
				pass(100 * time.Millisecond)
			}
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
		if got := ts.inUse(); got > limit+4*size {
			t.Errorf("%d bytes are in use, with a limit of %d", got, limit)
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

// TestThriftReadsOfDeletedQueues tests that nothing is kept of reads whose queues are deleted, and that they
// count for their connection no more.
func TestThriftReadsOfDeletedQueues(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 2}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		before := ts.inUse()
		for range 10 {
			c.put("q", "a", "b")
			items, ids := c.get("q", thrift.GetOptions{MaxItems: 2, AutoAbortMillis: 60_000})
			if items != "a b" {
				t.Fatalf("get = %q, want a b", items)
			}
			c.call(c.codec.AppendCall(nil, thrift.MethodDeleteQueue, c.next(), []byte("q")))
			if n := c.confirm("q", ids...); n != 0 {
				t.Errorf("confirm of reads of a deleted queue = %d, want 0", n)
			}
		}
		if got := ts.inUse() - before; got != holderSize+1 {
			t.Errorf("%d bytes are counted, want %d for what the connection has open", got, holderSize+1)
		}
	})
}

// TestInputRoom tests that a large request takes as much memory as has arrived of it. No buffer grows past the limit
// on all of them.
//
// Its control is a bufferInput that leaves the room to append.
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
		came := int64(len(request))
		if send(request) || most < came || most >= int64(spaceSize(len(request)+spacePage)) {
			t.Errorf("%d bytes are kept of a request of which %d have come", most, came)
		}
		if !send(request) || most > limit {
			t.Errorf("%d bytes are kept of two, want %d at most, and the second client cut off", most, limit)
		}
	})
}

// TestShortMemory tests what a client gets when as much memory is in use as there may be, and a little more. It gets
// open reads as far as their list is small, no report, and no large buffer for a small reply that is held. All of it
// goes on when there is memory again.
func TestShortMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{MaxOpenReads: 1 << 10}, ledgerLimit)
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		defer c.hangUp()
		for range 500 {
			c.ask("set q 0 0 1\r\nx\r\n")
		}
		const opened, refused = "VALUE q 0 1\r\nx\r\nEND\r\n", "SERVER_ERROR out of memory\r\n"
		taken := ts.opts.Engine.MemoryLeft() + ledgerLimit/16
		ts.opts.Engine.Account(taken)
		n := 0
		for c.ask("get q/open\r\n") == opened {
			n++
		}
		if n*refSize < smallReads/2 || n*refSize > 2*smallReads {
			t.Errorf("past the limit a client gets %d open reads, whose list takes %d bytes", n, n*refSize)
		}
		for _, tt := range []struct{ ask, want string }{
			{"get q/open\r\n", refused},
			{"monitor q 1 1\r\n", refused},
			{"stats\r\n", refused},
			{"dump_stats q\r\n", refused},
			{"get q/close\r\n", "END\r\n"},
			{fmt.Sprintf("confirm q %d\r\n", n-1), "END\r\n"},
			{"get q\r\n", opened},
		} {
			if got := c.ask(tt.ask); got != tt.want {
				t.Errorf("past the limit, %q is answered %.40q, want %.40q", tt.ask, got, tt.want)
			}
		}
		hold := func() (size int) {
			ts.do(func() {
				s := &c.session
				s.takeOutput()
				s.out = append(make([]byte, 0, 1<<20), "END\r\n"...)
				ts.loop.hold(s)
				size = s.owed + s.spare
				ts.loop.held, s.held = ts.loop.held[:0], false
				ts.loop.makeDirty(s)
				ts.loop.tick()
			})
			return size
		}
		if got := hold(); got > 1<<10 {
			t.Errorf("past the limit a reply that is held takes %d bytes", got)
		}
		ts.opts.Engine.Account(-taken)
		if got := hold(); got < 1<<20 {
			t.Errorf("a reply that is held was moved into a buffer of %d bytes", got)
		}
		before := ts.inUse()
		if got := c.ask("stats\r\n"); !strings.HasSuffix(got, "END\r\n") || strings.HasPrefix(got, "SERVER_ERROR") {
			t.Errorf("with memory left, STATS is answered %.40q", got)
		}
		if got := ts.inUse(); got != before {
			t.Errorf("%d bytes are in use behind a report, and %d were before", got, before)
		}
	})
}

// TestLargeInputStays tests that a large request, of every protocol, stays where it is while it grows, outside of Go's
// heap. The session may be cut off in its middle, or its client may go. Its memory goes back with it, and a whole one
// is run.
//
// Its control is a bufferInput that does without a space.
func TestLargeInputStays(t *testing.T) {
	const size = 8 << 20
	item := strings.Repeat("x", size)
	for i, tt := range []struct {
		name    string
		proto   protocol
		request string
		want    string
	}{
		{"memcache", memcacheProtocol{}, fmt.Sprintf("set q 0 0 %d\r\n%s\r\nversion\r\n", size, item), "STORED\r\nVERSION " + Version + "\r\n"},
		{"text", textProtocol{}, "put q:\n" + item + "\n\nversion\n", "+1\n:" + Version + "\n"},
		{"thrift", thriftProtocol{}, string(thrift.Client{}.AppendPut(nil, 1, []byte("q"), 0, []byte(item))),
			string(thrift.AppendCount(nil, thrift.Call{Method: thrift.MethodPut, Seq: 1}, 1))},
		{"two at once", memcacheProtocol{}, strings.Repeat(fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", size/2, item[:size/2]), 2), "STORED\r\nSTORED\r\n"},
		{"gone", memcacheProtocol{}, partial(size), ""},
	} {
		if isSample() && i%3 != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newLedgerServer(t, Options{}, 256<<20)
				defer ts.stop()
				c := ts.dial(tt.proto)
				before := ts.inUse()
				var first *byte
				heap, moves, small := heapSize(), 0, readSize
				if tt.name == "text" { // nobody knows yet how large it will be
					small = maxPooledBuffer + 1
				}
				for sent := 0; sent < len(tt.request); sent += readSize {
					c.feed([]byte(tt.request[sent:min(sent+readSize, len(tt.request))]), readSize)
					if in := c.session.in; len(in) >= small {
						if first != &in[0] {
							moves++
						}
						first = &in[0]
					}
					if sent == size/4 {
						if grown := heapSize() - heap; grown > maxPooledBuffer {
							t.Errorf("%d bytes of the heap hold %d of a request", grown, sent)
						}
					}
				}
				if moves != 1 {
					t.Errorf("the request lay in %d places, want 1", moves)
				}
				if got, _ := c.received(); string(got) != tt.want {
					t.Errorf("got %.100q, want %q", got, tt.want)
				}
				c.ask("") // a turn, at the end of which the space goes
				if tt.name == "gone" {
					c.hangUp()
				} else if len(c.session.in) > 0 || c.session.space != nil {
					t.Errorf("%d bytes of input are left", len(c.session.in))
				}
				ts.opts.Engine.FlushAll(engine.Now(), "")
				<-time.After(time.Minute) // of the bubble: the journal has written the item
				synctest.Wait()
				if got := ts.server.buffered.Load(); got != 0 {
					t.Errorf("%d bytes of input are counted at the end", got)
				}
				if got := ts.inUse() - before; got > 10<<10 {
					t.Errorf("%d bytes are in use at the end", got)
				}
			})
		})
	}
}

// TestBurrowListsBounded has many clients ask for a list of 6 MB and read nothing. All their replies together stay
// within their part of the memory limit, and the list goes on whole, in chunks, for one that reads.
//
// Its control is a roomToMatch that always says wholeMatch.
func TestBurrowListsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, clients, items = 64 << 20, 40, 300
		ts := &testServer{t: t, fs: segmenttest.New(), memory: limit, set: defaults()}
		ts.set.Default.KeepJournal = false
		ts.start()
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		fill(items, 20_000)(ts, c)
		c.hangUp()
		letGo()
		before := heapSize()
		var all []*keeper
		for range clients {
			r := &keeper{testClient: ts.dial(burrowProtocol{})}
			ts.do(func() { r.session.sink = r })
			all = append(all, r)
			r.feed([]byte("GET /v1.0/default/q HTTP/1.1\r\nHost: localhost\r\n\r\n"), 1<<10)
		}
		letGo()
		if grown := heapSize() - before; grown > limit/replyShare+limit/8 {
			t.Errorf("%d lists that are not read take %d MiB, want %d at most", clients, grown>>20, limit/replyShare>>20)
		}
		for _, r := range all {
			r.hangUp()
		}
		letGo()
		if owed := ts.loop.server.owed.Load(); owed > ledgerStep {
			t.Errorf("%d bytes are owed to clients that have gone", owed)
		}
		one := ts.dial(burrowProtocol{})
		list := one.ask("GET /v1.0/default/q HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if got := strings.Count(list, `"body":`); got != items || !strings.HasSuffix(list, "\r\n0\r\n\r\n") {
			t.Errorf("the list has %d messages, want %d, and ends with %q", got, items, list[max(len(list)-20, 0):])
		}
		if n := one.session.burrow.gathering; n > 0 {
			t.Errorf("%d bytes of a list that was sent are still counted", n)
		}
		one.hangUp()
	})
}

// TestBurrowLargeListsBounded has many clients ask at the same moment for a list of one message of 8 MB, or for the
// message itself as JSON. They read nothing. Their replies stay within their part of the memory limit: a job counts
// what it is going to word before it does.
//
// Its control is a reserve that counts nothing.
func TestBurrowLargeListsBounded(t *testing.T) {
	for _, path := range []string{"/v1.0/default/q", "/v1.1/default/q/messages", "/v1.0/default/q?limit=1"} {
		synctest.Test(t, func(t *testing.T) {
			const limit, clients, size = 64 << 20, 20, 8 << 20
			ts := &testServer{t: t, fs: segmenttest.New(), memory: limit, set: defaults()}
			ts.set.Default.KeepJournal = false
			ts.start()
			defer ts.stop()
			c := ts.dial(memcacheProtocol{})
			fill(1, size)(ts, c)
			c.hangUp()
			letGo()
			before := heapSize()
			get := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
			var all []*keeper
			for range clients {
				r := &keeper{testClient: ts.dial(burrowProtocol{})}
				ts.do(func() { r.session.sink = r })
				all = append(all, r)
			}
			ts.do(func() { // one turn hears all of them
				ts.loop.begin()
				for _, r := range all {
					ts.loop.guard(&r.session, func(s *session) { s.receive([]byte(get)) })
				}
				ts.loop.tick()
			})
			letGo()
			if grown := heapSize() - before; grown > limit/replyShare+limit/8 {
				t.Errorf("%s: %d replies that are not read take %d MiB, want %d at most",
					path, clients, grown>>20, limit/replyShare>>20)
			}
			if got := ts.server.Counters().RepliesRefused; got == 0 {
				t.Errorf("%s: no reply was refused", path)
			}
			for _, r := range all {
				r.hangUp()
			}
			letGo()
			if owed := ts.loop.server.owed.Load(); owed > ledgerStep {
				t.Errorf("%s: %d bytes are owed to clients that have gone", path, owed)
			}
			one := ts.dial(burrowProtocol{})
			if got := one.ask(get); len(got) < size || !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("%s: a client that reads gets %d bytes, %q", path, len(got), got[:min(len(got), 100)])
			}
			one.hangUp()
		})
	}
}
