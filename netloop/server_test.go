package netloop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// isSample reports whether `make test` runs, and not CI: of what is long even with -short, it runs a sample.
func isSample() bool { return testing.Short() && os.Getenv("KESTREL_CI") == "" }

// onEventLoops runs a test of sockets on whatever event loops may wait with. In a sample each test has one of them, and
// half of the tests the one, half the other.
func onEventLoops(t *testing.T, test func(t *testing.T, eventLoop string)) {
	loops := EventLoops()
	if isSample() {
		at := len(t.Name()) % len(loops)
		loops = loops[at : at+1]
	}
	for _, eventLoop := range loops {
		t.Run(eventLoop, func(t *testing.T) { test(t, eventLoop) })
	}
}

// testSegment is the size of a segment of the journal of tests, which need no 32 MiB, the default. Where a journal is
// often synced, zeros are written to all of each.
const testSegment = 1 << 20

// startServer runs a server on a free port of this machine until the test ends.
func startServer(t testing.TB, eventLoop string, opts Options, queue engine.QueueOptions) *Server {
	t.Helper()
	e, err := engine.Open(engine.Options{
		Dir: t.TempDir(), Settings: engine.Settings{Default: queue}, SegmentSize: testSegment,
		NoHistograms: opts.NoHistograms,
	})
	if err != nil {
		t.Fatal(err)
	}
	return startServerOf(t, eventLoop, e, opts)
}

// startServerOf is startServer for an engine that is open; it closes it.
func startServerOf(t testing.TB, eventLoop string, e *engine.Engine, opts Options) *Server {
	t.Helper()
	opts.Engine, opts.EventLoop = e, eventLoop
	opts.Memcache = "127.0.0.1:0"
	if opts.Loops == 0 {
		opts.Loops = 2
	}
	s, err := New(opts)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		if err := e.Verify(); err != nil {
			t.Errorf("verify: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return s
}

func unsynced() engine.QueueOptions {
	o := engine.DefaultQueueOptions()
	o.Sync = engine.SyncNever
	return o
}

func alwaysSynced() engine.QueueOptions {
	o := engine.DefaultQueueOptions()
	o.Sync = engine.SyncAlways
	return o
}

// peer is one client connection of a test.
type peer struct {
	t testing.TB
	*net.TCPConn
	r *bufio.Reader
}

// testDeadline bounds every wait for a server that is at fault.
const testDeadline = 20 * time.Second

func dial(t testing.TB, s *Server) *peer {
	t.Helper()
	return dialAt(t, s.MemcacheAddr().String())
}

// dialAt connects to an address.
func dialAt(t testing.TB, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(testDeadline))
	return &peer{t, nc.(*net.TCPConn), bufio.NewReader(nc)}
}

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p, format, args...); err != nil {
		p.t.Fatal(err)
	}
}

// sendWhole sends a text as it is. To format a large one takes several times its memory.
func (p *peer) sendWhole(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Fatal(err)
	}
}

// expect reads as many bytes as it wants, by the piece: some replies are of 24 MiB.
func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, min(len(want), 64<<10))
	for at := 0; at < len(want); at += len(got) {
		piece := want[at:min(at+len(got), len(want))]
		n, err := io.ReadFull(p.r, got[:len(piece)])
		if err != nil || string(got[:n]) != piece {
			p.t.Fatalf("got %.200q, %v, want %.200q, at byte %d of %d", got[:n], err, piece, at, len(want))
		}
	}
}

// expectEnd reads until the server closes, and returns what came before.
func (p *peer) expectEnd() string {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		p.t.Fatalf("got %.200q, %v, want the end", rest, err)
	}
	return string(rest)
}

func TestServePutGet(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{}, engine.DefaultQueueOptions())
		p := dial(t, s)
		p.send("set work 7 0 5\r\nhello\r\nget work\r\nget work\r\n")
		p.expect("STORED\r\nVALUE work 7 5\r\nhello\r\nEND\r\nEND\r\n")
	})
}

