package netloop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// gatedFS opens runs for reading only once its gate is closed, as a channel is.
type gatedFS struct {
	*segmenttest.FS
	gate chan struct{}
}

func (f *gatedFS) Uncached() segment.FS { return f }

func (f *gatedFS) OpenReadOnly(path string) (segment.File, error) {
	if strings.HasSuffix(path, ".run") {
		<-f.gate
	}
	return f.FS.OpenReadOnly(path)
}

// TestShutdownWaitsForDisk tests a fetch that waits only for the disk to give an item back. It is answered with the
// item even if the server stops, since the queue is not empty.
func TestShutdownWaitsForDisk(t *testing.T) {
	testDiskWait(t, func(t *testing.T, s *Server, _ *peer) {
		drained := make(chan struct{})
		s.loops[0].do(s.loops[0].drain)
		s.loops[0].do(func() { close(drained) })
		<-drained
	})
}

// TestHalfCloseWaitsForDisk: so is one whose client has shut down its sending side, and each that it sent behind it.
func TestHalfCloseWaitsForDisk(t *testing.T) {
	testDiskWait(t, func(t *testing.T, s *Server, p *peer) {
		p.CloseWrite()
		waitFor(t, func() (left bool) {
			looked := make(chan struct{})
			s.loops[0].do(func() {
				for _, c := range s.loops[0].conns {
					left = left || c != nil && c.session.leaving
				}
				close(looked)
			})
			<-looked
			return left
		})
	})
}

// testDiskWait has a client fetch everything of a queue whose backlog cannot be read yet. Then end does something, and
// the backlog can be read.
func testDiskWait(t *testing.T, end func(t *testing.T, s *Server, p *peer)) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		queue := unsynced()
		queue.MaxMemorySize = 2000
		fsys := &gatedFS{segmenttest.New(), make(chan struct{})}
		e, err := engine.Open(engine.Options{
			Dir: "data", FS: fsys, BacklogCached: true, Settings: engine.Settings{Default: queue}, SegmentSize: testSegment,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := startServerOf(t, eventLoop, e, Options{Loops: 1})
		p := dial(t, s)
		const items = 40
		want := ""
		for i := range items {
			body := fmt.Sprintf("%0500d", i)
			p.send("set q 0 0 500\r\n%s\r\n", body)
			p.expect("STORED\r\n")
			want += "VALUE q 0 500\r\n" + body + "\r\nEND\r\n"
		}
		waitFor(t, func() bool {
			q, _ := e.QueueStats(engine.Now(), []byte("q"))
			return q.BacklogBytes > 0
		})
		p.send("%s", strings.Repeat("get q\r\n", items))
		waitFor(t, func() bool {
			q, _ := e.QueueStats(engine.Now(), []byte("q"))
			return q.Waiters == 1
		})
		end(t, s, p)
		close(fsys.gate)
		p.expect(want)
	})
}
