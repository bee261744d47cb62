package netloop

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// bulkTest is a driver that takes a turn when the test says so, with sockets. Between turns its loop
// stands still, and the test may look at all of it.
type bulkTest struct {
	*driver
	t       *testing.T
	peers   []int // of the connections, by their number
	fds     []int
	proceed chan struct{} // takes a turn
	done    chan struct{} // … has been taken; closed when the loop has ended

	time time.Time // when the last turn began: turns begin at the same time, unless later says otherwise

	// Of the next turn.
	later      time.Duration // how much later it begins
	at         moment        // when, on the clock of waits; zero: now
	happens    func()        // called before its first event is handled; nil: nothing
	beforeTick func()        // nil: nothing
}

func newBulkTest(t *testing.T, eventLoop string, queue engine.QueueOptions, conns int) *bulkTest {
	t.Helper()
	return newBulkTestOn(t, eventLoop, segmenttest.New(), queue, conns)
}

func newBulkTestOn(
	t *testing.T, eventLoop string, fsys segment.FS, queue engine.QueueOptions, conns int,
) *bulkTest {
	t.Helper()
	e, err := engine.Open(engine.Options{
		Dir: "data", FS: fsys, Settings: engine.Settings{Default: queue}, SegmentSize: testSegment,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Engine: e, Loops: 1, EventLoop: eventLoop})
	if err != nil {
		t.Fatal(err)
	}
	s.inline.allowed, s.inline.slow = true, time.Hour
	lt := &bulkTest{
		driver: s.loops[0], t: t, proceed: make(chan struct{}), done: make(chan struct{}),
	}
	if err := lt.poller.start(); err != nil {
		t.Fatal(err)
	}
	for range conns {
		ours, peer := socketPair(t)
		fd, err := unix.Dup(ours) // the driver closes it
		if err != nil {
			t.Fatal(err)
		}
		c := &conn{fd: fd, addr: new(net.TCPAddr)}
		c.session.proto = memcacheProtocol{}
		lt.take(c)
		lt.peers, lt.fds = append(lt.peers, peer), append(lt.fds, fd)
	}
	lt.tick()
	lt.watchdog.elapsed = func(time.Time) time.Duration { return 0 } // unless slow says otherwise
	go func() {
		defer close(lt.done)
		<-lt.proceed
		if err := lt.poller.run(&lineTurns{bulkTest: lt}); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		lt.slow(0)
		lt.driver.stop()
		lt.step()
		lt.alarm.stop()
		s.closePollers()
		s.drainer.close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return lt
}

// step takes one turn.
func (lt *bulkTest) step() {
	lt.poller.ring()
	select {
	case lt.proceed <- struct{}{}:
		<-lt.done
	case <-lt.done: // the loop has ended
	}
	lt.later, lt.at, lt.happens, lt.beforeTick = 0, 0, nil, nil
}

// lineTurns are the turns of a bulkTest.
type lineTurns struct {
	*bulkTest
	begun bool
}

func (lt *lineTurns) begin() {
	if lt.begun {
		return
	}
	lt.begun = true
	lt.driver.begin()
	if lt.time.IsZero() {
		lt.time = lt.began
	}
	lt.time = lt.time.Add(lt.later)
	lt.began = lt.time
	if lt.at != 0 {
		lt.clock = lt.at
	}
}

func (lt *lineTurns) happened(fd int, ended bool) {
	lt.begin()
	if lt.happens != nil {
		lt.happens()
		lt.happens = nil
	}
	lt.driver.happened(fd, ended)
}

func (lt *lineTurns) serveBulk() (waits bool) {
	lt.begin()
	return lt.driver.serveBulk()
}

func (lt *lineTurns) finish() afterTurn {
	if lt.beforeTick != nil {
		lt.beforeTick()
	}
	then := lt.driver.finish()
	if waits := then == thenWaits; waits && len(lt.late)+len(lt.resuming)+len(lt.news) > 0 {
		lt.t.Errorf("the loop waits, with %d late, %d behind and %d news", len(lt.late), len(lt.resuming), len(lt.news))
	}
	if lt.at != 0 {
		lt.clock = lt.at
	}
	if then != thenEnds {
		lt.begun = false
		lt.done <- struct{}{}
		<-lt.proceed
	}
	return then
}

// put has a connection send items to a queue of its own.
func (lt *bulkTest) put(conn, items, size int) {
	lt.t.Helper()
	one := fmt.Sprintf("set q%d 0 0 %d\r\n%s\r\n", conn, size, strings.Repeat("x", size))
	all := []byte(strings.Repeat(one, items))
	if n, err := unix.Write(lt.peers[conn], all); n != len(all) {
		lt.t.Fatalf("sent %d of %d bytes, %v", n, len(all), err)
	}
}

// turn takes a turn that begins after some time, and returns how many items of each connection it has
// put.
func (lt *bulkTest) turn(later time.Duration) (put []int64) {
	before := lt.depths()
	lt.later = later
	lt.step()
	for i, n := range lt.depths() {
		put = append(put, n-before[i])
	}
	return put
}

func (lt *bulkTest) depths() (all []int64) {
	for i := range lt.peers {
		n := int64(0)
		if s, ok := lt.engine.QueueStats(engine.Now(), []byte(fmt.Sprint("q", i))); ok {
			n = s.Items
		}
		all = append(all, n)
	}
	return all
}

func (lt *bulkTest) want(when string, got []int64, want ...int64) {
	lt.t.Helper()
	if !slices.Equal(got, want) {
		lt.t.Errorf("%s: items put %v, want %v", when, got, want)
	}
}

// TestBulk has one connection put little beside three that put much: it is served in every turn,
// the others in turn. Without a light one all are served at once.
//
// Its control is a limit of MaxInt in every turn.
func TestBulk(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const size = 1024
		lt := newBulkTest(t, eventLoop, unsynced(), 4)
		for i := range 3 {
			lt.put(i, 40, size)
		}
		lt.want("nobody is known to be heavy", lt.turn(0), 40, 40, 40, 0)
		for i := range 3 {
			lt.put(i, 40, size)
		}
		lt.put(3, 1, 1)
		lt.want("turn 1", lt.turn(0), 40, 0, 0, 1)
		lt.put(3, 1, 1)
		lt.put(0, 40, size) // behind the others
		lt.want("turn 2", lt.turn(0), 0, 40, 0, 1)
		lt.want("turn 3", lt.turn(0), 0, 0, 40, 0)
		lt.want("turn 4", lt.turn(0), 40, 0, 0, 0)
		for i := range 3 {
			lt.put(i, 40, size)
		}
		lt.want("the light one is long gone", lt.turn(lightFor), 40, 40, 40, 0)
		lt.put(0, 1, 1)
		lt.put(1, 1, 1)
		lt.want("heavy ones that have become light", lt.turn(lightFor), 1, 1, 0, 0)
		lt.put(0, 40, size)
		lt.put(1, 40, size)
		lt.put(2, 40, size)
		lt.want("all but one are light", lt.turn(0), 40, 40, 40, 0)
	})
}