// A client that shuts down its sending side at once still gets every reply, and its wait ends.
func TestHalfClose(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, queue := range []engine.QueueOptions{unsynced(), engine.DefaultQueueOptions()} {
			s := startServer(t, eventLoop, Options{}, queue)
			for i := range 50 {
				p := dial(t, s)
				p.send("set half%d 0 0 1\r\nx\r\nget half%d\r\nversion\r\nget half%d/t=1000000\r\n", i, i, i)
				p.CloseWrite()
				want := fmt.Sprintf("STORED\r\nVALUE half%d 0 1\r\nx\r\nEND\r\nVERSION %s\r\nEND\r\n", i, Version)
				if got := p.expectEnd(); got != want {
					t.Fatalf("connection %d with sync %v: got %q, want %q", i, queue.Sync, got, want)
				}
			}
		}
	})
}

// So does one that asks for a report, which is made on other goroutines.
func TestHalfCloseReport(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{}, unsynced())
		for _, request := range []string{"stats", "dump_stats", "dump_config"} {
			p := dial(t, s)
			p.send("get work\r\n%s\r\n", request)
			p.CloseWrite()
			if got := p.expectEnd(); !strings.HasPrefix(got, "END\r\n") || !strings.Contains(got, "work") ||
				!strings.HasSuffix(got, "\r\nEND\r\n") {
				t.Errorf("%s of a client that sends nothing more got %q", request, got)
			}
		}
	})
}

// Items go to waiting readers of other loops, in the order in which the readers came.
func TestHandOffBetweenLoops(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{Loops: 3}, unsynced())
		var readers []*peer
		for i := range 30 {
			p := dial(t, s)
			p.send("get line/t=10000\r\n")
			readers = append(readers, p)
			waitFor(t, func() bool {
				q, _ := s.opts.Engine.QueueStats(engine.Now(), []byte("line"))
				return q.Waiters == int64(i+1)
			})
		}
		producer := dial(t, s)
		for i := range readers {
			producer.send("set line 0 0 2\r\n%02d\r\n", i)
			producer.expect("STORED\r\n")
		}
		for i, p := range readers {
			p.expect(fmt.Sprintf("VALUE line 0 2\r\n%02d\r\nEND\r\n", i))
		}
	})
}

// waitFor waits until done reports true.
func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(testDeadline)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal("it does not come about")
		}
		<-tick.C
	}
}

// Open reads of a client that goes away, however it does, are back in order for the next one.
func TestLostClientGivesBack(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{MaxOpenReads: 10}, unsynced())
		for name, leave := range map[string]func(*peer){
			"close": func(p *peer) { p.Close() },
			"reset": func(p *peer) { p.SetLinger(0); p.Close() },
			"quit":  func(p *peer) { p.send("quit\r\n") },
			"half":  func(p *peer) { p.CloseWrite() },
		} {
			a := dial(t, s)
			for i := range 5 {
				a.send("set %s 0 0 1\r\n%d\r\n", name, i)
				a.expect("STORED\r\n")
			}
			for i := range 3 {
				a.send("get %s/open\r\n", name)
				a.expect(fmt.Sprintf("VALUE %s 0 1\r\n%d\r\nEND\r\n", name, i))
			}
			leave(a)
			b := dial(t, s)
			waitFor(t, func() bool {
				q, _ := s.opts.Engine.QueueStats(engine.Now(), []byte(name))
				return q.OpenReads == 0
			})
			for i := range 5 {
				b.send("get %s\r\n", name)
				b.expect(fmt.Sprintf("VALUE %s 0 1\r\n%d\r\nEND\r\n", name, i))
			}
		}
	})
}

func TestConnectionLimit(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{MaxConnections: 3}, unsynced())
		var in []*peer
		for range 3 {
			p := dial(t, s)
			p.send("version\r\n")
			p.expect("VERSION " + Version + "\r\n")
			in = append(in, p)
		}
		want := "SERVER_ERROR too many open connections\r\n"
		for range 20 {
			if got := dial(t, s).expectEnd(); got != want && got != "" {
				t.Fatalf("connection over the limit got %q, want %q", got, want)
			}
		}
		in[0].Close()
		waitFor(t, func() bool { return s.Connections() == 2 })
		p := dial(t, s)
		p.send("version\r\n")
		p.expect("VERSION " + Version + "\r\n")
		if s.refused.Load() != 20 {
			t.Errorf("refused %d connections, want 20", s.refused.Load())
		}
	})
}

