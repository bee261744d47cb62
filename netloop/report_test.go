package netloop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// fitfulReader is a sink whose client reads, or does not.
type fitfulReader struct {
	*testClient
	reads   bool
	pending []byte // what it has not read
	largest int    // bytes that were sent at once
}

func (r *fitfulReader) send(p []byte) {
	r.largest = max(r.largest, len(p))
	r.pending = append(r.pending, p...)
	r.sendUnsent()
}

func (r *fitfulReader) unsentBytes() int { return len(r.pending) }
func (r *fitfulReader) memory() int      { return cap(r.pending) }

func (r *fitfulReader) sendUnsent() {
	if r.reads {
		r.testClient.send(r.pending)
		r.pending = nil
	}
}

// reportQueues is enough for a report of STATS of several pieces, and more than MaxPending allows
// in reportOptions.
const reportQueues = 1000

func reportOptions() Options { return Options{MaxPending: 2 * pieceSize} }

// dialReader makes the queues and returns a client.
func dialReader(ts *testServer, reads bool) *fitfulReader {
	c := ts.dial(memcacheProtocol{})
	r := &fitfulReader{testClient: c, reads: reads}
	ts.do(func() { c.session.sink = r })
	var puts bytes.Buffer
	for i := range reportQueues {
		fmt.Fprintf(&puts, "get queue%04d\r\n", i)
	}
	c.feed(puts.Bytes(), puts.Len())
	ts.do(func() { c.out, r.pending, r.largest = nil, nil, 0 })
	return r
}

// amidReport is a report between other requests, and how the answer must begin and end.
const (
	amidReport  = "set queue0007 0 0 1\r\nx\r\n%s\r\nget queue0007\r\n"
	reportBegin = "STORED\r\n"
	reportEnd   = "\r\nEND\r\nVALUE queue0007 0 1\r\nx\r\nEND\r\n"
)

// checkReport looks for every queue, once, in an answer to amidReport.
func checkReport(t *testing.T, got, line string) {
	t.Helper()
	if !strings.HasPrefix(got, reportBegin) || !strings.HasSuffix(got, reportEnd) {
		t.Fatalf("the answer begins with %.40q and ends with %q", got, got[max(len(got)-60, 0):])
	}
	body := got[len(reportBegin) : len(got)-len(reportEnd)]
	if strings.Contains(body, "\nVALUE ") || strings.Contains(body, "STORED") {
		t.Error("another answer is in the middle of the report")
	}
	at := 0
	for i := range reportQueues {
		want := fmt.Sprintf(line, i)
		found := strings.Index(body[at:], want)
		if found < 0 || strings.Count(body, want) != 1 {
			t.Fatalf("%q is not in its place, or not once", want)
		}
		at += found
	}
}

// TestReport tests that reports keep their place in a pipeline, and leave in pieces, after each of
// which other sessions have their turn.
func TestReport(t *testing.T) {
	for _, tt := range []struct{ request, line string }{
		{"stats", "STAT queue_queue%04d_items "},
		{"dump_stats", "queue 'queue%04d' {\r\n"},
		{"dump_config", "queue 'queue%04d' {\r\n"},
	} {
		t.Run(tt.request, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, reportOptions(), defaults())
				defer ts.stop()
				r := dialReader(ts, true)
				r.feed(fmt.Appendf(nil, amidReport, tt.request), 1<<10)
				got, _ := r.received()
				checkReport(t, string(got), tt.line)
				if most := pieceSize + 4<<10; r.largest > most || len(got) < 2*most {
					t.Errorf("of %d bytes, %d were sent at once, want %d at most", len(got), r.largest, most)
				}
			})
		})
	}
}

