package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// leasedBehindHead restarts an engine whose queue "q" has 20 items in a run, the first of them open, and the
// second leased. There is no room for another queue.
func leasedBehindHead(t *testing.T) (e *Engine, q *queue, receipt uint64, all []string) {
	t.Helper()
	e, _ = newQuiet(t, tiny)
	all = putMany(t, e, "q", 0, 20)
	q = e.shardOf([]byte("q")).queues["q"]
	q.shard.mu.Lock()
	e.spillAll(q, true)
	q.shard.mu.Unlock()
	spoolAll(e)
	mustOpen(t, e, "q")
	spoolAll(e)
	var d Delivery
	var leased copied
	request := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: &d}
	got, err := e.Fetch(Now(), []byte("q"), request, &leased)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, got.Ticket)
	e = killFull(t, e)
	q = e.shardOf([]byte("q")).queues["q"]
	if q.leased() != 1 || q.headID() > leased.item.ID || !q.backlog.gone.Has(leased.item.ID) {
		t.Fatalf("%d items are leased, the head is %d, want it in front of %d", q.leased(), q.headID(), leased.item.ID)
	}
	return e, q, d.Receipt, all
}

// killFull is kill with no room for another queue.
func killFull(t *testing.T, e *Engine) *Engine {
	t.Helper()
	o := testOptions(e.opts.FS.(*segmenttest.FS).Kill(), tiny)
	o.MaxQueues = 1
	return openQuiet(t, o)
}

// TestDeadLetterBehindHead: after a restart an item that was leased lies behind one that was open. It is given up,
// its dead-letter queue cannot be made, and so it stays in its place. What is recorded of the runs of its queue must
// not say that it is gone.
func TestDeadLetterBehindHead(t *testing.T) {
	e, q, receipt, all := leasedBehindHead(t)
	if _, err := e.ReturnLease(Now(), []byte("q"), receipt, Return{How: Reject}); err != nil {
		t.Fatal(err)
	}
	if q.leased() != 0 || q.items() != 20 {
		t.Fatalf("%d items are leased, %d are there, want that the dead letter stays", q.leased(), q.items())
	}
	verify(t, e)
	if _, err := e.checkpoint(); err != nil {
		t.Fatal(err)
	}
	e = killFull(t, e)
	if got := drain(t, e, "q"); !slices.Equal(got, all) {
		t.Errorf("after a kill there are %d items, want %d:\n%q", len(got), len(all), got)
	}
}

// TestDeadLetterOnItsWay tests what is recorded of the runs of a queue while an item is on its way to the dead-letter
// queue. The record must not say that the item is gone.
func TestDeadLetterOnItsWay(t *testing.T) {
	e, q, receipt, all := leasedBehindHead(t)
	q.shard.mu.Lock()
	r, ok := q.aside.FindToken(receipt)
	if !ok {
		t.Fatal("there is no such lease")
	}
	e.returnLeased(q, r, Return{How: Reject})
	if q.moving.Len() != 1 {
		t.Errorf("%d items are on their way, want 1", q.moving.Len())
	}
	q.shard.mu.Unlock()
	e.enterBacklog(q, e.pause)
	mustCommit(t, e, e.ticketSoFar(q))
	again := kill(t, e)
	if _, err := again.ReturnLease(Now(), []byte("q"), receipt, Return{How: Release}); err != nil {
		t.Errorf("after a kill, the lease: %v", err)
	}
	got := slices.Concat(drain(t, again, "q"), drain(t, again, "q_dead"))
	if slices.Sort(got); !slices.Equal(got, all) {
		t.Errorf("after a kill there are %d items, want %d:\n%q", len(got), len(all), got)
	}
	q.shard.mu.Lock()
	e.unlock(q.shard, Now())
}