// The server stops serving a client that does not read its replies, before they pile up. That costs nobody else
// anything, and the client gets every reply when it reads at last.
func TestSlowReader(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const items, size = 250, 100 << 10
		s := startServer(t, eventLoop, Options{}, unsynced())
		data := bytes.Repeat([]byte("x"), size)
		producer := dial(t, s)
		for range items {
			producer.send("set big 0 0 %d\r\n%s\r\n", size, data)
			producer.expect("STORED\r\n")
		}
		slow := dial(t, s)
		slow.send("%s", strings.Repeat("get big\r\n", items))
		other := dial(t, s)
		for range 100 {
			other.send("set other 0 0 1\r\nx\r\nget other\r\n")
			other.expect("STORED\r\nVALUE other 0 1\r\nx\r\nEND\r\n")
		}
		q, _ := s.opts.Engine.QueueStats(engine.Now(), []byte("big"))
		// What was taken from the queue is owed to the client, and that has a bound. It is the limit, the reply that
		// went over it, and what the kernel holds for the two sockets.
		if taken := (items - q.Items) * size; taken > DefaultMaxPending+size+(16<<20) {
			t.Errorf("%d bytes of replies were made for a client that does not read", taken)
		}
		one := fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", size, data)
		for range items {
			slow.expect(one)
		}
	})
}

// A client that keeps sending while it does not let the server answer is cut off.
func TestTooMuchSentAhead(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{MaxPending: 64 << 10, MaxItemSize: 1 << 10}, unsynced())
		p := dial(t, s)
		p.send("get nothing/t=100000\r\n")
		flood := bytes.Repeat([]byte("version\r\n"), 100)
		sent := 0
		for ; sent < 64<<20; sent += len(flood) {
			if _, err := p.Write(flood); err != nil {
				break
			}
		}
		if sent >= 64<<20 {
			t.Errorf("the server took %d bytes of requests behind a blocked one", sent)
		}
		again := dial(t, s)
		again.send("version\r\n")
		again.expect("VERSION " + Version + "\r\n")
	})
}

func TestClientTimeout(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{ClientTimeout: 100 * time.Millisecond}, unsynced())
		waiting, silent, partial := dial(t, s), dial(t, s), dial(t, s)
		waiting.send("get idle/t=600\r\n")
		partial.send("set idle 0 0 10\r\nhal")
		if got := silent.expectEnd(); got != "" {
			t.Errorf("idle connection got %q before it was closed", got)
		}
		if got := partial.expectEnd(); got != "" {
			t.Errorf("connection with half a request got %q before it was closed", got)
		}
		waiting.expect("END\r\n") // time in which the server owes a reply does not count,
		waiting.send("get idle/t=50\r\n")
		waiting.expect("END\r\n") // and when it has answered the client has all its time again
	})
}

// Shutdown ends waits with nothing, and lets a request that has begun to arrive come to an end.
func TestShutdownDrains(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{ShutdownGrace: testDeadline}, unsynced())
		waiting, partial, silent := dial(t, s), dial(t, s), dial(t, s)
		waiting.send("get drain/t=100000\r\n")
		partial.send("set drain 0 0 5\r\nhel")
		silent.send("version\r\n")
		silent.expect("VERSION " + Version + "\r\n")
		waitFor(t, func() bool {
			q, _ := s.opts.Engine.QueueStats(engine.Now(), []byte("drain"))
			return q.Waiters == 1 && s.buffered.Load() > 0
		})
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		waiting.expect("END\r\n")
		waiting.expectEnd()
		silent.expectEnd()
		partial.send("lo\r\n")
		// The server is Down by then: the request is answered, by a refusal.
		if got := partial.expectEnd(); got != "SERVER_ERROR\r\n" {
			t.Errorf("request that was under way got %q", got)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}

