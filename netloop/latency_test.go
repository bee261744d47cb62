package netloop

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// slowFS is a memory file system whose syncs take a while. Nothing is locked meanwhile.
type slowFS struct {
	*segmenttest.FS
	sync atomic.Int64 // how long, as a time.Duration
}

func (f *slowFS) Create(path string) (segment.File, error) {
	file, err := f.FS.Create(path)
	return &slowFile{file, f}, err
}

func (f *slowFS) Open(path string) (segment.File, error) {
	file, err := f.FS.Open(path)
	return &slowFile{file, f}, err
}

type slowFile struct {
	segment.File
	fs *slowFS
}

func (f *slowFile) Datasync() error {
	<-time.After(time.Duration(f.fs.sync.Load()))
	return f.File.Datasync()
}

// newSlowServer is newTestServer with a disk that is fast until its sync is set.
func newSlowServer(t *testing.T) (*testServer, *slowFS) {
	slow := new(slowFS)
	ts := &testServer{t: t, fs: segmenttest.New(), set: defaults()}
	ts.wrap = func(fs *segmenttest.FS) segment.FS {
		slow.FS = fs
		return slow
	}
	ts.start()
	return ts, slow
}

func (ts *testServer) expectTimes(what string, c *histogram.Counts, total int64, low, high time.Duration) {
	ts.t.Helper()
	unit := time.Microsecond
	if c == nil {
		c = new(histogram.Counts)
	}
	if c.Total() != total || c.Min() < int64(low/unit) || c.Max() > int64(high/unit) {
		ts.t.Errorf("%s: %d values of %d to %d µs, want %d of %v to %v",
			what, c.Total(), c.Min(), c.Max(), total, low, high)
	}
}

// TestLatency tests what counts as the latency of a command. Puts and takes of a queue that syncs
// wait for the sync, whoever runs it; what does not wait for it does not.
func TestLatency(t *testing.T) {
	const sync = 30 * time.Millisecond
	for _, handOff := range []bool{false, true} {
		t.Run(fmt.Sprintf("syncer=%t", handOff), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, disk := newSlowServer(t)
				defer ts.stop()
				ts.server.inline.allowed = !handOff
				c := ts.dial(memcacheProtocol{})
				c.feed([]byte("get q\r\n"), 100)
				disk.sync.Store(int64(sync))
				c.feed([]byte("set q 0 0 1\r\nx\r\nset q 0 0 1\r\ny\r\n"), 100)
				<-time.After(time.Second)
				c.feed([]byte("get q/peek\r\nget q/open\r\n"), 100)
				c.feed([]byte("get q/close\r\n"), 100)
				<-time.After(time.Second)
				c.feed([]byte("get q\r\nget q\r\nget q/t=250\r\n"), 100)
				<-time.After(time.Second)
				c.feed([]byte("flush q\r\ndelete q\r\n"), 100)
				<-time.After(time.Second)
				disk.sync.Store(0)

				m := ts.server.Metrics()
				ts.expectTimes("put", &m.Commands[CommandPut], 2, sync, sync)
				ts.expectTimes("hit", &m.Commands[CommandHit], 2, 0, sync)
				ts.expectTimes("hit of an open read", &m.Commands[CommandHit], 2, 0, sync)
				ts.expectTimes("peek", &m.Commands[CommandPeek], 1, 0, 0)
				ts.expectTimes("confirm", &m.Commands[CommandConfirm], 1, sync, sync)
				ts.expectTimes("flush", &m.Commands[CommandFlush], 1, sync, sync)
				ts.expectTimes("delete", &m.Commands[CommandDelete], 1, sync, sync)
				if m.Commands[CommandHit].Max() != sync.Microseconds() || m.Commands[CommandHit].Min() != 0 {
					t.Errorf("hits took %d to %d µs: a take waits for the sync, an open read does not",
						m.Commands[CommandHit].Min(), m.Commands[CommandHit].Max())
				}
				if w := m.Waits; w.Total() != 1 || w.Max() < 250 || w.Max() > 280 {
					t.Errorf("waits = %d of %d ms, want one of 250, and the sync before it", w.Total(), w.Max())
				}
				if a := m.Ages; a.Total() != 2 || a.Max() < 1000 || a.Max() > 2100 {
					t.Errorf("ages = %d up to %d ms, want 2 up to 2 s, also of a queue that is gone", a.Total(), a.Max())
				}
				if len(m.Queues) != 0 {
					t.Errorf("a deleted queue is still there: %+v", m.Queues)
				}
				if m.Syncs.Total() == 0 || m.Syncs.Max() < sync.Microseconds() {
					t.Errorf("syncs = %d up to %d µs", m.Syncs.Total(), m.Syncs.Max())
				}
				c.hangUp()
			})
		})
	}
}

// TestQueueLatency tests that commands are attributed to their queues.
func TestQueueLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		a, b := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		a.feed([]byte("set one 0 0 1\r\nx\r\nset two 0 0 1\r\ny\r\nset one 0 0 1\r\nx\r\nget one\r\n"), 100)
		b.feed([]byte("get two\r\nget two\r\nget two/t=20\r\n"), 100)
		<-time.After(time.Second)
		a.feed([]byte("get three\r\nget alias\r\n"), 100)
		m := ts.server.Metrics()
		got := ""
		for _, q := range m.Queues {
			got += q.Name
			for _, c := range append(q.Times[:], q.Ages) {
				n := int64(0)
				if c != nil {
					n = c.Total()
				}
				got += fmt.Sprint(" ", n)
			}
			got += "\n"
		}
		want := "alias 0 0 1 0 0\none 2 1 0 0 1\nthree 0 0 1 0 0\ntwo 1 1 1 1 1\n"
		if got != want {
			t.Errorf("puts, hits, misses, waits, ages:\n%s, want\n%s", got, want)
		}
		a.hangUp()
		b.hangUp()
	})
}

