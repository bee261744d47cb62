package engine

import (
	"math"
	"testing"
)

// moveBetween expires item "a" of queue q into another queue, which another lock guards, and calls
// hook after the item has arrived there and before q has let go of it.
func moveBetween(t *testing.T, journaled bool, hook func(*Engine)) (e *Engine, target string) {
	t.Helper()
	e, _ = newQuiet(t)
	target = nameInOtherShard(e, "q")
	o := DefaultQueueOptions()
	o.ExpireTo, o.KeepJournal = target, journaled
	s := Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q": o}}
	if err := e.Reload(s); err != nil {
		t.Fatal(err)
	}
	now := Now()
	expiry := now + 60_000 // later than any fetch or put of the test sweeps
	if _, err := e.Put(now, []byte("q"), PutRequest{Data: []byte("a"), Expiry: expiry}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "q", "b")
	w := &Waiter{Notify: notifierFunc(func(*Waiter) { hook(e) })}
	f := FetchRequest{Access: Peek, Waiter: w}
	if _, err := e.Fetch(now, []byte(target), f, nil); err != ErrEmpty {
		t.Fatal(err)
	}
	_, ticket := e.FlushExpired(expiry+1, []byte("q"))
	mustCommit(t, e, ticket)
	e.Confirm(now, w.Read) // forgets the copy
	return e, target
}

// TestMoveIsAtomic is killed while an expired item is on its way: it is in one of the two queues.
func TestMoveIsAtomic(t *testing.T) {
	var killed *Engine
	e, target := moveBetween(t, true, func(e *Engine) {
		mustCommit(t, e, Ticket{Written: e.journal.appendedEnd()})
		killed = kill(t, e)
	})
	for _, e := range []*Engine{e, killed} {
		wantItems(t, e, "q", "b")
		wantItems(t, e, target, "a")
	}
}

// TestMoveMeetsOthers has the queue emptied, deleted, told again, or taken out of the journal or
// into it, while an item is on its way out.
func TestMoveMeetsOthers(t *testing.T) {
	toggle := func(e *Engine, q *queue) {
		o := *q.opts
		o.KeepJournal = !o.KeepJournal
		e.setOptions(q, &o)
	}
	for _, tt := range []struct {
		name       string
		journaled  bool
		change     func(*Engine, *queue) // with the queue's lock held
		live, left string                // in the queue then, and after a kill
	}{
		{"nothing", true, func(*Engine, *queue) {}, "b", "b"},
		{"told again", true, func(e *Engine, q *queue) {
			e.keepOldReads(q, &letGo{target: math.MaxUint64, left: 1 << 20}, &readCursor{})
		}, "b", "b"},
		{"delete", true, func(e *Engine, q *queue) { e.delete(q) }, "", ""},
		{"flush", true, func(e *Engine, q *queue) { e.clear(q) }, "", ""},
		{"out of the journal", true, toggle, "b", ""},
		{"into the journal", false, toggle, "b", "b"},
		{"out and in again", true, func(e *Engine, q *queue) {
			toggle(e, q)
			toggle(e, q)
		}, "b", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, target := moveBetween(t, tt.journaled, func(e *Engine) {
				sh := e.shardOf([]byte("q"))
				sh.mu.Lock()
				defer sh.mu.Unlock()
				tt.change(e, sh.queues["q"])
			})
			mustPut(t, e, "commit", "x")
			wantItems(t, e, "q", tt.live)
			wantItems(t, e, target, "a")
			killed := kill(t, e)
			wantItems(t, killed, "q", tt.left)
			wantItems(t, killed, target, "a")
		})
	}
}

// TestMovingQueueDoesNotExpire: a queue with an item on its way out is not empty.
func TestMovingQueueDoesNotExpire(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.MaxQueueAge = 1 })
	mustPut(t, e, "q", "a")
	sh := e.shardOf([]byte("q"))
	sh.mu.Lock()
	it, _ := sh.queues["q"].first()
	e.moveOut(sh.queues["q"], it, "dead")
	moves := sh.takeMoves()
	sh.mu.Unlock()
	later := Now() + 1000
	e.expireQueues(later)
	if _, ok := e.QueueStats(later, []byte("q")); !ok {
		t.Error("the queue expired")
	}
	e.finishMoves(later, moves)
	e.expireQueues(later)
	if _, ok := e.QueueStats(later, []byte("q")); ok {
		t.Error("the queue did not expire")
	}
	wantItems(t, e, "dead", "a")
}
