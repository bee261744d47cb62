package netloop

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// thriftClient calls a testServer. Its methods fail the test if no reply comes, or an exception
// where none is expected.
type thriftClient struct {
	*testClient
	codec thrift.Client
	seq   int32
}

func (ts *testServer) dialThrift() *thriftClient {
	return &thriftClient{testClient: ts.dial(thriftProtocol{})}
}

// reply returns the next reply, which must be there.
func (c *thriftClient) reply() thrift.Reply {
	c.ts.t.Helper()
	var r thrift.Reply
	out, ended := c.received()
	n, err := c.codec.DecodeReply(out, &r)
	if err != nil || r.Seq != c.seq {
		c.ts.t.Fatalf("reply = %x, closed %t: %v, sequence %d, want %d", out, ended, err, r.Seq, c.seq)
	}
	c.consume(n)
	return r
}

// call sends frame and returns the reply.
func (c *thriftClient) call(frame []byte) thrift.Reply {
	c.ts.t.Helper()
	c.feed(frame, 1<<20)
	return c.reply()
}

func (c *thriftClient) next() int32 {
	c.seq++
	return c.seq
}

func (c *thriftClient) put(queue string, items ...string) int32 {
	c.ts.t.Helper()
	var list [][]byte
	for _, item := range items {
		list = append(list, []byte(item))
	}
	return c.call(c.codec.AppendPut(nil, c.next(), []byte(queue), 0, list...)).Count
}

// get returns the items, joined, and their ids.
func (c *thriftClient) get(queue string, o thrift.GetOptions) (items string, ids []int64) {
	c.ts.t.Helper()
	return itemsOf(c.call(c.codec.AppendGet(nil, c.next(), []byte(queue), o)))
}

func itemsOf(r thrift.Reply) (items string, ids []int64) {
	var all []string
	for item := range r.Items.All() {
		all = append(all, string(item.Data))
		ids = append(ids, item.ID)
	}
	return strings.Join(all, " "), ids
}

func (c *thriftClient) confirm(queue string, ids ...int64) int32 {
	c.ts.t.Helper()
	return c.call(c.codec.AppendConfirm(nil, c.next(), []byte(queue), ids...)).Count
}

func (c *thriftClient) abort(queue string, ids ...int64) int32 {
	c.ts.t.Helper()
	return c.call(c.codec.AppendAbort(nil, c.next(), []byte(queue), ids...)).Count
}

// testThrift runs f in a synctest bubble with a server.
func testThrift(t *testing.T, opts Options, set engine.Settings, f func(*testing.T, *testServer)) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, opts, set)
		defer ts.stop()
		f(t, ts)
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// everything gets all that is there for good; reliably keeps it open for a minute.
var (
	everything = thrift.GetOptions{MaxItems: -1}
	reliably   = thrift.GetOptions{MaxItems: -1, AutoAbortMillis: 60_000}
)

// Whatever the order of the ids in the set, items come back in the order they were opened.
func TestThriftAbortKeepsOrder(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		c.put("q", "a", "b", "c", "d", "e")
		_, first := c.get("q", thrift.GetOptions{MaxItems: 2, AutoAbortMillis: 60_000})
		_, second := c.get("q", thrift.GetOptions{MaxItems: 2, AutoAbortMillis: 60_000})
		ids := append(first, second...)
		slices.Sort(ids) // at random, as ids are
		if n := c.abort("q", append(ids, 4711)...); n != 4 {
			t.Errorf("abort = %d, want 4", n)
		}
		if got, _ := c.get("q", everything); got != "a b c d e" {
			t.Errorf("after abort of all: %q", got)
		}
	})
}

