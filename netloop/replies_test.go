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

// reader returns a client that does not read yet.
func (ts *testServer) reader(proto protocol) *fitfulReader {
	r := &fitfulReader{testClient: ts.dial(proto)}
	ts.do(func() { r.session.sink = r })
	return r
}

// readAll has the client read everything, and returns what it got.
func (r *fitfulReader) readAll() string {
	r.ts.do(func() { r.reads = true })
	r.ts.loop.post(&r.session, writable)
	<-time.After(time.Second) // of the bubble: the rest is sent in turns of its own
	synctest.Wait()
	got, _ := r.received()
	return string(got)
}

// TestLargeItemUnread tests that a large item is sent in pieces from where it lies. A client that does not read costs
// one piece, however it has asked. When it reads at last, it gets all of it, and what it has asked for behind it.
//
// Its control is a HasOwnMemory that is always false.
func TestLargeItemUnread(t *testing.T) {
	const size = 3 << 20
	item := strings.Repeat("0123456789abcdef", size/16)
	value := fmt.Sprintf("VALUE q 0 %d\r\n%s\r\nEND\r\n", size, item)
	for i, tt := range []struct {
		proto   protocol
		request string
		late    bool // the item comes later
		want    string
	}{
		{memcacheProtocol{}, "get q/peek\r\nversion\r\n", false, value + "VERSION " + Version + "\r\n"},
		{memcacheProtocol{}, "get q\r\nget q\r\nget q\r\n", false, value + value + value},
		{memcacheProtocol{}, "get q/open\r\nget q/close\r\nget q/peek\r\n", false, value + "END\r\n" + value},
		{memcacheProtocol{}, "get q/t=5000\r\nget q\r\n", true, value + value},
		{memcacheProtocol{}, "monitor q 1 2\r\nconfirm q 2\r\n", false, value + value + "END\r\nEND\r\n"},
		{memcacheProtocol{}, "monitor q 5 2\r\nconfirm q 2\r\n", true, value + value + "END\r\nEND\r\n"},
		{textProtocol{}, "get q\nget q\nversion\n", false, ":" + item + "\n:" + item + "\n:" + Version + "\n"},
		{textProtocol{}, "peek q 5000\nget q\n", true, ":" + item + "\n:" + item + "\n"},
	} {
		if isSample() && i%3 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%T %q late=%t", tt.proto, tt.request, tt.late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newLedgerServer(t, Options{MaxOpenReads: 10}, 64<<20)
				defer ts.stop()
				producer := ts.dial(memcacheProtocol{})
				put := func() {
					for range 3 {
						producer.feed(fmt.Appendf(nil, "set q 0 0 %d\r\n%s\r\n", size, item), size+100)
					}
				}
				if !tt.late {
					put()
				}
				r := ts.reader(tt.proto)
				before := ts.inUse()
				r.feed([]byte(tt.request), 1000)
				if tt.late {
					put()
					before = ts.inUse()
				}
				if n := r.unsentBytes(); n > bodyPiece+100 {
					t.Errorf("%d bytes are made for a client that does not read, want %d at most", n, bodyPiece+100)
				}
				if grown := ts.inUse() - before; grown > size+2*ledgerStep {
					t.Errorf("memory in use has grown by %d bytes, want the item's %d at most", grown, size)
				}
				if got := r.readAll(); got != tt.want {
					t.Errorf("the client got %d bytes, %.30q … %.60q; want %d", len(got), got,
						got[max(len(got)-60, 0):], len(tt.want))
				}
				if n := len(ts.server.bodies.users); n != 0 {
					t.Errorf("%d items are held at the end", n)
				}
				r.hangUp()
				producer.hangUp()
			})
		})
	}
}

// TestRepliesUnread tests that replies which clients do not read take no more than their share of the memory limit.
// Fetches past it are refused and leave the item in its queue. Others go on: small items, puts, and a client that has
// read replies before.
//
// Its control is a room that is always true.
func TestRepliesUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, ledgerLimit)
		defer ts.stop()
		const size = 100_000
		producer, proven := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		put := fmt.Sprintf("set big 0 0 %d\r\n%s\r\n", size, strings.Repeat("x", size))
		value := fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", size, strings.Repeat("x", size))
		for range 3 {
			producer.ask(put)
		}
		proven.ask("get big/peek\r\n")
		before := ts.inUse()
		var readers []*fitfulReader
		refused := 0
		for range 100 {
			r := ts.reader(memcacheProtocol{})
			r.feed([]byte(strings.Repeat("get big/peek\r\n", 20)), 1000)
			if strings.HasPrefix(string(r.pending), "SERVER_ERROR out of memory\r\n") {
				refused++
			}
			readers = append(readers, r)
		}
		if got, most := ts.inUse()-before, int64(ledgerLimit/replyShare+size+100*2*smallReply); got > most {
			t.Errorf("100 clients that do not read take %d bytes, want %d at most", got, most)
		}
		if n := ts.server.Counters().RepliesRefused; refused == 0 || n < int64(refused) {
			t.Errorf("%d clients were refused, %d refusals are counted", refused, n)
		}
		fresh := ts.dial(memcacheProtocol{})
		for _, tt := range []struct {
			c         *testClient
			ask, want string
		}{
			{fresh, "set small 0 0 1\r\ny\r\n", "STORED\r\n"},
			{fresh, "get small\r\n", "VALUE small 0 1\r\ny\r\nEND\r\n"},
			{fresh, "get big\r\n", "SERVER_ERROR out of memory\r\n"},
			{proven, "get big/peek\r\n", value},
		} {
			if got := tt.c.ask(tt.ask); got != tt.want {
				t.Errorf("%.20q is answered %.40q, want %.40q", tt.ask, got, tt.want)
			}
		}
		for _, r := range readers {
			r.hangUp()
		}
		for range 3 {
			if got := fresh.ask("get big\r\n"); got != value {
				t.Errorf("when they have gone, a get is answered %.40q", got)
			}
		}
		producer.hangUp()
		proven.hangUp()
		fresh.hangUp()
	})
}

