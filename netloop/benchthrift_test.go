package netloop

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// thriftBatch is how many items a call of the benchmarks has.
const thriftBatch = 100

// batches is a client that puts, gets and confirms items in batches, and allocates nothing.
type batches struct {
	codec   thrift.Client
	queue   []byte
	items   [][]byte
	ids     []int64
	request []byte
	answer  []byte
	reply   thrift.Reply
	turn    func(request []byte, answer []byte) []byte // returns the answer to a request
}

func newBatches(turn func(request, answer []byte) []byte) *batches {
	c := &batches{queue: []byte("bench"), turn: turn}
	for range thriftBatch {
		c.items = append(c.items, make([]byte, 64))
	}
	return c
}

func (c *batches) call(b testing.TB, request []byte) *thrift.Reply {
	c.request = request
	c.answer = c.turn(request, c.answer[:0])
	if _, err := c.codec.DecodeReply(c.answer, &c.reply); err != nil || c.reply.Failed {
		b.Fatalf("reply %x: %v", c.answer, err)
	}
	return &c.reply
}

// round puts a batch, gets it, and confirms it unless the get is plain.
func (c *batches) round(b testing.TB, reliable bool) {
	if r := c.call(b, c.codec.AppendPut(c.request[:0], 1, c.queue, 0, c.items...)); r.Count != thriftBatch {
		b.Fatalf("put = %d", r.Count)
	}
	o := thrift.GetOptions{MaxItems: thriftBatch}
	if reliable {
		o.AutoAbortMillis = 60_000
	}
	r := c.call(b, c.codec.AppendGet(c.request[:0], 2, c.queue, o))
	c.ids = c.ids[:0]
	for item := range r.Items.All() {
		c.ids = append(c.ids, item.ID)
	}
	if len(c.ids) != thriftBatch {
		b.Fatalf("get = %d items", len(c.ids))
	}
	if !reliable {
		return
	}
	if r := c.call(b, c.codec.AppendConfirm(c.request[:0], 3, c.queue, c.ids...)); r.Count != thriftBatch {
		b.Fatalf("confirm = %d", r.Count)
	}
}

// BenchmarkThriftLoopback is one client and the server in one process. Its server-ns/item is the server's time for an
// item that is put, fetched and, if reliable, confirmed. That of BenchmarkLoopback/SET+GET/pipeline=32 is the same for
// memcache.
func BenchmarkThriftLoopback(b *testing.B) {
	for _, reliable := range []bool{false, true} {
		name := "plain"
		if reliable {
			name = "reliable"
		}
		b.Run(name, func(b *testing.B) {
			s := startServer(b, DefaultEventLoop, Options{MaxOpenReads: thriftBatch, Loops: 1, Thrift: "127.0.0.1:0"}, unsynced())
			client := dialBench(b, s.ThriftAddr())
			c := newBatches(func(request, answer []byte) []byte {
				client.write(request)
				return client.readFrame(answer)
			})
			for range 100 {
				c.round(b, reliable)
			}
			b.ReportAllocs()
			client.begin()
			for b.Loop() {
				c.round(b, reliable)
			}
			client.report(b.N * thriftBatch)
		})
	}
}

// readFrame reads one frame, its length included, into buf.
func (c *benchClient) readFrame(buf []byte) []byte {
	buf = append(buf[:0], 0, 0, 0, 0)
	c.read(buf)
	size := int(binary.BigEndian.Uint32(buf))
	buf = slices.Grow(buf, size)[:4+size]
	c.read(buf[4:])
	return buf
}

// TestThriftNoAllocations checks that calls cost no allocation once pools and buffers have their
// size.
func TestThriftNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("pools forget what they hold under the race detector")
	}
	e, err := engine.Open(engine.Options{Dir: t.TempDir(), Settings: engine.Settings{Default: unsynced()}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := New(Options{Engine: e, Loops: 1, MaxOpenReads: thriftBatch + 1})
	if err != nil {
		t.Fatal(err)
	}
	l := s.loops[0].loop
	l.wake = func() {}
	l.watchdog.elapsed = func(time.Time) time.Duration { return 0 } // a busy machine ends no turn early
	sink := &recorder{testClient: testClient{ts: &testServer{t: t, loop: l}}}
	sink.session.proto, sink.session.sink, sink.session.loop = thriftProtocol{}, sink, l
	l.open(&sink.session)
	c := newBatches(func(request, answer []byte) []byte {
		l.begin()
		sink.session.receive(request)
		l.tick()
		return append(answer, sink.last...)
	})
	// A queue of which nothing is aside keeps little memory for that: one read stays open.
	c.call(t, c.codec.AppendPut(nil, 1, c.queue, 0, []byte("x")))
	c.call(t, c.codec.AppendGet(nil, 1, c.queue, thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 60_000}))
	for _, reliable := range []bool{false, true} {
		allocs := testing.AllocsPerRun(500, func() { c.round(t, reliable) })
		if allocs != 0 {
			t.Errorf("reliable %t: %v allocations for %d items", reliable, allocs, thriftBatch)
		}
	}
}

// recorder is a sink that keeps the last that was sent.
type recorder struct {
	testClient
	last []byte
}

func (r *recorder) send(p []byte) { r.last = append(r.last[:0], p...) }