// TestReportOfNames tests that an answer about many queues that are named leaves in pieces too.
func TestReportOfNames(t *testing.T) {
	for _, request := range []string{"dump_stats", "dump_config"} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServer(t, reportOptions(), defaults())
			defer ts.stop()
			r := dialReader(ts, true)
			const names = 1000
			r.feed([]byte(request+strings.Repeat(" q", names)+"\r\nversion\r\n"), 8<<10)
			got, _ := r.received()
			if n := strings.Count(string(got), "queue 'q' {\r\n"); n != names {
				t.Errorf("%s of %d names answers %d", request, names, n)
			}
			if want := "}\r\nEND\r\nVERSION " + Version + "\r\n"; !strings.HasSuffix(string(got), want) {
				t.Errorf("%s ends with %q, want %q", request, got[len(got)-60:], want)
			}
			if most := pieceSize + 4<<10; r.largest > most {
				t.Errorf("%d bytes were sent at once, want %d at most", r.largest, most)
			}
		})
	}
}

// TestReportNotRead tests that a report waits for a client that does not read it, while others are
// served, and goes on when it reads again.
func TestReportNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, reportOptions(), defaults())
		defer ts.stop()
		r := dialReader(ts, false)
		r.feed(fmt.Appendf(nil, amidReport, "stats"), 1<<10)
		if n, most := r.unsentBytes(), 4*pieceSize; n < 2*pieceSize || n > most {
			t.Errorf("%d bytes wait for a client that does not read, want %d at most", n, most)
		}
		other := ts.dial(memcacheProtocol{})
		other.feed([]byte("get queue0001\r\n"), 1<<10)
		if got, _ := other.received(); string(got) != "END\r\n" {
			t.Errorf("another client got %q", got)
		}
		ts.do(func() { r.reads = true })
		ts.loop.post(&r.session, writable)
		synctest.Wait()
		got, _ := r.received()
		checkReport(t, string(got), "STAT queue_queue%04d_items ")
	})
}

// TestReportHangUp tests that a client may go away in the middle of a report.
func TestReportHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, reportOptions(), defaults())
		defer ts.stop()
		r := dialReader(ts, false)
		r.feed([]byte("stats\r\n"), 1<<10)
		waiting := r.unsentBytes()
		r.hangUp()
		if r.unsentBytes() > waiting {
			t.Errorf("a report goes on for a client that is gone")
		}
	})
}

// TestReportHalfClose tests a client that only shuts down its sending side. It gets the whole report, and the replies
// to what it had sent behind it: the wait among that ends.
func TestReportHalfClose(t *testing.T) {
	for _, request := range []string{"stats", "dump_stats", "dump_config"} {
		t.Run(request, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, reportOptions(), defaults())
				defer ts.stop()
				r := dialReader(ts, true)
				ts.do(func() {
					ts.loop.begin()
					r.session.receive([]byte(request + "\r\nversion\r\nget queue0001/t=60000\r\n"))
					if !ts.loop.leave(&r.session) {
						ts.loop.endSession(&r.session, true) // as the driver does
					}
					ts.loop.tick()
				})
				synctest.Wait()
				got, ended := r.received()
				if want := "END\r\nVERSION " + Version + "\r\nEND\r\n"; !strings.HasSuffix(string(got), want) {
					t.Errorf("the answer of %d bytes ends with %q, want %q", len(got), got[max(len(got)-60, 0):], want)
				}
				if n := strings.Count(string(got), "queue0999"); n == 0 || !ended {
					t.Errorf("the last queue is there %d times, connection ended: %v", n, ended)
				}
			})
		})
	}
}

// TestTickYields tests that a loop whose mailbox is never empty still comes round to what clients
// have sent. Without maxRounds the first tick would never end.
func TestTickYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		wake, ticks, rounds := ts.loop.wake, 0, 0
		flood := &flooder{testClient: c, rounds: &rounds}
		ts.do(func() {
			c.session.sink = flood
			ts.loop.wake = func() { ticks++; wake() }
		})
		ts.loop.post(&c.session, writable)
		synctest.Wait()
		if rounds != floodRounds || ticks < 5 {
			t.Errorf("%d rounds in %d ticks, want %d in several", rounds, ticks, floodRounds)
		}
	})
}

// floodRounds is how often a flooder posts.
const floodRounds = 40

// flooder is a sink that posts news of its session whenever some come.
type flooder struct {
	*testClient
	rounds *int
}

func (f *flooder) sendUnsent() {
	if *f.rounds++; *f.rounds < floodRounds {
		f.ts.loop.post(&f.session, writable)
	}
}