// TestDeadLetterBesideLetGo has an item that its dead-letter queue cannot take come back between two pieces of a walk.
// The walk has its queue let go of the journal, which it then enters again. The item is there after a kill.
func TestDeadLetterBesideLetGo(t *testing.T) {
	name := strings.Repeat("q", 253) // that of its dead-letter queue would be too long
	for cross, f := range map[string]func(*Engine, *segmenttest.FS){
		"reload": func(e *Engine, _ *segmenttest.FS) {
			keepJournal(t, e, name, false)
			keepJournal(t, e, name, true)
		},
		"journal": func(e *Engine, fsys *segmenttest.FS) { e.retryJournal() },
	} {
		t.Run(cross, func(t *testing.T) {
			fsys, between := segmenttest.New(), func() {}
			o := testOptions(fsys)
			o.yield = func() { between() }
			e := openQuiet(t, o)
			for range readBatch + 1 {
				mustPut(t, e, name, "x")
			}
			open := openAll(t, e, name, readBatch+1)
			if cross == "journal" {
				failSync(t, e, fsys, "other", "x")
			}
			q := e.shardOf([]byte(name)).queues[name]
			q.shard.mu.Lock()
			e.giveBack(open[readBatch].r, Return{How: Reject})
			moves := q.shard.takeMoves()
			q.shard.mu.Unlock()
			between = func() {
				between = func() {}
				e.finishMoves(Now(), moves)
				if q.returned.Len() != 1 || q.inJournal() && !q.entering {
					t.Error("the item does not come back while the queue lets go of the journal")
				}
			}
			f(e, fsys)
			mustCommit(t, e, e.ticketSoFar(q))
			e = kill(t, e)
			if got := e.shardOf([]byte(name)).queues[name].items(); got != readBatch+1 {
				t.Errorf("after a kill %d items are there, want %d", got, readBatch+1)
			}
		})
	}
}

// TestDeadLetterComesLater: an item that is given up, and whose dead-letter queue cannot be made, comes back when its
// client said, or after the queue's delay. Workers would get it again and again otherwise.
func TestDeadLetterComesLater(t *testing.T) {
	for _, how := range []Return{{How: Abort, Delayed: true, Delay: time.Hour}, {How: Abort}} {
		for _, leased := range []bool{false, true} {
			o := testOptions(segmenttest.New(), func(o *QueueOptions) {
				o.MaxDeliveries, o.RedeliveryDelay[0] = 1, time.Hour
			})
			o.MaxQueues = 1
			e := openQuiet(t, o)
			now := Time(1700000000000)
			e.precise = func() (Time, time.Duration) { return now, 0 }
			mustPut(t, e, "q", "a")
			f := FetchRequest{Access: OpenRead, Delivery: new(Delivery)}
			if leased {
				f.Access, f.Lease = Lease, time.Minute
			}
			got, err := e.Fetch(now, []byte("q"), f, &copied{})
			if err != nil {
				t.Fatal(err)
			}
			if leased {
				_, err = e.ReturnLease(now, []byte("q"), f.Delivery.Receipt, how)
			} else {
				_, _, err = e.Return(now, []ReadRef{got.Read}, how)
			}
			if err != nil {
				t.Fatal(err)
			}
			verify(t, e)
			if _, err := e.Fetch(now, []byte("q"), FetchRequest{}, &copied{}); err != ErrEmpty {
				t.Errorf("%+v, leased %t: the item is there at once: %v", how, leased, err)
			}
			now = now.After(time.Hour + time.Minute)
			if got := mustGet(t, e, "q"); got != "a" {
				t.Errorf("%+v, leased %t: after an hour there is %q", how, leased, got)
			}
		}
	}
}

// TestDeadLetterLongName rejects an item of a queue whose dead-letter queue would have too long a name.
func TestDeadLetterLongName(t *testing.T) {
	e, _ := newQuiet(t)
	name := strings.Repeat("x", MaxNameSize)
	mustPut(t, e, name, "item")
	ref, _ := mustOpen(t, e, name)
	ticket, _, err := e.Return(Now(), []ReadRef{ref}, Return{How: Reject})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	wantItems(t, e, name, "item")
	wantItems(t, kill(t, e), name, "item")
}