// What nobody ends in time comes back, calls of the same deadline in the order they were made.
func TestThriftAutoAbort(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		c.put("q", "a", "b", "c", "d", "e", "f")
		o := thrift.GetOptions{MaxItems: 2, AutoAbortMillis: 500}
		_, ids := c.get("q", o)
		c.get("q", o)
		c.confirm("q", ids[1])
		pass(499 * time.Millisecond)
		if got, _ := c.get("q", thrift.GetOptions{MaxItems: 1}); got != "e" {
			t.Errorf("before the deadline: %q, want e", got)
		}
		pass(10 * time.Millisecond)
		if got, _ := c.get("q", everything); got != "a c d f" {
			t.Errorf("after the deadline: %q, want a c d f", got)
		}
		if n := c.confirm("q", ids[0]); n != 0 {
			t.Errorf("confirm after the deadline = %d, want 0", n)
		}
	})
}

// The time to confirm runs from the reply on, not from when an item left the queue.
func TestThriftAutoAbortCountsFromReply(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		c, other := ts.dialThrift(), ts.dialThrift()
		defer c.hangUp()
		defer other.hangUp()
		c.put("q", "a")
		c.feed(c.codec.AppendGet(nil, c.next(), []byte("q"),
			thrift.GetOptions{MaxItems: 2, WaitMillis: 1000, AutoAbortMillis: 300}), 1<<20)
		pass(1010 * time.Millisecond)
		if items, _ := itemsOf(c.reply()); items != "a" {
			t.Fatalf("got %q, want a", items)
		}
		pass(200 * time.Millisecond)
		if got, _ := other.get("q", everything); got != "" {
			t.Errorf("200 ms after the reply: %q, want nothing", got)
		}
		pass(110 * time.Millisecond)
		if got, _ := other.get("q", everything); got != "a" {
			t.Errorf("310 ms after the reply: %q, want a", got)
		}
	})
}

// An id is good for its own queue only, cannot be guessed, and frees the opener's room for open
// reads, whoever confirms.
func TestThriftIDs(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 2}, defaults(), func(t *testing.T, ts *testServer) {
		c, other := ts.dialThrift(), ts.dialThrift()
		defer c.hangUp()
		defer other.hangUp()
		c.put("q", "a", "b", "c")
		items, ids := c.get("q", reliably)
		if items != "a b" {
			t.Fatalf("reliable get = %q, want a b: the limit of open reads", items)
		}
		for _, id := range ids {
			if id < 1<<32 {
				t.Errorf("id %d is small: ids are drawn from 63 bits", id)
			}
		}
		if n := other.confirm("p", ids...) + other.abort("p", ids...); n != 0 {
			t.Errorf("ids of another queue: %d found, want 0", n)
		}
		if n := other.confirm("q", ids[0]+1, ids[1]-1, 0, -1, 1); n != 0 {
			t.Errorf("made up ids: %d found, want 0", n)
		}
		if items, _ := c.get("q", everything); items != "" {
			t.Errorf("plain get at the limit of open reads = %q, want nothing", items)
		}
		if n := other.confirm("q", ids[0], ids[0]); n != 1 {
			t.Errorf("confirm by another connection = %d, want 1", n)
		}
		if items, _ := c.get("q", reliably); items != "c" {
			t.Errorf("reliable get after a confirm = %q, want c", items)
		}
	})
}

// A client that goes away while its get collects loses nothing; reads handed out before stay open.
func TestThriftClientLost(t *testing.T) {
	for _, autoAbort := range []int32{0, 60_000} {
		testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
			c, other := ts.dialThrift(), ts.dialThrift()
			defer other.hangUp()
			c.put("q", "a", "b", "c")
			c.get("q", thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 60_000})
			c.feed(c.codec.AppendGet(nil, c.next(), []byte("q"),
				thrift.GetOptions{MaxItems: 9, WaitMillis: 5000, AutoAbortMillis: autoAbort}), 1<<20)
			other.put("q", "d") // goes to c, which waits
			c.hangUp()
			if got, _ := other.get("q", everything); got != "b c d" {
				t.Errorf("auto_abort %d: after the client was lost: %q, want b c d", autoAbort, got)
			}
		})
	}
}

