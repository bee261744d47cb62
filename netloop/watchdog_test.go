package netloop

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowSink is a sink whose peer takes time: each send takes that long.
type slowSink struct {
	*testClient
	time time.Duration
}

func (s slowSink) send(p []byte) {
	<-time.After(s.time) // of the bubble
	s.testClient.send(p)
}

// TestLongTurn tests that a turn of 5 ms or more is counted, and logged with what took so long. A shorter turn is not,
// and the server logs one in a second.
func TestLongTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ts := newTestServer(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		ts.do(func() { ts.loop.watchdog.delay = func(int) threadDelay { return threadDelay{} } })
		turn := func(took time.Duration, request string) {
			ts.do(func() {
				ts.loop.begin()
				c.session.receive([]byte(request))
				<-time.After(took) // of the bubble
				ts.loop.watchdog.end("reading from a client", &c.session)
				ts.loop.tick()
			})
			<-time.After(took)
			synctest.Wait()
		}
		expect := func(turns int64, longest time.Duration, lines int) {
			t.Helper()
			n := ts.server.Counters()
			if n.LongTurns != turns || n.LongestTurn != longest.Microseconds() || n.LongestTurnWork != n.LongestTurn {
				t.Errorf("%d long turns, the longest %d µs, %d of work; want %d, %d",
					n.LongTurns, n.LongestTurn, n.LongestTurnWork, turns, longest.Microseconds())
			}
			if got := strings.Count(log.String(), "event loop was busy for long"); got != lines {
				t.Errorf("%d lines are logged, want %d:\n%s", got, lines, &log)
			}
		}
		turn(longTurn-time.Microsecond, "get q\r\n")
		expect(0, 0, 0)
		turn(longTurn, "version\r\nget slow+queue\r\n")
		expect(1, longTurn, 1)
		want := regexp.MustCompile(`ms=5 without_processor_ms=0 part=get part_ms=5 queue=slow\+queue peer=test`)
		if !want.Match(log.Bytes()) {
			t.Errorf("the log says %s, want %s", &log, want)
		}
		turn(2*longTurn, "get q\r\n")
		expect(2, 2*longTurn, 1)
		<-time.After(turnLogInterval) // of the bubble
		turn(longTurn, "delete q\r\n")
		expect(3, 2*longTurn, 2)
		if want := "part=delete part_ms=5 queue=q peer=test long_turns=2"; !strings.Contains(log.String(), want) {
			t.Errorf("the log says %s, want %s", &log, want)
		}
	})
}

// TestLongTurnParts tests that the log names a part of a turn that is no request. The watchdog distinguishes a loop
// that worked from one that had no processor. Go may move the loop to another thread.
func TestLongTurnParts(t *testing.T) {
	for _, thread := range []int{1, 2} { // of the loop, when the turn ends
		testLongTurnParts(t, thread)
	}
}

func testLongTurnParts(t *testing.T, thread int) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ts := newTestServer(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		delays, own := map[int]threadDelay{1: {thread: 1, known: true}, 2: {thread: 2, known: true}}, 1
		ts.do(func() {
			c.session.sink = slowSink{c, 2 * longTurn}
			ts.loop.watchdog.delay = func(of int) threadDelay {
				if of == ownThread {
					of = own
				}
				return delays[of]
			}
		})
		<-time.After(delayInterval) // of the bubble
		ts.do(ts.loop.tick)
		delays[1], own = threadDelay{thread: 1, known: true, waited: 8 * time.Millisecond}, thread
		c.feed([]byte("version\r\n"), 100)
		<-time.After(2 * longTurn)
		synctest.Wait()
		want := "event loop waited for a processor\" " +
			"ms=10 without_processor_ms=8 part=\"sending replies\" part_ms=10\n"
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log says %s, want %s", &log, want)
		}
		if n := ts.server.Counters(); n.LongestTurn != 10_000 || n.LongestTurnWork != 2000 {
			t.Errorf("the longest turn took %d µs, %d of work; want 10000, 2000", n.LongestTurn, n.LongestTurnWork)
		}
	})
}
