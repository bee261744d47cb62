package netloop

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// keeping is a way in which a client has the server keep memory for it.
type keeping struct {
	name  string
	proto protocol
	// prepare makes what the clients ask for. Its memory is not compared.
	prepare func(ts *testServer, c *testClient)
	// keep is what the client with a number does.
	keep func(ts *testServer, r *keeper, number int)
	// least is how many bytes the ledger must have for each client, so that the row tests something.
	least int64
}

// keepers is how many clients do the same, keptQueues how many queues each of them uses if it uses many.
const (
	keepers    = 50
	keptQueues = 100
)

func fill(count, size int) func(*testServer, *testClient) {
	return func(ts *testServer, c *testClient) {
		item := strings.Repeat("x", size)
		for range count {
			c.ask(fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", size, item))
		}
	}
}

// eachQueue puts an item for every client to each of many queues.
func eachQueue(ts *testServer, c *testClient) {
	for i := range keptQueues {
		c.feed(bytes.Repeat(fmt.Appendf(nil, "set queue%04d 0 0 1\r\nx\r\n", i), keepers), 1<<20)
	}
}

// ofEach puts three larger items to a queue for each client.
func ofEach(ts *testServer, c *testClient) {
	for i := range keepers {
		c.feed(bytes.Repeat(fmt.Appendf(nil, "set queue%04d 0 0 20000\r\n%020000d\r\n", i, 1), 3), 1<<20)
	}
}

func says(text string) func(*testServer, *keeper, int) {
	return func(_ *testServer, r *keeper, _ int) { r.feed([]byte(text), 32<<10) }
}

// calls has a client send Thrift calls that are not waited for.
func calls(each func(c *thrift.Client, queue []byte) []byte) func(*testServer, *keeper, int) {
	return func(_ *testServer, r *keeper, _ int) {
		var frames []byte
		for i := range keptQueues {
			frames = append(frames, each(new(thrift.Client), fmt.Appendf(nil, "queue%04d", i))...)
		}
		r.feed(frames, 32<<10)
		r.reads()
	}
}

// keeper is a client that reads nothing, unless it is asked to. It does not keep what it has read.
type keeper struct {
	*testClient
	unsent unsent
}

func (k *keeper) send(p []byte)    { k.unsent.add(p) }
func (k *keeper) unsentBytes() int { return k.unsent.size }
func (k *keeper) memory() int      { return k.unsent.memory }

// reads has the client read what it is sent, until that is all.
func (k *keeper) reads() {
	for unsent := true; unsent; synctest.Wait() {
		k.ts.do(func() {
			unsent = k.unsent.size > 0
			k.unsent.writeTo(func([]byte) []byte { return nil })
		})
		k.ts.loop.post(&k.session, writable)
	}
}

var keepings = []keeping{
	{"memcache: part of an item", memcacheProtocol{}, nil, says(partial(50_000)), 50_000},
	{"memcache: part of a line", memcacheProtocol{}, nil, says("get " + strings.Repeat("q", 8000)), 8000},
	{"memcache: requests behind a wait", memcacheProtocol{}, nil, says("get w/t=3600000\r\n" + strings.Repeat("version\r\n", 5000)), 45_000},
	{"memcache: replies not read", memcacheProtocol{}, fill(1, 20_000), says(strings.Repeat("get q/peek\r\n", 3)), 60_000},
	{"memcache: a large item not read", memcacheProtocol{}, fill(1, 400_000), says("get q/peek\r\n"), 400_000 / keepers},
	{"memcache: a report not read", memcacheProtocol{}, eachQueue, says("stats\r\n"), pieceSize},
	{"memcache: names in a report", memcacheProtocol{}, nil, says("dump_stats" + strings.Repeat(" q", 4000) + "\r\n"), pieceSize},
	{"memcache: open reads of many queues", memcacheProtocol{}, eachQueue, func(ts *testServer, r *keeper, _ int) {
		for i := range keptQueues {
			r.feed(fmt.Appendf(nil, "get queue%04d/open\r\n", i), 1<<10)
		}
		r.reads()
	}, 100 * keptQueues},
	{"memcache: open reads of one queue", memcacheProtocol{}, fill(keepers*keptQueues, 1), func(ts *testServer, r *keeper, _ int) {
		r.feed(bytes.Repeat([]byte("get q/open\r\n"), keptQueues), 1<<10)
		r.reads()
	}, 100 * keptQueues},
	{"memcache: many open reads that were confirmed", memcacheProtocol{}, eachQueue, func(ts *testServer, r *keeper, _ int) {
		for i := range keptQueues {
			r.feed(fmt.Appendf(nil, "get queue%04d/open\r\nget queue%04d/close\r\n", i, i), 1<<10)
		}
		r.reads()
	}, 0},
	{"memcache: replies held for a sync", memcacheProtocol{}, fill(1, 20_000), func(ts *testServer, r *keeper, _ int) {
		r.feed([]byte(strings.Repeat("get q/peek\r\n", 4)), 1<<10) // has the loop keep a large buffer
		r.reads()
		ts.do(func() { // as if the reply had to wait for a sync that takes long
			s := &r.session
			s.takeOutput()
			s.out = append(s.out, "STORED\r\n"...)
			ts.loop.hold(s)
			ts.loop.ledger.report()
		})
	}, 1 << 10},
	{"burrow: a long list not read", burrowProtocol{}, fill(300, 20_000), says("GET /v1.0/default/q HTTP/1.1\r\nHost: localhost\r\n\r\n"), wholeMatch},
	{"text: part of an item", textProtocol{}, nil, says("put q:\n" + strings.Repeat("x", 50_000)), 50_000},
	{"text: open reads of many queues", textProtocol{}, eachQueue, func(ts *testServer, r *keeper, _ int) {
		for i := range keptQueues {
			r.feed(fmt.Appendf(nil, "get queue%04d\n", i), 1<<10)
		}
		r.reads()
	}, 100 * keptQueues},
	{"text: a monitor that is not read", textProtocol{}, ofEach, func(_ *testServer, r *keeper, number int) {
		r.feed(fmt.Appendf(nil, "monitor queue%04d 3600000\n", number), 1<<10)
	}, 60_000},
	{"memcache: leases with receipts", memcacheProtocol{}, eachQueue, func(ts *testServer, r *keeper, _ int) {
		for i := range keptQueues {
			r.feed(fmt.Appendf(nil, "gets queue%04d/lease=3600000\r\n", i), 1<<10)
		}
		r.reads()
	}, 0},
	{"memcache: leases of the connection", memcacheProtocol{}, eachQueue, func(ts *testServer, r *keeper, _ int) {
		for i := range keptQueues {
			r.feed(fmt.Appendf(nil, "get queue%04d/lease=3600000\r\n", i), 1<<10)
		}
		r.reads()
	}, 100 * keptQueues},
	{"thrift: part of a frame", thriftProtocol{}, nil, says("\x00\x10\x00\x00" + strings.Repeat("x", 50_000)), 50_000},
	{"thrift: a get that collects", thriftProtocol{}, ofEach, func(_ *testServer, r *keeper, number int) {
		r.feed(new(thrift.Client).AppendGet(nil, 1, fmt.Appendf(nil, "queue%04d", number), thrift.GetOptions{MaxItems: 4, WaitMillis: 3_600_000}), 1<<20)
	}, 20_000},
	{"thrift: a client with a long name", thriftProtocol{}, nil, func(_ *testServer, r *keeper, _ int) {
		c := new(thrift.Client)
		r.feed(c.AppendCall(nil, thrift.MethodUpgrade, 1, nil), 1<<20)
		c.Upgraded, c.ClientID = true, bytes.Repeat([]byte("c"), 50_000)
		r.feed(c.AppendCall(nil, thrift.MethodGetVersion, 2, nil), 1<<20)
		r.reads()
	}, 0},
	{"thrift: reliable reads, a call for each", thriftProtocol{}, eachQueue, calls(func(c *thrift.Client, queue []byte) []byte {
		return c.AppendGet(nil, 1, queue, thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 3_600_000})
	}), 100 * keptQueues},
	{"thrift: peeks not read", thriftProtocol{}, fill(1, 20_000), func(_ *testServer, r *keeper, _ int) {
		peek := new(thrift.Client).AppendCall(nil, thrift.MethodPeek, 1, []byte("q"))
		r.feed(bytes.Repeat(peek, 3), 1<<20)
	}, 60_000},
}