// TestThriftRepliesUnread is TestRepliesUnread for gets of Thrift, which collect items in a frame.
func TestThriftRepliesUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, ledgerLimit)
		defer ts.stop()
		producer := ts.dial(memcacheProtocol{})
		put := fmt.Sprintf("set big 0 0 100000\r\n%s\r\n", strings.Repeat("x", 100_000))
		for range 80 {
			producer.ask(put)
		}
		before := ts.inUse()
		for range 10 {
			r := ts.reader(thriftProtocol{})
			r.feed(thrift.Client{}.AppendGet(nil, 1, []byte("big"), thrift.GetOptions{MaxItems: 1000}), 1000)
		}
		if got, most := ts.inUse()-before, int64(ledgerLimit/replyShare+200_000); got > most {
			t.Errorf("10 clients that do not read take %d bytes, want %d at most", got, most)
		}
		if n := ts.server.Counters().RepliesRefused; n == 0 {
			t.Error("nobody was refused")
		}
		producer.hangUp()
	})
}

// TestThriftGetOfMany tests that gets that collect more small items than all replies may take answer with what
// they have: nobody reads what they wait for.
//
// Its control is a continueMonitor that pauses whenever a client owes too much.
func TestThriftGetOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, ledgerLimit)
		defer ts.stop()
		producer := ts.dial(memcacheProtocol{})
		defer producer.hangUp()
		put := strings.Repeat(fmt.Sprintf("set q 0 0 1000\r\n%01000d\r\n", 1), 1000)
		for range 8 {
			producer.ask(put)
		}
		c := ts.dialThrift()
		defer c.hangUp()
		got, _ := c.get("q", thrift.GetOptions{MaxItems: 100_000})
		if n := len(strings.Fields(got)); n < 3000 || n > 5000 {
			t.Errorf("a get brings %d items, want a quarter of the memory limit full", n)
		}
	})
}

// growthReceiver watches how a get's reply grows: never by much while an item is received, which is with a shard
// locked.
type growthReceiver struct {
	thriftProtocol
	moved int // bytes that were copied for an item at most, because the reply grew
	sizes int // different capacities
}

func (g *growthReceiver) item(s *session, it engine.Item) bool {
	before, held := cap(s.thrift.get.reply.B), len(s.thrift.get.reply.B)
	taken := g.thriftProtocol.item(s, it)
	if cap(s.thrift.get.reply.B) != before {
		g.sizes++
		g.moved = max(g.moved, held)
	}
	return taken
}

// TestThriftGetGrowsOutside tests that the reply to a get of many items grows when no shard is locked, and has
// all of them in order.
//
// Its control is an item that never finds the reply short.
func TestThriftGetGrowsOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, 256<<20)
		defer ts.stop()
		producer := ts.dial(memcacheProtocol{})
		defer producer.hangUp()
		const items = 60
		var want []string
		for i := range items {
			item := fmt.Sprintf("%0100000d", i)
			want = append(want, item)
			producer.ask("set q 0 0 100000\r\n" + item + "\r\n")
		}
		c, watch := ts.dialThrift(), &growthReceiver{}
		defer c.hangUp()
		c.session.proto = watch
		if got, _ := c.get("q", thrift.GetOptions{MaxItems: items}); got != strings.Join(want, " ") {
			t.Errorf("%d bytes arrive, want %d", len(got), items*100_001-1)
		}
		if most := 256 << 10; watch.moved > most {
			t.Errorf("%d bytes of a reply are copied while an item is received, want %d at most", watch.moved, most)
		}
		if got := ts.server.Counters().CmdMonitorGet; got != items {
			t.Errorf("%d items are counted, want %d", got, items)
		}
	})
}

// A client that asks for a large item and shuts down its sending side gets all of it.
func TestHalfCloseWithLargeItem(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const size = 20 << 20
		s := startServer(t, eventLoop, Options{}, unsynced())
		p := dial(t, s)
		data := strings.Repeat("0123456789abcdef", size/16)
		p.send("set big 0 0 %d\r\n", size)
		p.sendWhole(data)
		p.sendWhole("\r\n")
		p.expect("STORED\r\n")
		p.send("get big\r\n")
		waitFor(t, func() bool { return s.Counters().GetHits == 1 })
		p.CloseWrite()
		waitFor(t, func() bool { return s.Connections() == 0 })
		p.expect(fmt.Sprintf("VALUE big 0 %d\r\n", size))
		p.expect(data)
		p.expect("\r\nEND\r\n")
		if got := p.expectEnd(); got != "" {
			t.Errorf("%d bytes arrived behind the reply", len(got))
		}
	})
}
