package netloop

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestLeavingClientSync has clients put something and end their sending side before the sync has begun. The turn that
// sees the end does not sync, and the reply leaves when somebody else has.
//
// Its control is a leave that always reports false.
func TestLeavingClientSync(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		o := engine.DefaultQueueOptions()
		o.Sync = engine.SyncAlways
		lt := newBulkTest(t, eventLoop, o, 2)
		lt.server.inline.allowed = false // and the syncer does not run
		before := lt.server.Metrics().Syncs.Total()
		lt.put(0, 1, 1)
		lt.put(1, 1, 1)
		lt.turn(0)
		for _, peer := range lt.peers {
			if err := unix.Shutdown(peer, unix.SHUT_WR); err != nil {
				t.Fatal(err)
			}
		}
		lt.turn(0)
		if n := lt.server.Metrics().Syncs.Total() - before; n != 0 {
			t.Errorf("the loop waited for %d syncs, want 0", n)
		}
		for i := range lt.peers {
			lt.wantReplies(i, 0)
		}
		if err := lt.engine.Commit(lt.server.syncer.want); err != nil {
			t.Fatal(err)
		}
		lt.turn(0)
		for i, fd := range lt.fds {
			lt.wantReplies(i, 1)
			if lt.conns[fd] != nil {
				t.Errorf("connection %d is open after its last reply", i)
			}
		}
	})
}

// TestLeavingWaiter has a client end while it waits for an item and an earlier reply waits for a sync. It gets the
// reply and hears that nothing came, and an item that comes meanwhile stays in its queue.
func TestLeavingWaiter(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		o := engine.DefaultQueueOptions()
		o.Sync = engine.SyncAlways
		lt := newBulkTest(t, eventLoop, o, 2)
		lt.server.inline.allowed = false // and the syncer does not run
		lt.put(0, 1, 1)
		if _, err := unix.Write(lt.peers[0], []byte("get q1/t=60000\r\n")); err != nil {
			t.Fatal(err)
		}
		lt.turn(0)
		if err := unix.Shutdown(lt.peers[0], unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		lt.turn(0)
		lt.put(1, 1, 1)
		lt.want("an item for a waiter that is gone", lt.turn(0), 0, 1)
		if err := lt.engine.Commit(lt.server.syncer.want); err != nil {
			t.Fatal(err)
		}
		lt.turn(0)
		lt.wantSent(0, "STORED\r\nEND\r\n")
		lt.wantReplies(1, 1)
		if lt.conns[lt.fds[0]] != nil {
			t.Error("the connection is open after its last reply")
		}
		if q, _ := lt.engine.QueueStats(engine.Now(), []byte("q1")); q.Items != 1 || q.OpenReads != 0 {
			t.Errorf("the queue has %d items, %d of them open; want 1, 0", q.Items, q.OpenReads)
		}
		if n := lt.counters.WaitsDropped; n != 1 {
			t.Errorf("%d waits were dropped, want 1", n)
		}
	})
}

// TestInlineSync tests a loop that syncs itself. After a slow sync it stops doing so, and other clients do not wait
// for the next one. When syncs have been quick for long, it begins again.
//
// Its control is an inlineSync whose took does nothing.
func TestInlineSync(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		o := engine.DefaultQueueOptions()
		o.Sync = engine.SyncAlways
		fsys := segmenttest.New()
		lt := newBulkTestOn(t, eventLoop, fsys, o, 1)
		lt.server.inline.slow = slowSync
		const sync, first = 20 * slowSync, "data/journal/0000000001.new"
		var now atomic.Int64 // ns, on a clock that moves while the disk works
		lt.watchdog.elapsed = func(time.Time) time.Duration { return time.Duration(now.Load()) }
		fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			if op.Kind == segmenttest.OpDatasync && op.Path == first { // the next one is prepared meanwhile
				now.Add(int64(sync))
			}
			return segmenttest.Fault{}
		})
		defer fsys.SetFault(nil)
		syncs := func() int64 { return lt.server.Metrics().Syncs.Total() }
		before := syncs()
		lt.put(0, 1, 1)
		lt.turn(0)
		lt.wantReplies(0, 1)
		if n := syncs() - before; n != 1 {
			t.Fatalf("the loop has synced %d times, want 1", n)
		}
		lt.put(0, 1, 1)
		lt.turn(0)
		lt.wantReplies(0, 0)
		if n := syncs() - before; n != 1 {
			t.Errorf("after a slow sync the loop has synced %d times more, want 0", n-1)
		}
		if err := lt.engine.Commit(lt.server.syncer.want); err != nil {
			t.Fatal(err)
		}
		quick := 0
		for ; !lt.server.inline.now() && quick < 1000; quick++ {
			lt.server.inline.took(slowSync - 1)
		}
		if want := int(sync/slowSync) * quickSyncs; quick != want {
			t.Errorf("the loop syncs again after %d quick syncs, want %d", quick, want)
		}
		lt.turn(0)
		lt.wantReplies(0, 1)
	})
}

// TestLargeBesideTurn tests a turn of a loop that syncs itself. It neither writes nor syncs a large item that another
// goroutine puts behind what the turn has put.
func TestLargeBesideTurn(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, policy := range []engine.SyncPolicy{engine.SyncNever, engine.SyncAlways} {
			o := engine.DefaultQueueOptions()
			o.Sync = policy
			lt := newBulkTest(t, eventLoop, o, 1)
			lt.put(0, 1, 1)
			var large engine.Ticket
			lt.beforeTick = func() {
				var err error
				large, err = lt.engine.Put(engine.Now(), []byte("large"), engine.PutRequest{Data: make([]byte, 2*maxWrite)})
				if err != nil {
					t.Error(err)
				}
			}
			lt.turn(0)
			if lt.engine.Committed(engine.Ticket{Written: large.Written}) {
				t.Errorf("%v: the turn has written %d bytes of another client", policy, 2*maxWrite)
			}
			if policy == engine.SyncAlways {
				lt.wantReplies(0, 0)
				if err := lt.engine.Commit(lt.server.syncer.want); err != nil {
					t.Fatal(err)
				}
				lt.turn(0)
			}
			lt.wantReplies(0, 1)
		}
	})
}
