package netloop

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// faultyProtocol has faults: in the requests FAULT, LOST and JOB, and in the end of a wait for a queue named
// faulty. LOST leaves what is gathered.
type faultyProtocol struct{ memcacheProtocol }

func (p faultyProtocol) next(s *session, in []byte) int {
	switch {
	case bytes.HasPrefix(in, []byte("fault\r\n")):
		s.putGathered()
		s.out = append(s.out, "half of a rep"...)
		panic("fault of the test")
	case bytes.HasPrefix(in, []byte("lost\r\n")):
		panic("fault of the test")
	case bytes.HasPrefix(in, []byte("job\r\n")):
		s.putGathered()
		s.startJob(func() error { panic("fault of the test") }, nil)
		return len("job\r\n")
	}
	return p.memcacheProtocol.next(s, in)
}

func (p faultyProtocol) none(s *session) {
	if string(s.name) == "faulty" {
		panic("fault of the test")
	}
	p.memcacheProtocol.none(s)
}

// TestFaultCostsOneSession has a session run into a fault, wherever it can. It is closed, gets the replies
// to earlier requests first, when their commit is good, and others are served.
//
// Its control is a rescue that cuts all replies off.
func TestFaultCostsOneSession(t *testing.T) {
	const put, stored, version = "set q 0 0 1\r\nx\r\n", "STORED\r\n", "VERSION " + Version + "\r\n"
	for _, tt := range []struct {
		name   string
		opts   Options
		feed   []string // in a turn each
		before string   // the sync ends
		after  string
		event  func(*testServer)
	}{
		{name: "request", feed: []string{put + "version\r\nfault\r\nversion\r\n"}, after: stored + version},
		{name: "request behind held replies", feed: []string{put, "version\r\nfault\r\n"}, after: stored + version},
		{name: "only request", feed: []string{"fault\r\n"}},
		{name: "job", feed: []string{put, "version\r\njob\r\nversion\r\n"}, after: stored + version},
		{name: "end of a wait", feed: []string{put, "version\r\nget faulty/t=1000\r\nversion\r\n"},
			after: stored + version, event: func(*testServer) { time.Sleep(2 * time.Second) }}, // of the bubble
		{name: "shutdown", feed: []string{put, "version\r\nget faulty/t=1000\r\nversion\r\n"},
			after: stored + version, event: func(ts *testServer) {
				ts.do(func() {
					ts.loop.begin()
					ts.server.loops[0].drain()
					ts.loop.draining = false // or nobody else is served
					ts.loop.tick()
				})
			}},
		{name: "request run when the client reads again", opts: Options{MaxPending: 8},
			feed: []string{"version\r\nfault\r\n"}, before: version},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, disk := newHeldServer(t, tt.opts)
				a := ts.dial(faultyProtocol{})
				disk.held.Store(true)
				for _, p := range tt.feed {
					a.feed([]byte(p), 100)
				}
				if tt.event != nil {
					tt.event(ts)
				}
				time.Sleep(time.Second) // of the bubble: what the client reads again comes with the next turn
				a.expect("before the sync", tt.before)
				disk.release()
				a.expect("after the sync", tt.after)
				if _, ended := a.received(); !ended {
					t.Error("the session was not closed")
				}
				if n := ts.loop.Counters().Panics; n != 1 {
					t.Errorf("%d faults counted, want 1", n)
				}
				ts.expectService()
				ts.stop()
			})
		})
	}
}

// TestFaultDropsGathered tests that a put that a fault has kept from the engine is not put by the next session.
func TestFaultDropsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		a, b := ts.dial(faultyProtocol{}), ts.dial(memcacheProtocol{})
		a.feed([]byte("set q 0 0 1\r\nx\r\nlost\r\n"), 100)
		b.feed([]byte("version\r\n"), 100)
		a.expect("behind the fault", "")
		b.expect("from the next session", "VERSION "+Version+"\r\n")
		if n := ts.loop.Counters().Panics; n != 1 {
			t.Errorf("%d faults counted, want 1", n)
		}
	})
}

// A fault of the engine ends the process: its queues may be half changed.
func TestFaultOfTheEngine(t *testing.T) {
	defer func() {
		if _, ok := recover().(*engine.Fault); !ok {
			t.Error("the fault was taken for one of the session")
		}
	}()
	l := &loop{}
	l.guard(new(session), func(*session) { panic(&engine.Fault{Cause: "fault of the test"}) })
}