// A put too large for one turn runs beside the loop; what is pipelined behind it waits.
func TestThriftLargePut(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		items := make([][]byte, 3*maxPutItems)
		for i := range items {
			items[i] = fmt.Appendf(nil, "%d", i)
		}
		put := c.codec.AppendPut(nil, c.next(), []byte("q"), 0, items...)
		c.feed(c.codec.AppendGet(put, c.next(), []byte("q"), everything), 1000)
		pass(time.Second) // portions of a get leave time between them
		c.seq--
		if r := c.reply(); r.Count != int32(len(items)) {
			t.Fatalf("put = %d, want %d", r.Count, len(items))
		}
		c.seq++
		i := 0
		for item := range c.reply().Items.All() {
			if string(item.Data) != string(items[i]) {
				t.Fatalf("item %d = %q", i, item.Data)
			}
			i++
		}
		if i != len(items) {
			t.Errorf("%d items came back, want %d", i, len(items))
		}
	})
}

// Puts count as they are tried, whether the put runs on the loop or beside it, and whether its
// client stays.
func TestThriftPutsCount(t *testing.T) {
	for _, tc := range []struct {
		items int
		gone  bool
	}{
		{items: 20},
		{items: 2 * maxPutItems},
		{items: 2 * maxPutItems, gone: true},
	} {
		set := defaults()
		set.Default.MaxItems = 10
		testThrift(t, Options{}, set, func(t *testing.T, ts *testServer) {
			c := ts.dialThrift()
			put := c.codec.AppendPut(nil, c.next(), []byte("q"), 0, make([][]byte, tc.items)...)
			if tc.gone {
				ts.do(func() {
					ts.loop.begin()
					c.session.receive(put) // the job begins; its end is heard of in a turn to come
					ts.loop.endSession(&c.session, true)
					ts.server.connections.Add(-1)
					ts.loop.tick()
				})
			} else {
				c.call(put)
				c.hangUp()
			}
			if got := ts.server.Counters().CmdSet; got != 11 { // the last was refused
				t.Errorf("%d items, client gone %t: %d puts counted, want 11", tc.items, tc.gone, got)
			}
		})
	}
}

// A get returns no more than the common client libraries take, and leaves the rest where it is.
func TestThriftReplyIsBounded(t *testing.T) {
	set := defaults()
	set.Default.MaxItemSize = 16 << 20
	testThrift(t, Options{MaxOpenReads: 10}, set, func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		large := bytes.Repeat([]byte("x"), 5<<20)
		for range 4 {
			c.call(c.codec.AppendPut(nil, c.next(), []byte("q"), 0, large))
		}
		for _, o := range []thrift.GetOptions{everything, {MaxItems: -1, WaitMillis: 100, AutoAbortMillis: 9}} {
			frame := c.codec.AppendGet(nil, c.next(), []byte("q"), o)
			c.feed(frame, 1<<20)
			out, _ := c.received()
			if size := len(out); size > maxThriftReply {
				t.Errorf("get %+v: the reply has %d bytes", o, size)
			}
			want := 3
			if o.WaitMillis > 0 {
				want = 1
				pass(200 * time.Millisecond)
			}
			if got := c.reply().Items.Len(); got != want {
				t.Errorf("get %+v = %d items, want %d", o, got, want)
			}
		}
	})
}

