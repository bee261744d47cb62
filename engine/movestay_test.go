package engine

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestAwaitMovesThatStay waits for an item on its way to a dead-letter queue that cannot be made. The item is back in
// its queue, and nobody waits any longer.
func TestAwaitMovesThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newQuiet(t)
		name := strings.Repeat("q", 253) // that of its dead-letter queue would be too long
		mustPut(t, e, name, "a")
		mustPut(t, e, name, "b")
		ref, _ := mustOpen(t, e, name)
		sh := e.shardOf([]byte(name))
		sh.mu.Lock()
		q := sh.queues[name]
		e.giveBack(ref.r, Return{How: Reject})
		last := ReadRef{q.moving.Last(), q.moving.Last().id}
		sh.mu.Unlock()
		over := false
		go func() {
			e.awaitMoves(q, last)
			over = true
		}()
		synctest.Wait()
		if !over {
			t.Error("somebody still waits")
			sh.mu.Lock()
			last.r.id++ // or the test would not end
			sh.carried.Broadcast()
			sh.mu.Unlock()
		}
		wantItems(t, e, name, "a b")
	})
}