// TestLedgerAgainstHeap has clients of every protocol keep as much as they can in one way. It compares the growth of
// the ledger with that of the heap.
//
// A session at rest is not compared, nor is what a row's clients ask for.
func TestLedgerAgainstHeap(t *testing.T) {
	for i, k := range keepings {
		if isSample() && i%3 != 0 {
			continue // each takes as long as many other tests
		}
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := &testServer{
					t: t, fs: segmenttest.New(), opts: Options{MaxOpenReads: 1 << 10}, memory: 1 << 30, set: defaults(),
				}
				ts.set.Default.KeepJournal = false // it would be in the heap, as the file system is
				ts.start()
				defer ts.stop()
				c := ts.dial(memcacheProtocol{})
				if k.prepare != nil {
					k.prepare(ts, c)
				}
				c.hangUp()
				var clients []*keeper
				for range keepers {
					r := &keeper{testClient: ts.dial(k.proto)}
					ts.do(func() { r.session.sink = r })
					clients = append(clients, r)
				}
				letGo()
				heap, known := heapSize(), ts.inUse()
				for i, r := range clients {
					k.keep(ts, r, i)
				}
				letGo()
				heap, known = heapSize()-heap, ts.inUse()-known
				t.Logf("a client: %d bytes of the heap, %d in the ledger", heap/keepers, known/keepers)
				if known < k.least*keepers-ledgerStep { // the loop reports in steps
					t.Errorf("a client is counted with %d bytes, want %d at least", known/keepers, k.least)
				}
				if most := known + known/8 + keepers*restSize + 64<<10; heap > most { // and what the loop keeps for all
					t.Errorf("%d clients keep %d bytes of the heap, and the ledger has %d", keepers, heap, known)
				}
				for _, r := range clients {
					r.hangUp()
				}
			})
		})
	}
}