// A queue that admits one client knows it by the header of upgraded connections.
func TestThriftClientID(t *testing.T) {
	set := defaults()
	q := set.Default
	q.EnqueueClientID, q.DequeueClientID = "in", "out"
	set.Queues = map[string]engine.QueueOptions{"q": q}
	testThrift(t, Options{MaxOpenReads: 10}, set, func(t *testing.T, ts *testServer) {
		plain, c := ts.dialThrift(), ts.dialThrift()
		defer plain.hangUp()
		defer c.hangUp()
		r := plain.call(plain.codec.AppendPut(nil, plain.next(), []byte("q"), 0, []byte("x")))
		if !r.Failed || r.Exception != thrift.ExceptionInternal {
			t.Errorf("put without a client id = %+v, want an exception", r)
		}
		c.call(c.codec.AppendCall(nil, thrift.MethodUpgrade, 0, nil))
		c.codec.Upgraded = true
		c.codec.ClientID = []byte("in")
		if n := c.put("q", "x"); n != 1 {
			t.Errorf("put by the client admitted = %d, want 1", n)
		}
		r = c.call(c.codec.AppendGet(nil, c.next(), []byte("q"), everything))
		if !r.Failed {
			t.Errorf("get by a client that is not admitted = %+v, want an exception", r)
		}
		c.codec.ClientID = []byte("out")
		if items, _ := c.get("q", everything); items != "x" {
			t.Errorf("get by the client admitted = %q, want x", items)
		}
	})
}

// When the commit fails, calls that claimed something end in an exception; others keep their
// answer.
func TestThriftRetract(t *testing.T) {
	for _, upgraded := range []bool{false, true} {
		call := thrift.Call{Method: thrift.MethodPut, Seq: 7, Upgraded: upgraded}
		reply := thrift.AppendCount(nil, call, 3)
		var r thrift.Reply
		codec := thrift.Client{Upgraded: upgraded}
		_, err := codec.DecodeReply(thriftProtocol{}.retract(nil, reply, engine.ErrJournal), &r)
		const want = "Internal error processing put: 'journal failed'"
		if err != nil || !r.Failed || r.Seq != 7 || string(r.Message) != want {
			t.Errorf("upgraded %t: retracted reply = %+v, %v", upgraded, r, err)
		}
	}
}

// An alias that hides a queue of its name has nothing to tell, as it has nothing to fetch.
func TestThriftPeekOfAlias(t *testing.T) {
	testThrift(t, Options{}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		c.put("q", "hidden")
		set := defaults()
		set.Aliases = map[string][]string{"q": {"other"}}
		if err := ts.opts.Engine.Reload(set); err != nil {
			t.Fatal(err)
		}
		r := c.call(c.codec.AppendCall(nil, thrift.MethodPeek, c.next(), []byte("q")))
		if i := r.Info; r.Failed || i.HasHead || i.Items != 0 || i.Bytes != 0 || i.JournalBytes != 0 {
			t.Errorf("peek of an alias over a queue = %+v, want zeros", i)
		}
	})
}

// An item is in a reply once, also if the call collects for longer than a read may stay open. That
// time runs from the reply on.
func TestThriftGetOutlastsOpenReadTimeout(t *testing.T) {
	set := defaults()
	set.Default.OpenReadTimeout = 300 * time.Millisecond
	testThrift(t, Options{MaxOpenReads: 10}, set, func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		for _, autoAbort := range []int32{0, 60_000} {
			c.put("q", "a", "b")
			o := thrift.GetOptions{MaxItems: 9, WaitMillis: 1000, AutoAbortMillis: autoAbort}
			c.feed(c.codec.AppendGet(nil, c.next(), []byte("q"), o), 1<<20)
			pass(1010 * time.Millisecond)
			items, ids := itemsOf(c.reply())
			if items != "a b" {
				t.Fatalf("auto_abort %d: the reply has %q, want a b", autoAbort, items)
			}
			if got, _ := c.get("q", everything); got != "" {
				t.Errorf("auto_abort %d: after the reply: %q, want nothing", autoAbort, got)
			}
			if autoAbort == 0 {
				continue
			}
			if n := c.confirm("q", ids[0]); n != 1 {
				t.Errorf("confirm = %d, want 1", n)
			}
			pass(500 * time.Millisecond)
			if got, _ := c.get("q", everything); got != "b" {
				t.Errorf("500 ms after the reply: %q, want b", got)
			}
		}
	})
}
