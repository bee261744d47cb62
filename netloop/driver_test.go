package netloop

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// testServer drives sessions without sockets: one loop, run by a goroutine that takes events from a
// channel, over an engine on an in-memory file system. It is for use inside a synctest bubble.
type testServer struct {
	t      *testing.T
	fs     *segmenttest.FS
	opts   Options
	set    engine.Settings
	server *Server
	loop   *loop
	events chan func()
	ended  sync.WaitGroup

	// wrap is put around the file system that the engine gets; nil is nothing.
	wrap       func(*segmenttest.FS) segment.FS
	closeError func(error) // judges the error of closing the engine; nil wants none

	memory int64 // limit of the engine; zero is its default

	// handOff makes loops hand syncs to the syncer instead of waiting for them.
	handOff bool
}

func newTestServer(t *testing.T, opts Options, set engine.Settings) *testServer {
	ts := &testServer{t: t, fs: segmenttest.New(), opts: opts, set: set}
	ts.start()
	return ts
}

// defaults are settings without any block.
func defaults() engine.Settings { return engine.Settings{Default: engine.DefaultQueueOptions()} }

func (ts *testServer) start() {
	var fs segment.FS = ts.fs
	if ts.wrap != nil {
		fs = ts.wrap(ts.fs)
	}
	e, err := engine.Open(engine.Options{
		Dir: "data", FS: fs, Settings: ts.set, SegmentSize: 1 << 16, MemoryLimit: ts.memory,
	})
	if err != nil {
		ts.t.Fatalf("open engine: %v", err)
	}
	ts.opts.Engine = e
	ts.opts.Loops = 1
	ts.server, err = New(ts.opts)
	if err != nil {
		ts.t.Fatalf("new server: %v", err)
	}
	ts.server.inline.allowed = !ts.handOff
	ts.ended.Go(func() { ts.server.syncer.run(ts.server.stopped) })
	ts.ended.Go(func() { ts.server.writer.run(ts.server.stopped) })
	ts.events = make(chan func(), 1024)
	ts.loop = ts.server.loops[0].loop
	ts.loop.wake = func() { ts.events <- ts.loop.tick }
	ts.ended.Go(func() {
		for event := range ts.events {
			if event(); ts.loop.unfinished() {
				ts.loop.ring()
			}
		}
	})
}

// do runs f on the loop's goroutine and waits until nothing moves any more.
func (ts *testServer) do(f func()) {
	ts.events <- f
	synctest.Wait()
}

// kill ends the server as kill -9 would: only what was written survives.
func (ts *testServer) kill() {
	image := ts.fs.Kill()
	ts.stop()
	ts.fs = image
}

func (ts *testServer) stop() {
	ts.do(func() { ts.loop.alarm.stop() })
	err := ts.opts.Engine.Verify()
	if err != nil {
		ts.t.Errorf("verify: %v", err)
	}
	if err := ts.opts.Engine.Close(); ts.closeError != nil {
		ts.closeError(err)
	} else if err != nil {
		ts.t.Errorf("close engine: %v", err)
	}
	close(ts.events)
	close(ts.server.stopped)
	ts.ended.Wait()
	ts.server.jobs.Wait()
	ts.server.drainer.close()
}

// testClient is a client of a testServer: the sink of its session.
type testClient struct {
	ts      *testServer
	session session
	kept    int // most bytes of its input that the server kept

	mu    sync.Mutex
	out   []byte // received; guarded by mu
	ended bool   // by the server; guarded by mu
}

func (ts *testServer) dial(proto protocol) *testClient {
	c := &testClient{ts: ts}
	c.session.proto, c.session.sink, c.session.loop, c.session.local = proto, c, ts.loop, true
	ts.do(func() {
		ts.server.limit(&c.session, ts.server.connections.Add(1))
		ts.loop.open(&c.session)
		ts.loop.tick()
	})
	return c
}

// feed sends p, in pieces of at most size bytes, each with a turn of its own.
func (c *testClient) feed(p []byte, size int) {
	for len(p) > 0 {
		piece := append([]byte(nil), p[:min(size, len(p))]...)
		p = p[len(piece):]
		c.ts.do(func() {
			l := c.session.loop
			l.begin()
			if c.session.state != closed {
				l.guard(&c.session, func(s *session) { s.receive(piece) })
				c.kept = max(c.kept, c.session.kept)
				clear(piece) // a session must not keep what it was given
			}
			l.tick()
		})
	}
}

// hangUp closes the connection from the client's side.
func (c *testClient) hangUp() {
	c.ts.do(func() {
		c.ts.loop.endSession(&c.session, true)
		c.ts.server.connections.Add(-1)
		c.ts.loop.tick()
	})
}

// reset breaks the connection: nothing can be sent any more.
func (c *testClient) reset() {
	c.ts.do(func() {
		c.ts.loop.endSession(&c.session, false)
		c.ts.server.connections.Add(-1)
		c.ts.loop.tick()
	})
}

func (c *testClient) send(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, p...)
}

// received returns what the server has sent and was not consumed yet, and whether it closed.
func (c *testClient) received() (out []byte, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out, c.ended
}

// consume forgets the first n bytes received.
func (c *testClient) consume(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[n:]
}

func (c *testClient) listen(bool)      {}
func (c *testClient) unsentBytes() int { return 0 }
func (c *testClient) memory() int      { return 0 }
func (c *testClient) sendUnsent()      {}
func (c *testClient) peer() string     { return "test" }
func (c *testClient) close() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.session.loop.endSession(&c.session, false)
	c.ts.server.connections.Add(-1)
}
