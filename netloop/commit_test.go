package netloop

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// survivors is how many items of queue q a restart would find after the crash that image stands
// for.
func survivors(t *testing.T, image *segmenttest.FS) int64 {
	t.Helper()
	e, err := engine.Open(engine.Options{Dir: "data", FS: image, Settings: defaults(), SegmentSize: 1 << 16})
	if err != nil {
		t.Fatalf("open crash image: %v", err)
	}
	defer e.Close()
	q, _ := e.QueueStats(engine.Now(), []byte("q"))
	return q.Items
}

// witness is a sink that looks, whenever replies leave, at what a crash at that moment would leave
// behind.
type witness struct {
	*testClient
	crash  func(*segmenttest.FS) *segmenttest.FS
	acked  int64 // replies that said STORED
	broken int   // times when they said more than would survive
}

func (w *witness) send(p []byte) {
	w.acked += int64(bytes.Count(p, []byte("STORED\r\n")))
	if survivors(w.ts.t, w.crash(w.ts.fs)) < w.acked {
		w.broken++
	}
	w.testClient.send(p)
}

func loseUnsynced(fs *segmenttest.FS) *segmenttest.FS {
	return fs.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
}

// N1: no reply leaves before the write, or the sync, that covers it. The control empties the
// tickets before the tick, so that replies leave without waiting: the witness must notice.
func TestReplyLeavesAfterCommit(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sync    engine.SyncPolicy
		crash   func(*segmenttest.FS) *segmenttest.FS
		handOff bool
		control bool
	}{
		{"always, power cut", engine.SyncAlways, loseUnsynced, false, false},
		{"always, power cut, syncer", engine.SyncAlways, loseUnsynced, true, false},
		{"never, kill", engine.SyncNever, (*segmenttest.FS).Kill, false, false},
		{"control: always, power cut", engine.SyncAlways, loseUnsynced, false, true},
		{"control: never, kill", engine.SyncNever, (*segmenttest.FS).Kill, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := defaults()
				set.Default.Sync = tt.sync
				ts := newTestServer(t, Options{}, set)
				defer ts.stop()
				ts.server.inline.allowed = !tt.handOff
				c := ts.dial(memcacheProtocol{})
				w := &witness{testClient: c, crash: tt.crash}
				ts.do(func() { c.session.sink = w })
				for i := range 50 {
					request := strings.Repeat(fmt.Sprintf("set q 0 0 2\r\n%02d\r\n", i), 1+i%3)
					ts.do(func() {
						ts.loop.begin()
						c.session.receive([]byte(request))
						if tt.control {
							ts.loop.ticket, c.session.ticket = engine.Ticket{}, engine.Ticket{}
						}
						ts.loop.tick()
					})
				}
				if w.acked != 99 {
					t.Errorf("%d puts were acknowledged, want 99", w.acked)
				}
				if broken := w.broken > 0; broken != tt.control {
					t.Errorf("replies that said too much: %d; want any: %t", w.broken, tt.control)
				}
				c.hangUp()
			})
		})
	}
}

// When the journal cannot be synced, no reply says that it was: that reply alone is replaced.
// Fetches go on.
func TestJournalFails(t *testing.T) {
	for _, handOff := range []bool{false, true} {
		for _, fault := range []struct {
			name string
			kind segmenttest.OpKind
			err  error
		}{
			{"sync EIO", segmenttest.OpDatasync, syscall.EIO},
			{"write EIO", segmenttest.OpWriteAt, syscall.EIO},
		} {
			t.Run(fmt.Sprintf("%s, hand-off %t", fault.name, handOff), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts := newTestServer(t, Options{}, defaults())
					ts.server.inline.allowed = !handOff
					a, b := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
					a.feed([]byte("set q 0 0 1\r\n1\r\nset q 0 0 1\r\n2\r\n"), 1<<20)
					a.consume(len("STORED\r\nSTORED\r\n"))
					ts.fs.SetFault(segmenttest.FailAllFrom(fault.kind, ts.fs.Calls(fault.kind)+1, fault.err))
					a.feed([]byte("get q/peek\r\nset q 0 0 1\r\n3\r\nget nothing\r\n"), 1<<20)
					const mixed = "VALUE q 0 1\r\n1\r\nEND\r\nSERVER_ERROR journal failed\r\nEND\r\n"
					if out, ended := a.received(); string(out) != mixed || ended {
						t.Errorf("put that was not committed got %q, closed %t", out, ended)
					}
					c := ts.dial(memcacheProtocol{})
					c.feed([]byte("set q 0 0 1\r\n4\r\n"), 1<<20)
					if out, ended := c.received(); string(out) != "SERVER_ERROR journal failed\r\n" || ended {
						t.Errorf("put while the journal fails got %q, closed %t", out, ended)
					}
					b.feed([]byte("get q\r\nget q\r\n"), 1<<20)
					const want = "VALUE q 0 1\r\n1\r\nEND\r\nVALUE q 0 1\r\n2\r\nEND\r\n"
					if out, ended := b.received(); string(out) != want || ended {
						t.Errorf("fetches while the journal fails got %q, closed %t", out, ended)
					}
					a.hangUp()
					b.hangUp()
					c.hangUp()
					ts.fs.SetFault(nil)
					ts.stopFailed()
				})
			})
		}
	}
}

// stopFailed is stop for a server whose journal failed.
func (ts *testServer) stopFailed() {
	ts.closeError = func(err error) {
		if err != nil && !errors.Is(err, engine.ErrJournal) && !errors.Is(err, segment.ErrPoisoned) {
			ts.t.Errorf("close engine: %v", err)
		}
	}
	ts.stop()
}
