package netloop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// largeItem is an item that no loop puts itself.
var largeItem = strings.Repeat("l", largePut*3/2)

// largePuts are requests that put one, with a small one behind it, and what is answered.
func largePuts() map[string]struct {
	proto         protocol
	request, want string
} {
	set := fmt.Sprintf("set q 0 0 %d", len(largeItem))
	small := "set q 0 0 5\r\nsmall\r\n"
	call := func(seq int32) thrift.Call { return thrift.Call{Method: thrift.MethodPut, Seq: seq} }
	var client thrift.Client
	return map[string]struct {
		proto         protocol
		request, want string
	}{
		"memcache": {memcacheProtocol{}, set + "\r\n" + largeItem + "\r\n" + small, "STORED\r\nSTORED\r\n"},
		"noreply":  {memcacheProtocol{}, set + " noreply\r\n" + largeItem + "\r\n" + small, "STORED\r\n"},
		"text":     {textProtocol{}, "put q:\n" + largeItem + "\nsmall\n\n", "+2\n"},
		"thrift": {thriftProtocol{},
			string(client.AppendPut(nil, 1, []byte("q"), 0, []byte(largeItem))) +
				string(client.AppendPut(nil, 2, []byte("q"), 0, []byte("small"))),
			string(thrift.AppendCount(nil, call(1), 1)) + string(thrift.AppendCount(nil, call(2), 1))},
	}
}

// expectLargeFirst checks that q has the large item, and then the small one if there is to be one.
func expectLargeFirst(ts *testServer, small bool) {
	ts.t.Helper()
	c := ts.dial(memcacheProtocol{})
	defer c.hangUp()
	want := fmt.Sprintf("VALUE q 0 %d\r\n%s\r\nEND\r\n", len(largeItem), largeItem)
	if got := c.ask("get q\r\n"); got != want {
		ts.t.Errorf("the large item: got %d bytes %.40q, want %d", len(got), got, len(want))
	}
	want = "END\r\n"
	if small {
		want = "VALUE q 0 5\r\nsmall\r\nEND\r\n"
	}
	if got := c.ask("get q\r\n"); got != want {
		ts.t.Errorf("behind the large item: got %.40q, want %q", got, want)
	}
}

// TestLargePutLeavesLoop tests that no loop puts a large item itself, and that requests pipelined behind it are
// handled after it. At the end its input is no longer counted. The item comes in one piece, or in pieces as sockets
// give them.
func TestLargePutLeavesLoop(t *testing.T) {
	for name, tt := range largePuts() {
		for _, piece := range []int{1 << 30, readSize} {
			t.Run(fmt.Sprint(name, "/", piece), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts := newLedgerServer(t, Options{}, 64<<20)
					defer ts.stop()
					c := ts.dial(tt.proto)
					most := min(piece, len(tt.request))
					last := tt.request[(len(tt.request)-1)/most*most:]
					c.feed([]byte(tt.request[:len(tt.request)-len(last)]), piece)
					ts.do(func() {
						ts.loop.begin()
						c.session.receive([]byte(last))
						if s := &c.session; len(s.out) > 0 || s.state != waiting || s.wait.kind != waitJob {
							t.Errorf("the loop has put a large item itself, and has %q to send", s.out)
						}
						ts.loop.tick()
					})
					if got, _ := c.received(); string(got) != tt.want {
						t.Errorf("got %q, want %q", got, tt.want)
					}
					if n := ts.server.buffered.Load(); n != 0 {
						t.Errorf("%d bytes of input are counted at the end", n)
					}
					if n := ts.server.Counters().CmdSet; n != 2 {
						t.Errorf("%d puts are counted, want 2", n)
					}
					expectLargeFirst(ts, true)
				})
			})
		}
	}
}

// TestLargePutWithoutEnd tests that no loop puts a large item itself whose line end is missing. The item is stored, and the
// connection ends: what follows may be part of the item.
func TestLargePutWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, 64<<20)
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		const size = largePut + 1
		request := fmt.Sprintf("set work 0 0 %d\r\n%s", size, strings.Repeat("x", size))
		c.feed([]byte(request), readSize)
		ts.do(func() {
			ts.loop.begin()
			c.session.receive([]byte("yzversion\r\n"))
			if s := &c.session; len(s.out) > 0 || s.state != waiting || s.wait.kind != waitJob {
				t.Errorf("the loop has put a large item itself, and has %q to send", s.out)
			}
			ts.loop.tick()
		})
		synctest.Wait()
		if got, ended := c.received(); string(got) != "STORED\r\nCLIENT_ERROR\r\n" || !ended {
			t.Errorf("got %q, ended %t, want that the item is stored, and the end", got, ended)
		}
		if q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("work")); q.Bytes != size {
			t.Errorf("%d bytes are stored, want %d", q.Bytes, size)
		}
		if n := ts.server.buffered.Load(); n != 0 {
			t.Errorf("%d bytes of input are counted at the end", n)
		}
	})
}

