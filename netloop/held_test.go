package netloop

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// heldDisk is a memory file system whose syncs, once held is set, each wait for their outcome.
type heldDisk struct {
	*segmenttest.FS
	held    atomic.Bool
	outcome chan error
}

func (d *heldDisk) Create(path string) (segment.File, error) { return d.file(d.FS.Create(path)) }
func (d *heldDisk) Open(path string) (segment.File, error)   { return d.file(d.FS.Open(path)) }

func (d *heldDisk) file(f segment.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	return &heldFile{f, d}, nil
}

type heldFile struct {
	segment.File
	disk *heldDisk
}

func (f *heldFile) Datasync() error {
	if f.disk.held.Load() {
		if err := <-f.disk.outcome; err != nil {
			return err
		}
	}
	return f.File.Datasync()
}

// newHeldServer is a server that syncs for every put and confirm, on a disk that can be held.
func newHeldServer(t *testing.T, opts Options) (*testServer, *heldDisk) {
	disk := &heldDisk{outcome: make(chan error)}
	ts := &testServer{t: t, fs: segmenttest.New(), opts: opts, set: defaults(), handOff: true}
	ts.wrap = func(fs *segmenttest.FS) segment.FS {
		disk.FS = fs
		return disk
	}
	ts.start()
	return ts, disk
}

// end ends the sync that is under way; later ones still wait.
func (d *heldDisk) end(err error) {
	synctest.Wait()
	d.outcome <- err
	synctest.Wait()
}

// release ends the sync that is under way, if there is one, and holds none any more.
func (d *heldDisk) release() {
	synctest.Wait()
	d.held.Store(false)
	select {
	case d.outcome <- nil:
	default:
	}
	synctest.Wait()
}

// expect checks what the client has received, and forgets it.
func (c *testClient) expect(when, want string) {
	c.ts.t.Helper()
	synctest.Wait()
	out, _ := c.received()
	if string(out) != want {
		c.ts.t.Errorf("%s: got %q, want %q", when, out, want)
	}
	c.consume(len(out))
}

// TestConfirmInPassing confirms an item with the request for the next one, which has to wait. No reply
// may leave before the sync of the confirm, however the wait ends: the client would take the first item
// for done, and a power cut would bring it back.
//
// Its control is a deliver that forgets tickets that are not good.
func TestConfirmInPassing(t *testing.T) {
	const (
		memcacheNext = "get q/close/open/t=60000\r\n"
		memcacheItem = "VALUE q 0 1\r\n2\r\nEND\r\n"
	)
	put := func(p *testClient) { p.feed([]byte("set q 0 0 1\r\n2\r\n"), 100) }
	remove := func(p *testClient) { p.feed([]byte("delete q\r\n"), 100) }
	timeOut := func(*testClient) { time.Sleep(time.Minute + time.Millisecond) } // of the bubble
	stop := func(p *testClient) {
		p.ts.do(func() {
			p.ts.loop.begin()
			p.ts.server.loops[0].drain()
			p.ts.loop.tick()
		})
	}
	for _, tt := range []struct {
		name       string
		proto      protocol
		open, item string // the request for the first item, and the reply
		next       string
		end        func(*testClient) // ends the wait, if need be by another client
		want       string
	}{
		{"an item comes", memcacheProtocol{}, "get q/open\r\n", "VALUE q 0 1\r\n1\r\nEND\r\n", memcacheNext,
			put, memcacheItem},
		{"an item comes, text", textProtocol{}, "get q\n", ":1\n", "get q 60000\n", put, ":2\n"},
		{"an item comes to a monitor, text", textProtocol{}, "get q\n", ":1\n", "monitor q 60000\n", put, ":2\n*\n"},
		{"the time is over", memcacheProtocol{}, "get q/open\r\n", "VALUE q 0 1\r\n1\r\nEND\r\n", memcacheNext,
			timeOut, "END\r\n"},
		{"the time of a peek is over, text", textProtocol{}, "get q\n", ":1\n", "peek q 60000\n", timeOut, "*\n"},
		{"the server stops", memcacheProtocol{}, "get q/open\r\n", "VALUE q 0 1\r\n1\r\nEND\r\n", memcacheNext,
			stop, "END\r\n"},
		{"the queue goes", memcacheProtocol{}, "get q/open\r\n", "VALUE q 0 1\r\n1\r\nEND\r\n", memcacheNext,
			remove, "END\r\n"},
	} {
		for _, busy := range []bool{false, true} {
			name := tt.name
			if busy {
				name += ", behind a held reply"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts, disk := newHeldServer(t, Options{})
					a, p := ts.dial(tt.proto), ts.dial(memcacheProtocol{})
					p.feed([]byte("set q 0 0 1\r\n1\r\n"), 100)
					p.expect("put", "STORED\r\n")
					a.feed([]byte(tt.open), 100)
					a.expect("first item", tt.item)
					disk.held.Store(true)
					if busy {
						stored := map[protocol][2]string{
							memcacheProtocol{}: {"set other 0 0 1\r\nx\r\n", "STORED\r\n"},
							textProtocol{}:     {"put other:\nx\n\n", "+1\n"},
						}[tt.proto]
						a.feed([]byte(stored[0]), 100)
						a.feed([]byte(tt.next), 100)
						a.expect("before the first sync", "")
						disk.end(nil)
						a.expect("after the first sync", stored[1])
					} else {
						a.feed([]byte(tt.next), 100)
					}
					tt.end(p)
					a.expect("before the sync of the confirm", "")
					disk.release()
					a.expect("after the sync of the confirm", tt.want)
					a.hangUp()
					p.hangUp()
					ts.stop()
				})
			})
		}
	}
}
