package netloop

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// newTurner is a loop that is given input by hand, over an engine that never syncs.
func newTurner(b *testing.B, noHistograms bool) (*loop, *session) {
	e, err := engine.Open(engine.Options{
		Dir: b.TempDir(), Settings: engine.Settings{Default: unsynced()}, NoHistograms: noHistograms,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	server, err := New(Options{Engine: e, Loops: 1, MaxOpenReads: 100, NoHistograms: noHistograms})
	if err != nil {
		b.Fatal(err)
	}
	l := server.loops[0].loop
	l.wake = func() {}
	sink := &discard{testClient: testClient{ts: &testServer{server: server, loop: l}}}
	sink.session.proto, sink.session.sink, sink.session.loop = memcacheProtocol{}, sink, l
	l.open(&sink.session)
	return l, &sink.session
}

// BenchmarkHistograms is what measuring costs: turns of a loop without a network, which leaves
// nothing to hide behind. Compare with: go test -run '^$' -bench Histograms -count 10 ./netloop,
// and benchstat -col /histograms.
func BenchmarkHistograms(b *testing.B) {
	body := strings.Repeat("x", 64)
	for _, bb := range []struct {
		name   string
		queues int
		get    bool
	}{{"SET", 1, false}, {"SET,queues=32", 32, false}, {"SET+GET", 1, true}} {
		for _, pipeline := range []int{1, 32} {
			if pipeline < bb.queues {
				continue
			}
			var request strings.Builder
			for i := range pipeline {
				fmt.Fprintf(&request, "set bench%d 0 0 64\r\n%s\r\n", i%bb.queues, body)
				if bb.get {
					fmt.Fprintf(&request, "get bench%d\r\n", i%bb.queues)
				}
			}
			in := []byte(request.String())
			for _, mode := range []string{"off", "on"} {
				b.Run(fmt.Sprintf("%s/pipeline=%d/histograms=%s", bb.name, pipeline, mode), func(b *testing.B) {
					l, s := newTurner(b, mode == "off")
					b.ReportAllocs()
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					began := threadTime(b)
					for n := 0; b.Loop(); n++ {
						l.begin()
						s.receive(in)
						l.tick()
						if !bb.get && n%(100_000/pipeline) == 0 {
							l.engine.FlushAll(engine.Now(), "")
						}
					}
					used := threadTime(b) - began
					b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*pipeline), "cpu-ns/request")
				})
			}
		}
	}
}

// BenchmarkRecording is what measuring costs a server whose clients are connected: server-ns/item
// for an item that is put. Compare runs that take turns:
//
//	for i in $(seq 10); do go test -run '^$' -bench Recording ./netloop; done > recording.txt
//	benchstat -col /histograms recording.txt
func BenchmarkRecording(b *testing.B) {
	body := strings.Repeat("x", 64)
	for _, bb := range []struct{ pipeline, queues int }{{1, 1}, {32, 1}, {32, 32}} {
		var request strings.Builder
		for i := range bb.pipeline {
			fmt.Fprintf(&request, "set bench%d 0 0 64\r\n%s\r\n", i%bb.queues, body)
		}
		in, out := []byte(request.String()), make([]byte, bb.pipeline*len("STORED\r\n"))
		for _, mode := range []string{"off", "on"} {
			name := fmt.Sprintf("pipeline=%d/queues=%d/histograms=%s", bb.pipeline, bb.queues, mode)
			b.Run(name, func(b *testing.B) {
				s := startServer(b, DefaultEventLoop, Options{Loops: 1, NoHistograms: mode == "off"}, unsynced())
				c := dialBench(b, s.MemcacheAddr())
				turn := func() {
					c.write(in)
					c.read(out)
				}
				for range 100 {
					turn()
				}
				c.begin()
				for n := 0; b.Loop(); n++ {
					turn()
					if n%(100_000/bb.pipeline) == 0 {
						c.write([]byte("flush_all\r\n"))
						c.read(make([]byte, len(memcache.ReplyFlushedAll)))
					}
				}
				c.report(b.N * bb.pipeline)
			})
		}
	}
}

// BenchmarkStats is one client and the server in one process: STATS with 10,000 queues, until the
// answer has come.
func BenchmarkStats(b *testing.B) {
	s := startServer(b, DefaultEventLoop, Options{Loops: 1}, unsynced())
	c := dialBench(b, s.MemcacheAddr())
	stored := make([]byte, len(memcache.ReplyStored))
	for i := range 10_000 {
		c.write(fmt.Appendf(nil, "set queue%05d 0 0 5\r\nhello\r\n", i))
		c.read(stored)
	}
	answer := make([]byte, 0, 16<<20)
	for b.Loop() {
		c.write([]byte("stats\r\n"))
		for answer = answer[:0]; !bytes.HasSuffix(answer, []byte("\r\nEND\r\n")); {
			answer = c.readSome(answer)
		}
	}
	b.SetBytes(int64(len(answer)))
}
