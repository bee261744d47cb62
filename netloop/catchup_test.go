package netloop

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// TestBulkCatchUp has six connections fetch small items one by one from a queue that holds many, beside one that puts.
// A turn serves four of them, and the put first. When few items are left, they are served with all others.
//
// Its control is a readable that does not look at catchUp.
func TestBulkCatchUp(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const consumers, producer, filler = 6, 6, 7
		const many = 1024 + 4*consumers
		lt := newBulkTest(t, eventLoop, unsynced(), 8)
		lt.put(filler, many, 1)
		for lt.depths()[filler] < many {
			lt.turn(lightFor)
		}
		get := func() {
			for _, peer := range lt.peers[:consumers] {
				if _, err := unix.Write(peer, []byte("get q7\r\n")); err != nil {
					t.Fatal(err)
				}
			}
		}
		// fetched takes a turn, and returns how many items were fetched and put in it.
		fetched := func() (got, put int64) {
			deltas := lt.turn(0)
			return -deltas[filler], deltas[producer]
		}
		check := func(when string, wantGot, wantPut int64) {
			t.Helper()
			if got, put := fetched(); got != wantGot || put != wantPut {
				t.Errorf("%s: %d items fetched and %d put, want %d and %d", when, got, put, wantGot, wantPut)
			}
		}
		get()
		check("nobody is known to catch up", consumers, 0)
		get()
		lt.put(producer, 1, 1)
		check("beside a put", turnSize/catchUpSize, 1)
		check("the rest of them", consumers-turnSize/catchUpSize, 0)
		for left := lt.depths()[filler]; left > 1024-2*consumers; left = lt.depths()[filler] {
			get()
			lt.turn(lightFor)
		}
		get()
		lt.turn(lightFor)
		get()
		lt.put(producer, 1, 1)
		check("few are left", consumers, 1)
	})
}

// TestBulkCatchUpEnds has connections fetch from a queue that holds many items, and then put. They do not count as
// having moved much any more: a turn serves them all.
func TestBulkCatchUpEnds(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const clients, other, filler = 6, 6, 7
		const many = 1024 + 4*clients
		lt := newBulkTest(t, eventLoop, unsynced(), 8)
		lt.put(filler, many, 1)
		for lt.depths()[filler] < many {
			lt.turn(lightFor)
		}
		for _, peer := range lt.peers[:clients] {
			if _, err := unix.Write(peer, []byte("get q7\r\n")); err != nil {
				t.Fatal(err)
			}
		}
		lt.turn(lightFor)
		putAll := func() (served int64) {
			for i := range clients {
				lt.put(i, 1, 1)
			}
			lt.put(other, 1, 1)
			for _, n := range lt.turn(0)[:clients] {
				served += n
			}
			return served
		}
		for _, puts := range []string{"first", "second"} {
			if served := putAll(); served != clients {
				t.Errorf("the %s puts: a turn serves %d of %d, want all", puts, served, clients)
			}
		}
	})
}

// TestFetchBehind tests what a fetch says of the items that are left.
func TestFetchBehind(t *testing.T) {
	lt := newBulkTest(t, EventLoopGnet, unsynced(), 1)
	lt.put(0, 1026, 1)
	for lt.depths()[0] < 1026 {
		lt.turn(lightFor)
	}
	for _, want := range []bool{true, false} {
		got, err := lt.engine.Fetch(engine.Now(), []byte("q0"), engine.FetchRequest{Access: engine.Take}, anyItem{})
		if err != nil || got.ManyLeft != want {
			t.Errorf("Fetch = %+v, %v; want ManyLeft %t", got, err, want)
		}
	}
}

// anyItem receives all items.
type anyItem struct{}

func (anyItem) Receive(engine.Item) bool { return true }
