package netloop

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
)

// BenchmarkLoopback is one client and the server in one process, over a real connection: B/op and
// allocs/op are those of both, and are 0.
func BenchmarkLoopback(b *testing.B) {
	body := strings.Repeat("x", 64)
	set := "set bench 0 0 64\r\n" + body + "\r\n"
	value := "VALUE bench 0 64\r\n" + body + "\r\nEND\r\n"
	for _, bb := range []struct{ name, request, reply string }{
		{"SET+GET", set + "get bench\r\n", "STORED\r\n" + value},
		{"SET+GET-open+close", set + "get bench/open\r\nget bench/close\r\n", "STORED\r\n" + value + "END\r\n"},
		{"SET+GET-close-open", set + "get bench/close/open\r\n", "STORED\r\n" + value},
	} {
		for _, pipeline := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", bb.name, pipeline), func(b *testing.B) {
				s := startServer(b, Options{MaxOpenReads: 100, Loops: 1}, unsynced())
				p := dial(b, s)
				request := []byte(strings.Repeat(bb.request, pipeline))
				want := []byte(strings.Repeat(bb.reply, pipeline))
				got := make([]byte, len(want))
				turn := func() {
					if _, err := p.Write(request); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(p.TCPConn, got); err != nil || !bytes.Equal(got, want) {
						b.Fatalf("got %q, %v", got, err)
					}
				}
				for range 100 { // pools and buffers reach their size
					turn()
				}
				b.SetBytes(int64(len(request)))
				b.ReportAllocs()
				for b.Loop() {
					turn()
				}
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
	ts := &testServer{t: t}
	e, err := engine.Open(engine.Options{Dir: t.TempDir(), Settings: engine.Settings{Default: unsynced()}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ts.server, err = New(Options{Engine: e, Loops: 1, MaxOpenReads: 100})
	if err != nil {
		t.Fatal(err)
	}
	ts.loop = ts.server.loops[0].loop
	ts.loop.wake = func() {}
	sink := &discard{testClient: testClient{ts: ts}}
	sink.session.proto, sink.session.sink, sink.session.loop = memcacheProtocol{}, sink, ts.loop
	ts.loop.open(&sink.session)
	for _, request := range []string{
		"set q 0 0 5\r\nhello\r\nget q\r\n",
		"set q 0 0 5\r\nhello\r\nget q/open\r\nget q/close\r\n",
		"set q 0 0 5\r\nhello\r\nget q/open\r\nget q/abort\r\nget q\r\n",
		"set q 0 0 5\r\nhello\r\nget q/peek\r\nget q\r\nget q\r\n",
	} {
		in := []byte(strings.Repeat(request, 8))
		allocs := testing.AllocsPerRun(1000, func() {
			ts.loop.begin()
			sink.session.receive(in)
			ts.loop.tick()
		})
		if allocs != 0 {
			t.Errorf("%q allocates %v times", request, allocs)
		}
	}
}

// discard is a sink that takes everything and keeps nothing.
type discard struct{ testClient }

func (d *discard) send([]byte) {}
