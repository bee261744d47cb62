package netloop

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
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

// release ends the syncs that are under way, and holds none any more.
func (d *heldDisk) release() {
	synctest.Wait()
	d.held.Store(false)
	for {
		select {
		case d.outcome <- nil:
			synctest.Wait()
		default:
			return
		}
	}
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
// may leave before the sync of the confirm, however the wait ends. The client would take the first item for done, and a
// power cut would bring it back.
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

// TestFailureIsOfItsCommit has one sync fail. Those whose puts it was for get the error, each once. A put that comes
// later, when the journal has been rewritten, is stored and says so: an error would have its client send it again.
//
// Its control is a failure that the next session to be held takes.
func TestFailureIsOfItsCommit(t *testing.T) {
	const put, stored, failed = "set q 0 0 1\r\nx\r\n", "STORED\r\n", "SERVER_ERROR journal failed\r\n"
	for _, tt := range []struct {
		name  string
		reset bool // the one whose put fails has gone by then
	}{{"", false}, {"client gone", true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, disk := newHeldServer(t, Options{})
				a, b, c := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
				disk.held.Store(true)
				a.feed([]byte(put), 100)
				if tt.reset {
					a.reset()
				} else {
					b.feed([]byte(put), 100) // for the next sync, which is refused
				}
				disk.end(syscall.EIO)
				disk.release()
				if !tt.reset {
					a.expect("put whose sync failed", failed)
					b.expect("put behind it", failed)
					a.hangUp()
				}
				time.Sleep(time.Minute) // of the bubble: the journal is rewritten meanwhile
				for range 3 {
					c.feed([]byte(put), 100)
					c.expect("put after the journal was rewritten", stored)
				}
				b.hangUp()
				c.hangUp()
				ts.stop()
			})
		})
	}
}

// TestFailureSparesLaterPuts: the sync that fails is for the first of a session's replies. What it has
// put since is for another sync, whose outcome counts.
func TestFailureSparesLaterPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, disk := newHeldServer(t, Options{})
		a := ts.dial(memcacheProtocol{})
		disk.held.Store(true)
		a.feed([]byte("set q 0 0 1\r\n1\r\nversion\r\n"), 100)
		a.feed([]byte("set q 0 0 1\r\n2\r\nversion\r\n"), 100)
		ts.do(func() { // as if the sync had failed, and the next one would not
			ts.loop.fail(a.session.heldTicket, engine.ErrJournal)
			ts.loop.tick()
		})
		a.expect("first put", "SERVER_ERROR journal failed\r\nVERSION "+Version+"\r\n")
		disk.release()
		a.expect("second put", "STORED\r\nVERSION "+Version+"\r\n")
		a.hangUp()
		ts.stop()
	})
}

// TestConfirmInPassingFails: the sync of a confirm fails while its session waits for the next item. That
// has no reply yet; the next one is not held for a commit which nobody asks for any more.
func TestConfirmInPassingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, disk := newHeldServer(t, Options{})
		a, p := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		p.feed([]byte("set q 0 0 1\r\n1\r\n"), 100)
		p.expect("put", "STORED\r\n")
		a.feed([]byte("get q/open\r\n"), 100)
		a.expect("first item", "VALUE q 0 1\r\n1\r\nEND\r\n")
		disk.held.Store(true)
		a.feed([]byte("get q/close/open/t=600000\r\n"), 100)
		disk.end(syscall.EIO)
		disk.release()
		time.Sleep(time.Minute)
		p.feed([]byte("set q 0 0 1\r\n2\r\n"), 100)
		p.expect("put after the journal was rewritten", "STORED\r\n")
		a.expect("second item", "VALUE q 0 1\r\n2\r\nEND\r\n")
		a.hangUp()
		p.hangUp()
		ts.stop()
	})
}

// TestFailureByTurn: with the sync on the loop itself, a failed one answers those whose puts it was
// for. A put of the same turn to a queue that needs no sync is stored, and says so.
func TestFailureByTurn(t *testing.T) {
	for _, handOff := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			set := defaults()
			lazy := set.Default
			lazy.Sync = engine.SyncNever
			set.Queues = map[string]engine.QueueOptions{"lazy": lazy}
			ts := newTestServer(t, Options{}, set)
			ts.server.inline.allowed = !handOff
			a, b := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
			ts.fs.SetFault(segmenttest.FailNth(segmenttest.OpDatasync,
				ts.fs.Calls(segmenttest.OpDatasync)+1, syscall.EIO))
			ts.do(func() {
				ts.loop.begin()
				a.session.receive([]byte("set q 0 0 1\r\n1\r\n"))
				b.session.receive([]byte("set lazy 0 0 1\r\n1\r\n"))
				ts.loop.tick()
			})
			a.expect("put that needs the sync", "SERVER_ERROR journal failed\r\n")
			b.expect("put that needs none", "STORED\r\n")
			time.Sleep(time.Minute)
			a.hangUp()
			b.hangUp()
			ts.stop()
		})
	}
}
