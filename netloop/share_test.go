package netloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// slow has each look at the clock of turns come so much later than the last.
func (lt *bulkTest) slow(by time.Duration) {
	var turn time.Time
	at := time.Duration(0)
	lt.watchdog.elapsed = func(began time.Time) time.Duration {
		if began != turn {
			turn, at = began, 0
		}
		at += by
		return at
	}
}

// TestTurnIsShared has more clients send something than a turn has time for. The others are first in the
// next turn, before what has come since, and nobody is forgotten.
//
// Its control is a happened that reads from whoever has something to be read.
func TestTurnIsShared(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const clients, each = 40, 10
		lt := newBulkTest(t, eventLoop, unsynced(), clients)
		lt.slow(maxShare / each)
		for i := range clients {
			lt.put(i, 1, 1)
		}
		var served [clients]int64
		for turn := range 2 * clients / each {
			first := 0
			for i, n := range lt.turn(0) {
				if n > 0 && served[i] == 0 {
					first++
				}
				if served[i] += n; n > 0 && turn < clients/each {
					lt.put(i, 1, 1) // again: behind the others
				}
			}
			if first != each && turn < clients/each {
				t.Errorf("turn %d serves %d clients for the first time, want %d", turn, first, each)
			}
		}
		for i, n := range served {
			if n != 2 {
				t.Errorf("client %d has put %d items, want 2", i, n)
			}
		}
		if len(lt.late) > 0 {
			t.Errorf("%d clients are late at the end", len(lt.late))
		}
	})
}

// TestLateAndGone has a client end that the turn had no time for, and another take its descriptor.
func TestLateAndGone(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 3)
		lt.slow(maxShare)
		for i := range lt.peers {
			lt.put(i, 1, 1)
		}
		lt.turn(0)
		if len(lt.late) != 2 {
			t.Fatalf("%d clients are late, want 2", len(lt.late))
		}
		lt.driver.end(lt.late[0], false)
		lt.turn(0)
		lt.turn(0)
		total := int64(0)
		for _, n := range lt.depths() {
			total += n
		}
		if total != 2 || len(lt.late) > 0 {
			t.Errorf("%d items are put, and %d clients late; want 2 and none", total, len(lt.late))
		}
	})
}

// TestGoOnInTurn has clients send more than they may do in a turn that has time for one of them. They go on one after
// the other, also beside one that asks for little.
//
// Its controls are a goOn that goes through all of them, and one that begins with whoever was run last.
func TestGoOnInTurn(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const heavy, items = 3, 6 * lookWork
		lt := newBulkTest(t, eventLoop, unsynced(), heavy+1)
		lt.slow(maxShare)
		for i := range heavy {
			lt.put(i, items, 1)
		}
		done, turns := make([]int64, heavy+1), int64(0)
		for ; turns < 100 && done[0]+done[1]+done[2] < heavy*items; turns++ {
			lt.put(heavy, 1, 1)
			least, ran := done[0], 0
			for _, n := range done[:heavy] {
				least = min(least, n)
			}
			for i, n := range lt.turn(0) {
				if n > 0 && i < heavy {
					ran++
				}
				done[i] += n
			}
			for i, n := range done[:heavy] {
				if n > least+3*lookWork {
					t.Errorf("turn %d: client %d has put %d items, and another %d", turns, i, n, least)
				}
			}
			if ran > 2 { // one that goes on, and one that is read
				t.Errorf("turn %d: %d clients that send much were run, want 2 at most", turns, ran)
			}
		}
		for i, n := range done[:heavy] {
			if n != items {
				t.Errorf("client %d has put %d items in %d turns, want %d", i, n, turns, items)
			}
		}
		if done[heavy] < turns/2 {
			t.Errorf("the light client has put %d items in %d turns", done[heavy], turns)
		}
	})
}

// TestHeldInTurn has one sync cover the replies of more clients than a turn has time for. All of them get theirs, in
// the order in which they have put, and if the sync fails, the error.
//
// Its control is a releaseHeld that goes through all of them when a commit has failed.
func TestHeldInTurn(t *testing.T) {
	t.Run("stored", func(t *testing.T) { testHeldInTurn(t, "STORED\r\n") })
	t.Run("failed", func(t *testing.T) { testHeldInTurn(t, "SERVER_ERROR journal failed\r\n") })
}