// TestBulkLightFirst: who moves little has its reply before the bulk moves.
//
// Its control is a serve without a tick of its own.
func TestBulkLightFirst(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 2)
		lt.put(0, 40, 1024)
		lt.turn(0)
		lt.put(0, 40, 1024)
		lt.put(1, 1, 1)
		lt.beforeTick = func() {
			lt.wantReplies(1, 1)
			lt.wantReplies(0, 40) // of the turn before
		}
		lt.step()
		lt.wantReplies(0, 40)
	})
}

// wantReplies reads what a connection has been sent.
func (lt *bulkTest) wantReplies(conn, items int) {
	lt.t.Helper()
	lt.wantSent(conn, strings.Repeat("STORED\r\n", items))
}

func (lt *bulkTest) wantSent(conn int, want string) {
	lt.t.Helper()
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(lt.peers[conn], buf, unix.MSG_DONTWAIT)
	if got := string(buf[:max(n, 0)]); got != want {
		lt.t.Errorf("connection %d was sent %q, %v, want %q", conn, got, err, want)
	}
}

// TestBulkReplies: who gets much is as heavy as who puts much.
func TestBulkReplies(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 2)
		lt.put(0, 40, 1024)
		lt.put(1, 40, 1024)
		lt.turn(0)
		for i, peer := range lt.peers {
			if _, err := unix.Write(peer, []byte(strings.Repeat(fmt.Sprintf("get q%d\r\n", i), 20))); err != nil {
				t.Fatal(err)
			}
		}
		lt.turn(lightFor)
		for i, fd := range lt.fds {
			if !lt.conns[fd].heavy {
				t.Errorf("connection %d got 20 KiB and is not heavy", i)
			}
		}
	})
}