// Shutdown ends every wait of a loop, also where ended waits move in the order of idle sessions.
func TestShutdownEndsWaitsWithClientTimeout(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		opts := Options{Loops: 1, ShutdownGrace: testDeadline, ClientTimeout: time.Hour}
		s := startServer(t, eventLoop, opts, unsynced())
		var readers []*peer
		for i := range 5 {
			p := dial(t, s)
			p.send("get drain%d/t=100000\r\n", i)
			readers = append(readers, p)
		}
		waitFor(t, func() bool { return s.Stats().Waiters == int64(len(readers)) })
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		for _, p := range readers {
			p.expect("END\r\n")
			p.expectEnd()
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}

func TestShutdownByClient(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		asked := make(chan struct{})
		s := startServer(t, eventLoop, Options{RequestShutdown: func() { close(asked) }}, unsynced())
		p := dial(t, s)
		p.send("shutdown\r\n")
		if got := p.expectEnd(); got != "" {
			t.Errorf("SHUTDOWN got %q", got)
		}
		select {
		case <-asked:
		case <-time.After(testDeadline):
			t.Error("SHUTDOWN was not passed on")
		}
	})
}

func TestManyIdleConnections(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		count := 10_000
		if testing.Short() {
			count = 1_000
		}
		s := startServer(t, eventLoop, Options{}, unsynced())
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		count = min(count, int(min(limit.Cur, 1<<20))/2-128) // both ends are this process's
		for range count {
			dial(t, s)
		}
		waitFor(t, func() bool { return s.Connections() == int64(count) })
		p := dial(t, s)
		p.send("set crowd 0 0 1\r\nx\r\nget crowd\r\n")
		p.expect("STORED\r\nVALUE crowd 0 1\r\nx\r\nEND\r\n")
	})
}

// A client that shuts down its sending side and then reads slowly still gets everything it is owed.
func TestHalfCloseWithUnreadReplies(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const items, size = 100, 100 << 10
		s := startServer(t, eventLoop, Options{}, unsynced())
		one := fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", size, strings.Repeat("x", size))
		p := dial(t, s)
		for range items {
			p.send("set big 0 0 %d\r\n%s\r\n", size, strings.Repeat("x", size))
			p.expect("STORED\r\n")
		}
		for range items {
			p.send("get big/peek\r\n") // about 10 MiB, of which the server may keep 1
		}
		waitFor(t, func() bool { return s.Counters().CmdPeek > 5 })
		p.CloseWrite()
		waitFor(t, func() bool { return s.Connections() == 0 })
		got := p.expectEnd()
		if want := strings.Repeat(one, strings.Count(got, "VALUE")); got != want || len(got) < DefaultMaxPending {
			t.Errorf("%d bytes arrived, of %d whole replies", len(got), strings.Count(got, "END\r\n"))
		}
		peeked := s.Counters().CmdPeek
		if n := strings.Count(got, "VALUE"); int64(n) != peeked {
			t.Errorf("%d replies arrived, %d were made", n, peeked)
		}
	})
}

// A monitor stops delivering while its client does not read, and goes on when it does.
func TestMonitorOfSlowReader(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const items, size = 200, 100 << 10
		s := startServer(t, eventLoop, Options{MaxOpenReads: items}, unsynced())
		producer := dial(t, s)
		body := strings.Repeat("x", size)
		for range items {
			producer.send("set big 0 0 %d\r\n%s\r\n", size, body)
			producer.expect("STORED\r\n")
		}
		slow := dial(t, s)
		slow.send("monitor big 100 %d\r\n", items)
		waitFor(t, func() bool { return s.Counters().CmdMonitorGet > 0 })
		producer.send("version\r\n")
		producer.expect("VERSION " + Version + "\r\n")
		one := fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", size, body)
		for range items {
			slow.expect(one)
		}
		slow.expect("END\r\n")
	})
}

// An item may be sent behind a request that waits, whatever its size.
func TestLargeItemBehindWait(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{}, unsynced())
		body := strings.Repeat("x", 3<<20)
		p := dial(t, s)
		p.send("get ahead/t=300\r\nset ahead 0 0 %d\r\n%s\r\n", len(body), body)
		p.expect("END\r\nSTORED\r\n")
	})
}