// TestIdleSessions tests that a connection that does nothing takes no more memory than the ledger counts for it. That
// holds also if it did something before, or waits for an item.
func TestIdleSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, 1<<30)
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		c.ask("get q\r\nget w\r\n")
		const count = 1000
		clients := make([]*keeper, count)
		letGo()
		heap, known := heapSize(), ts.inUse()
		for i := range clients {
			clients[i] = &keeper{testClient: ts.dial(memcacheProtocol{})}
			ts.do(func() { clients[i].session.sink = clients[i] })
		}
		const once = "set q 0 0 5\r\nhello\r\nget q/open\r\nget q/close\r\n"
		for _, request := range []string{"", once, "get w/t=3600000\r\n"} {
			for _, r := range clients {
				r.feed([]byte(request), 1<<10)
				r.reads()
			}
			letGo()
			took, counted := heapSize()-heap, ts.inUse()-known
			if took > counted+count*100 || counted > 2*took {
				t.Errorf("behind %q, %d connections take %d bytes of the heap, and the ledger has %d", request, count, took, counted)
			}
		}
		for _, r := range clients {
			r.hangUp()
		}
		if got := ts.inUse() - known; got > ledgerStep {
			t.Errorf("%d bytes are counted when all have gone", got)
		}
	})
}

// restSize is what a session may keep beyond what it counts, in bytes.
const restSize = 1 << 10

// letGo lets time pass until the engine has let go of what nobody needs.
func letGo() {
	<-time.After(2 * time.Minute)
	synctest.Wait()
}

// heapSize is how many bytes of the heap are in use. What pools have left over is not.
func heapSize() int64 {
	var m runtime.MemStats
	for range 3 { // pools let go in the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