// TestLargePutHangUp tests that a client may go away while its large item is being put. The item is stored, whole,
// although the buffer it came in is not the session's any more.
func TestLargePutHangUp(t *testing.T) {
	for name, tt := range largePuts() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newLedgerServer(t, Options{}, 64<<20)
				defer ts.stop()
				before := ts.inUse()
				c := ts.dial(tt.proto)
				c.feed([]byte(tt.request[:readSize]), readSize)
				ts.do(func() {
					ts.loop.begin()
					c.session.receive([]byte(tt.request[readSize:]))
					ts.loop.endSession(&c.session, false)
					ts.server.connections.Add(-1)
					ts.loop.tick()
				})
				if n := ts.server.buffered.Load(); n != 0 {
					t.Errorf("%d bytes of input are counted at the end", n)
				}
				expectLargeFirst(ts, false)
				ts.do(ts.loop.tick)
				if n := ts.inUse() - before; n > 64<<10 {
					t.Errorf("%d bytes of memory are in use at the end", n)
				}
			})
		})
	}
}

// TestLargePutRefused tests how a large put is answered that no queue takes.
func TestLargePutRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, engine.Settings{Default: func() engine.QueueOptions {
			o := unsynced()
			o.MaxItemSize = largePut
			return o
		}()})
		defer ts.stop()
		for protocol, want := range map[string]string{
			"memcache": "NOT_STORED\r\nSTORED\r\n", "noreply": "STORED\r\n", "text": "+1\n",
		} {
			tt := largePuts()[protocol]
			c := ts.dial(tt.proto)
			c.feed([]byte(tt.request), readSize)
			if got, _ := c.received(); string(got) != want {
				t.Errorf("%s: got %q, want %q", protocol, got, want)
			}
			c.hangUp()
		}
	})
}

// writeDisk is a memory file system whose large writes wait until it is open.
type writeDisk struct {
	*segmenttest.FS
	open chan struct{}
}

func (d *writeDisk) Create(path string) (segment.File, error) { return d.file(d.FS.Create(path)) }
func (d *writeDisk) Open(path string) (segment.File, error)   { return d.file(d.FS.Open(path)) }

func (d *writeDisk) file(f segment.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	return &writeFile{f, d}, nil
}

type writeFile struct {
	segment.File
	disk *writeDisk
}

func (f *writeFile) WriteAt(p []byte, off int64) (int, error) {
	if len(p) > maxWrite {
		<-f.disk.open
	}
	return f.File.WriteAt(p, off)
}

// TestLargeWriteLeavesLoop tests that a loop serves others while a large item is being written to the journal. That
// holds also if a put has to wait for that write. The replies come behind it.
//
// Its control is a commit that writes whatever there is.
func TestLargeWriteLeavesLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &writeDisk{open: make(chan struct{})}
		ts := &testServer{t: t, fs: segmenttest.New(), set: engine.Settings{Default: unsynced()}}
		ts.wrap = func(fs *segmenttest.FS) segment.FS {
			disk.FS = fs
			return disk
		}
		ts.start()
		defer ts.stop()
		large, small, other := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		const size = 2 * maxWrite
		large.feed(fmt.Appendf(nil, "set q 0 0 %d\r\n%s\r\n", size, strings.Repeat("l", size)), size)
		small.feed([]byte("set r 0 0 1\r\nx\r\n"), 100)
		other.feed([]byte("version\r\n"), 100)
		large.expect("while the item is written", "")
		small.expect("while the item is written", "")
		other.expect("while the item is written", "VERSION "+Version+"\r\n")
		close(disk.open)
		large.expect("when it is written", "STORED\r\n")
		small.expect("when it is written", "STORED\r\n")
	})
}

// TestPeekLarge tests that a Thrift peek sends a large item in pieces, from where it lies. The answer is the same as
// in one piece.
func TestPeekLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		c := ts.dial(thriftProtocol{})
		c.feed([]byte(largePuts()["thrift"].request), 1<<20)
		before, _ := c.received()
		c.consume(len(before))
		r := &fitfulReader{testClient: c, reads: true}
		ts.do(func() { c.session.sink = r })
		c.feed(thrift.Client{}.AppendCall(nil, thrift.MethodPeek, 3, []byte("q")), 1<<10)
		got, _ := c.received()
		q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("q"))
		want := thrift.AppendQueueInfo(nil, thrift.Call{Method: thrift.MethodPeek, Seq: 3}, &thrift.QueueInfo{
			HasHead: true, HeadItem: []byte(largeItem), Items: q.Items, Bytes: q.Bytes,
			JournalBytes: q.LogSize(), AgeMillis: q.Age,
		})
		if !bytes.Equal(got, want) {
			t.Errorf("the answer has %d bytes, want the %d of a whole one", len(got), len(want))
		}
		if r.largest > bodyPiece {
			t.Errorf("%d bytes were sent at once, want %d at most", r.largest, bodyPiece)
		}
	})
}

// TestJobHalfClose tests a client that has shut down its sending side while a job was running. It gets the replies of
// that job, and of what it has pipelined behind it.
//
// Its control is a startJob that goes on listening.
func TestJobHalfClose(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{}, unsynced())
		for range 20 {
			p := dial(t, s)
			p.send("set half 0 0 %d\r\n%s\r\nget half\r\n", len(largeItem), largeItem)
			p.CloseWrite()
			want := fmt.Sprintf("STORED\r\nVALUE half 0 %d\r\n%s\r\nEND\r\n", len(largeItem), largeItem)
			if got := p.expectEnd(); got != want {
				t.Fatalf("got %d bytes, %.40q, want %d", len(got), got, len(want))
			}
		}
	})
}
