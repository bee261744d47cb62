package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRejectWaitsForMoves rejects an item of a queue for which another goroutine carries. The reject is over when
// the item has arrived in the dead-letter queue, and a kill does not undo it.
func TestRejectWaitsForMoves(t *testing.T) {
	name, how := []byte("q"), Return{How: Reject}
	for _, tt := range []struct {
		name   string
		access Access
		reject func(e *Engine, r ReadRef, receipt uint64) (Ticket, error)
	}{
		{"open read", OpenRead, func(e *Engine, r ReadRef, _ uint64) (Ticket, error) {
			ticket, _, err := e.Return(Now(), []ReadRef{r}, how)
			return ticket, err
		}},
		{"lease", Lease, func(e *Engine, _ ReadRef, receipt uint64) (Ticket, error) {
			return e.ReturnLease(Now(), name, receipt, how)
		}},
		{"leases", Lease, func(e *Engine, _ ReadRef, receipt uint64) (Ticket, error) {
			ticket, _, err := e.ReturnLeases(Now(), name, []uint64{receipt}, how)
			return ticket, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := newQuiet(t)
				mustPut(t, e, "q", "a")
				mustPut(t, e, "q", "b")
				var got copied
				f := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: new(Delivery)}
				if _, err := e.Fetch(Now(), name, f, &got); err != nil {
					t.Fatal(err)
				}
				// Another goroutine rejects "a" and has not gone on yet.
				q := e.shardOf(name).queues["q"]
				q.shard.mu.Lock()
				r, _ := q.findLease(f.Delivery.Receipt, false)
				e.returnLeased(q, r, how)
				moves := q.shard.takeMoves()
				q.shard.mu.Unlock()

				f.Access = tt.access
				fetched, err := e.Fetch(Now(), name, f, &got)
				if err != nil {
					t.Fatal(err)
				}
				waitsForMoves(t, e, moves, func() {
					ticket, err := tt.reject(e, fetched.Read, f.Delivery.Receipt)
					if err != nil {
						t.Error(err)
					}
					mustCommit(t, e, ticket)
				})
				killed := kill(t, e)
				wantItems(t, killed, "q", "")
				wantItems(t, killed, "q_dead", "a b")
			})
		})
	}
}

// TestReloadWaitsForMoves has a queue enter the journal, or a new one, while another goroutine carries an item of it.
// Only the move brings that item into the journal. The reload, or the new journal, is there when it has arrived.
func TestReloadWaitsForMoves(t *testing.T) {
	for name, enter := range map[string]func(*testing.T, *Engine){
		"reload":  func(t *testing.T, e *Engine) { keepJournal(t, e, "q", true) },
		"journal": func(t *testing.T, e *Engine) { e.retryJournal() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, fsys := newQuiet(t)
				mustPut(t, e, "q", "a")
				mustPut(t, e, "q", "b")
				if name == "reload" {
					keepJournal(t, e, "q", false)
				} else {
					failSync(t, e, fsys, "other", "x")
				}
				ref, _ := mustOpen(t, e, "q")
				q := e.shardOf([]byte("q")).queues["q"]
				q.shard.mu.Lock()
				e.giveBack(ref.r, Return{How: Reject})
				moves := q.shard.takeMoves()
				q.shard.mu.Unlock()
				waitsForMoves(t, e, moves, func() { enter(t, e) })
				if e.journal.Failing() {
					t.Fatal("the journal fails")
				}
				killed := kill(t, e)
				wantItems(t, killed, "q", "b")
				wantItems(t, killed, "q_dead", "a")
			})
		})
	}
}

// waitsForMoves calls f on a goroutine, and tests that f is over when the queues called moves have been carried for, and
// not before. The test is in a bubble of synctest.
func waitsForMoves(t *testing.T, e *Engine, moves []*queue, f func()) {
	t.Helper()
	over := false
	go func() {
		f()
		over = true
	}()
	synctest.Wait()
	if over {
		t.Error("it is over, but the item has not arrived")
	}
	e.finishMoves(Now(), moves)
	synctest.Wait()
	if !over {
		t.Fatal("it is not over")
	}
}