func testHeldInTurn(t *testing.T, reply string) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const clients = 30
		lt := newBulkTest(t, eventLoop, alwaysSynced(), clients)
		for i := range clients {
			lt.put(i, 1, 1)
		}
		lt.server.inline.allowed = false // nobody syncs for the loop
		lt.turn(0)
		if len(lt.held) != clients {
			t.Fatalf("%d replies are held, want %d", len(lt.held), clients)
		}
		var order []*session
		order = append(order, lt.held...)
		if last := lt.held[clients-1].heldTicket; reply != "STORED\r\n" {
			lt.fail(last, engine.ErrJournal)
		} else if err := lt.engine.Commit(last); err != nil {
			t.Fatal(err)
		}
		lt.slow(maxShare / 4)
		for turns := 0; len(lt.held) > 0; turns++ {
			if turns == 100 {
				t.Fatalf("%d replies are held behind %d turns", len(lt.held), turns)
			}
			before := len(lt.held)
			lt.turn(0)
			if sent := before - len(lt.held); sent == 0 || sent > 5*maxRounds {
				t.Errorf("a turn has sent %d replies that were held", sent)
			}
			for i, s := range lt.held {
				if s != order[clients-len(lt.held)+i] {
					t.Fatalf("what is held has changed its order")
				}
			}
		}
		for i := range clients {
			lt.wantReply(i, reply)
		}
	})
}

// wantReply has client i have got this and nothing else.
func (lt *bulkTest) wantReply(i int, want string) {
	lt.t.Helper()
	buf := make([]byte, 256)
	n, _, _ := unix.Recvfrom(lt.peers[i], buf, unix.MSG_DONTWAIT)
	if got := string(buf[:max(n, 0)]); got != want {
		lt.t.Errorf("client %d got %q, want %q", i, got, want)
	}
}

// TestStopInTurns has a server with more clients than a turn has time to end stop. Those that do nothing are asked to
// go, a few in each turn, and then the others are ended.
//
// Its controls are a quitIdle that goes through all of them, and a stop that does.
func TestStopInTurns(t *testing.T) {
	for _, drained := range []bool{true, false} {
		t.Run(fmt.Sprintf("drained %v", drained), func(t *testing.T) {
			onEventLoops(t, func(t *testing.T, eventLoop string) {
				const clients, each = 2 * maxRounds * maxEnds, 5
				lt := newBulkTest(t, eventLoop, unsynced(), clients)
				most := maxRounds * maxEnds
				if drained {
					lt.do(lt.drain)
				} else {
					lt.slow(maxShare / each)
					lt.do(lt.stop)
					most = each
				}
				left := func() (n int) {
					for _, c := range lt.conns {
						if c != nil {
							n++
						}
					}
					return n
				}
				turns := 0
				for ; left() > 0 && turns < clients; turns++ {
					before := left()
					lt.turn(0)
					if ended := before - left(); ended > most {
						t.Errorf("turn %d ends %d clients, want %d at most", turns, ended, most)
					}
				}
				if n := left(); n > 0 {
					t.Errorf("%d clients are there behind %d turns", n, turns)
				}
			})
		})
	}
}

// TestNewsInTurn has more waiting clients get an item than a turn has time for.
func TestNewsInTurn(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const clients = 30
		lt := newBulkTest(t, eventLoop, unsynced(), clients+1)
		for i := range clients {
			unix.Write(lt.peers[i], fmt.Appendf(nil, "get q%d/t=100000\r\n", clients))
		}
		lt.turn(0)
		lt.put(clients, clients, 1)
		lt.slow(maxShare / 4)
		before := lt.counters.GetHits
		for turns := 0; lt.counters.GetHits-before < clients; turns++ {
			if turns == 100 {
				t.Fatalf("%d clients have got an item in %d turns, want %d", lt.counters.GetHits-before, turns, clients)
			}
			last := lt.counters.GetHits
			lt.turn(0)
			if n := lt.counters.GetHits - last; n > 5*maxRounds {
				t.Errorf("a turn has served %d waiting clients", n)
			}
		}
		for i := range clients {
			buf := make([]byte, 256)
			n, _, _ := unix.Recvfrom(lt.peers[i], buf, unix.MSG_DONTWAIT)
			if !strings.HasPrefix(string(buf[:max(n, 0)]), "VALUE") {
				t.Errorf("client %d got %q", i, buf[:max(n, 0)])
			}
		}
	})
}

// TestDrainInTurns has a server that stops end the waits of more clients than a turn has time for.
//
// Its control is a drain that ends all of them.
func TestDrainInTurns(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const clients, each = 30, 5
		lt := newBulkTest(t, eventLoop, unsynced(), clients)
		for i := range clients {
			unix.Write(lt.peers[i], []byte("get nothing/t=100000\r\n"))
		}
		lt.turn(0)
		lt.slow(maxShare / each)
		lt.do(lt.drain)
		waits, turns := clients, 0
		for ; waits > 0 && turns < 100; turns++ {
			lt.turn(0)
			left := len(lt.deadlines)
			if ended := waits - left; ended > each {
				t.Errorf("turn %d ends %d waits, want %d at most", turns, ended, each)
			}
			waits = left
		}
		if waits > 0 {
			t.Errorf("%d clients still wait behind %d turns", waits, turns)
		}
		for i := range clients {
			buf := make([]byte, 64)
			if n, _, _ := unix.Recvfrom(lt.peers[i], buf, unix.MSG_DONTWAIT); string(buf[:max(n, 0)]) != "END\r\n" {
				t.Errorf("client %d got %q", i, buf[:max(n, 0)])
			}
		}
	})
}