// TestBulkGone has heavy connections end while they are in the bulk.
func TestBulkGone(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 4)
		for i := range 3 {
			lt.put(i, 40, 1024)
		}
		lt.turn(0)
		for i := range 3 {
			lt.put(i, 40, 1024)
		}
		lt.put(3, 1, 1)
		lt.want("turn 1", lt.turn(0), 40, 0, 0, 1)
		lt.end(lt.conns[lt.fds[1]], false)
		lt.want("turn 2", lt.turn(0), 0, 0, 40, 0)
		if len(lt.bulk.conns) > 0 {
			t.Errorf("%d are in the bulk, want none", len(lt.bulk.conns))
		}
	})
}

// TestBulkSyncs: a turn that ends in a sync takes along all that have something for it.
func TestBulkSyncs(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, alwaysSynced(), 3)
		lt.put(0, 40, 1024)
		lt.put(1, 40, 1024)
		lt.turn(0)
		lt.put(0, 40, 1024)
		lt.put(1, 40, 1024)
		lt.put(2, 1, 1)
		lt.want("one turn", lt.turn(0), 40, 40, 1)
	})
}

// TestBulkIsServed has a heavy client beside a light one that never stops: it gets its replies.
func TestBulkIsServed(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{Loops: 1}, unsynced())
		light, done := dial(t, s), make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			buf := make([]byte, 64)
			for ctx.Err() == nil {
				light.Write([]byte("set light 0 0 1\r\nx\r\n"))
				if _, err := light.Read(buf); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		heavy := dial(t, s)
		one := "set heavy 0 0 1024\r\n" + strings.Repeat("x", 1024) + "\r\n"
		for range 50 {
			heavy.send("%s", strings.Repeat(one, 64))
			heavy.expect(strings.Repeat("STORED\r\n", 64))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestUnreadRepliesLetTheLoopRest tests a client that sends more than a turn has time for, and reads no reply. When it may
// owe no more, the loop has nothing to do for it, and waits.
func TestUnreadRepliesLetTheLoopRest(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 1)
		all := []byte(strings.Repeat("version\r\n", readSize))
		send := func() { unix.SendmsgN(lt.peers[0], all, nil, nil, unix.MSG_DONTWAIT) }
		c := lt.conns[lt.fds[0]]
		for turns := 0; (!c.session.yielded || c.session.owed < smallReply) && turns < 1000; turns++ {
			send()
			lt.turn(0)
		}
		if send(); !c.session.yielded || c.session.owed < smallReply {
			t.Fatalf("the client owes %d bytes, and is to go on: %t", c.session.owed, c.session.yielded)
		}
		const others = 1 << 50
		lt.server.owed.Add(others) // by other clients, which read nothing either
		for turns := 0; len(lt.bulk.conns)+len(lt.late)+len(lt.resuming) > 0; turns++ {
			if lt.turn(0); turns == 100 {
				t.Error("the loop goes on and on")
				break
			}
		}
		lt.server.owed.Add(-others)
	})
}
