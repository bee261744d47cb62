package netloop

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// BenchmarkLoopback is one client and the server in one process, over a real connection. B/op and allocs/op are those
// of both, and are 0. server-ns/item is the processor time of the server alone for an item that is put and fetched.
func BenchmarkLoopback(b *testing.B) {
	body := strings.Repeat("x", 64)
	set := "set bench 0 0 64\r\n" + body + "\r\n"
	value := "VALUE bench 0 64\r\n" + body + "\r\nEND\r\n"
	type exchange struct{ request, reply string } // so often in one write, and its answer
	for _, bb := range []struct {
		name string
		turn []exchange
	}{
		{"SET+GET", []exchange{{set + "get bench\r\n", "STORED\r\n" + value}}},
		{"SET,GET", []exchange{{set, "STORED\r\n"}, {"get bench\r\n", value}}},
		{"SET+GET-open+close", []exchange{
			{set + "get bench/open\r\nget bench/close\r\n", "STORED\r\n" + value + "END\r\n"}}},
		{"SET+GET-close-open", []exchange{
			{set + "get bench/close/open\r\n", "STORED\r\n" + value}}},
	} {
		for _, pipeline := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", bb.name, pipeline), func(b *testing.B) {
				s := startServer(b, DefaultEventLoop, Options{MaxOpenReads: 100, Loops: 1}, unsynced())
				c := dialBench(b, s.MemcacheAddr())
				var requests, replies [][]byte
				for _, x := range bb.turn {
					requests = append(requests, []byte(strings.Repeat(x.request, pipeline)))
					replies = append(replies, []byte(strings.Repeat(x.reply, pipeline)))
				}
				var got []byte
				turn := func() {
					for i, request := range requests {
						c.write(request)
						got = slices.Grow(got[:0], len(replies[i]))[:len(replies[i])]
						if c.read(got); !bytes.Equal(got, replies[i]) {
							b.Fatalf("got %q", got)
						}
					}
				}
				for range 100 { // pools and buffers reach their size
					turn()
				}
				b.ReportAllocs()
				c.begin()
				for b.Loop() {
					turn()
				}
				c.report(b.N * pipeline)
			})
		}
	}
}

// TestNoAllocations checks that a request costs no allocation once pools and buffers have their
// size.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("pools forget what they hold under the race detector")
	}
	sink := newDiscard(t)
	loop, e := sink.session.loop, sink.session.loop.engine
	for _, request := range []string{
		"set q 0 0 5\r\nhello\r\nget q\r\n",
		"set q 0 0 5\r\nhello\r\nget q/open\r\nget q/close\r\n",
		"set q 0 0 5\r\nhello\r\nget q/open\r\nget q/abort\r\nget q\r\n",
		"set q 0 0 5\r\nhello\r\nget q/peek\r\nget q\r\nget q\r\n",
		"set q 0 0 5\r\nhello\r\nget q/meta\r\n",
		"set q 0 0 5\r\nhello\r\nget q/lease=60000\r\ntouch q/lease 90\r\nget q/close\r\n",
		"set q 0 0 5\r\nhello\r\nget q/lease=60000\r\nget q/release\r\nget q\r\n",
	} {
		in := []byte(strings.Repeat(request, 8))
		allocs := testing.AllocsPerRun(1000, func() {
			loop.begin()
			sink.session.receive(in)
			loop.tick()
		})
		if allocs != 0 {
			t.Errorf("%q allocates %v times", request, allocs)
		}
	}
	t.Run("receipt", func(t *testing.T) {
		in := make([]byte, 0, 200)
		allocs := testing.AllocsPerRun(1000, func() {
			loop.begin()
			sink.session.receive(append(in, "set q/delay=0 0 0 5\r\nhello\r\ngets q/lease=60000\r\n"...))
			receipt := sink.session.delivery.Receipt
			sink.session.receive(memcache.AppendTouch(in, []byte("q"), receipt, 90))
			end := memcache.GetOptions{Close: true, Receipt: receipt}
			sink.session.receive(memcache.AppendGet(in, []byte("q"), end))
			loop.tick()
		})
		if allocs != 0 {
			t.Errorf("a lease with a receipt allocates %v times", allocs)
		}
		if q, _ := e.QueueStats(engine.Now(), []byte("q")); q.Items != 0 || q.Leased != 0 {
			t.Errorf("%d items, %d leased are left, want none", q.Items, q.Leased)
		}
	})
}

// discard is a sink that takes everything and keeps nothing.
type discard struct{ testClient }

func (d *discard) send([]byte) {}

// newDiscard returns a discard for the only session of a loop that has neither sockets nor a goroutine.
func newDiscard(tb testing.TB) *discard {
	e, err := engine.Open(engine.Options{Dir: tb.TempDir(), Settings: engine.Settings{Default: unsynced()}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	server, err := New(Options{Engine: e, Loops: 1, MaxOpenReads: 100})
	if err != nil {
		tb.Fatal(err)
	}
	l := server.loops[0].loop
	l.wake = func() {}
	l.watchdog.elapsed = func(time.Time) time.Duration { return 0 } // a busy machine ends no turn early
	d := &discard{testClient: testClient{ts: &testServer{server: server, loop: l}}}
	d.session.proto, d.session.sink, d.session.loop = memcacheProtocol{}, d, l
	l.open(&d.session)
	return d
}

// BenchmarkTurn is BenchmarkLoopback without sockets and without a client. It measures what a loop does with 32
// requests of a kind that came with one read, with users and without.
func BenchmarkTurn(b *testing.B) {
	const pipeline = 32
	bench := grants(b, "bench", "put bench", "get bench")
	usersOf(b, bench)
	set := "set bench 0 0 64\r\n" + strings.Repeat("x", 64) + "\r\n"
	for _, bb := range []struct {
		name  string
		reads []string // each comes so often
	}{
		{"SET+GET", []string{set + "get bench\r\n"}},
		{"SET,GET", []string{set, "get bench\r\n"}},
		{"SET+GET-open+close", []string{set + "get bench/open\r\nget bench/close\r\n"}},
		{"SET+GET-close-open", []string{set + "get bench/close/open\r\n"}},
	} {
		for _, user := range []*access.User{nil, bench} {
			who := "nobody"
			if user != nil {
				who = "user"
			}
			b.Run(bb.name+"/"+who, func(b *testing.B) {
				sink := newDiscard(b)
				sink.session.id.become(user)
				var reads [][]byte
				for _, request := range bb.reads {
					reads = append(reads, []byte(strings.Repeat(request, pipeline)))
				}
				turn := func() {
					for _, in := range reads {
						sink.session.loop.begin()
						sink.session.receive(in)
						sink.session.loop.tick()
					}
				}
				for range 100 { // pools and buffers reach their size
					turn()
				}
				b.ReportAllocs()
				for b.Loop() {
					turn()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pipeline), "ns/item")
			})
		}
	}
}