// TestLatencyOfThriftGet tests that the items of a get without open reads wait for the sync, too.
func TestLatencyOfThriftGet(t *testing.T) {
	const sync = 30 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ts, disk := newSlowServer(t)
		defer ts.stop()
		c := ts.dial(thriftProtocol{})
		q := []byte("q")
		var client thrift.Client
		c.feed(client.AppendPut(nil, 1, q, 0, []byte("a"), []byte("b"), []byte("c")), 1000)
		disk.sync.Store(int64(sync))
		c.feed(client.AppendGet(nil, 2, q, thrift.GetOptions{MaxItems: 2}), 1000)
		<-time.After(time.Second)
		disk.sync.Store(0)
		m := ts.server.Metrics()
		ts.expectTimes("hit", &m.Commands[CommandHit], 2, sync, sync)
		c.feed(client.AppendGet(nil, 3, q, thrift.GetOptions{MaxItems: 2}), 1000)
		m = ts.server.Metrics()
		if hits, misses := m.Commands[CommandHit].Total(), m.Commands[CommandMiss].Total(); hits != 3 || misses != 1 {
			t.Errorf("%d hits and %d misses, want 3 and 1", hits, misses)
		}
		if got := m.Queues[0].Times[engine.HitTime].Total(); got != 3 {
			t.Errorf("%d hits of the queue, want 3", got)
		}
		c.hangUp()
	})
}

// TestLatencyOfManyTurns keeps more turns waiting for one sync than are kept apart.
func TestLatencyOfManyTurns(t *testing.T) {
	const sync = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		ts.server.inline.allowed = false
		y := ts.loop.latencies
		began := time.Now()
		ts.do(func() {
			m := make([]engine.Meter, 2)
			for i := range 3 * maxGroups {
				y.count(CommandPut, &m[i%2], engine.Ticket{Synced: 1 << 40}, 1)
				y.measure(time.Now(), time.Now())
			}
			if len(y.waiting) != maxGroups {
				t.Errorf("%d groups are kept, want %d", len(y.waiting), maxGroups)
			}
			for i := range y.waiting {
				y.waiting[i].synced = 0 // as if the sync had ended
			}
		})
		<-time.After(sync)
		ts.do(func() { y.measure(began, time.Now()) })
		m := ts.server.Metrics()
		ts.expectTimes("put", &m.Commands[CommandPut], 3*maxGroups, sync, sync)
		if len(y.waiting) != 0 || len(y.spare) != maxGroups {
			t.Errorf("%d groups wait, %d are spare", len(y.waiting), len(y.spare))
		}
		allocs := testing.AllocsPerRun(10, func() {
			for range maxGroups {
				y.count(CommandPut, nil, engine.Ticket{Synced: 1 << 40}, 1)
				y.measure(began, time.Now())
			}
			for i := range y.waiting {
				y.waiting[i].synced = 0
			}
			y.measure(began, time.Now())
		})
		if allocs != 0 {
			t.Errorf("groups that wait cost %v allocations", allocs)
		}
	})
}

// TestLatencyOfFailedSync tests that commands whose reply became an error are not measured.
func TestLatencyOfFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		ts.do(func() {
			y := ts.loop.latencies
			y.count(CommandPut, nil, engine.Ticket{Synced: 1 << 40}, 1)
			y.measure(time.Now(), time.Now())
			y.count(CommandPut, nil, engine.Ticket{Synced: 1 << 40}, 1)
			y.forget()
			y.measure(time.Now(), time.Now())
			if len(y.waiting) != 0 || y.sync.any {
				t.Errorf("kept: %+v, %+v", y.waiting, y.sync)
			}
		})
		m := ts.server.Metrics()
		ts.expectTimes("put", &m.Commands[CommandPut], 0, 0, 0)
	})
}

// TestQueuesOfOneTurn tests the bound on queues that a turn is attributed to.
func TestQueuesOfOneTurn(t *testing.T) {
	var g group
	for i := range 2 * maxQueues {
		g.add(new(engine.Meter), engine.PutTime, int32(i))
	}
	if len(g.queues) != maxQueues {
		t.Errorf("%d queues are kept, want %d", len(g.queues), maxQueues)
	}
	one, two := new(engine.Meter), new(engine.Meter)
	g = group{}
	for range 10 {
		g.add(one, engine.PutTime, 1)
		g.add(one, engine.HitTime, 2)
		g.add(two, engine.PutTime, 3)
	}
	if len(g.queues) != 3 || g.queues[0].Count != 10 || g.queues[1].Count != 20 || g.queues[2].Count != 30 {
		t.Errorf("queues in turn are kept as %+v", g.queues)
	}
}

// TestNoHistograms tests that nothing is measured when nothing is to be.
func TestNoHistograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{NoHistograms: true}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		c.feed([]byte("set q 0 0 1\r\nx\r\nget q\r\nget q/t=20\r\n"), 100)
		<-time.After(time.Second)
		m := ts.server.Metrics()
		for i := range m.Commands {
			ts.expectTimes("a command", &m.Commands[i], 0, 0, 0)
		}
		if m.Waits.Total() != 0 {
			t.Errorf("waits = %d", m.Waits.Total())
		}
		c.hangUp()
	})
}
