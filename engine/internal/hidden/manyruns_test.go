package hidden

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// manyRuns is a set with n runs of ten items each, from item 10 on.
func manyRuns(n int) *Set {
	s := &Set{Memory: new(atomic.Int64)}
	for i := range uint64(n) {
		var live idset.Bitmap
		live.AddRange(idset.Between(10*(i+1), 10*(i+1)+9))
		s.Add(Restored(runs.File{}, Written{Frames: make([]Frame, 1), End: 10}, 0, live, 100))
	}
	return s
}

// TestFindInManyRuns tests that who looks for an item, or for what is on disk from one on, does not look at all runs.
func TestFindInManyRuns(t *testing.T) {
	const n = 1000
	s := manyRuns(n)
	all := s.runs
	s.runs = make([]*Run, n) // who looks at one of them fails
	for id := uint64(10); id < 10*(n+1); id++ {
		if r := s.Find(id); r != all[id/10-1] || s.OnDisk(id) != r {
			t.Fatalf("item %d is found in another run", id)
		}
	}
	if s.Find(9) != nil || s.OnDisk(10*(n+1)) != nil {
		t.Error("an item is found that is in no run")
	}
	seen := 0
	s.EachFrom(5005, func(id uint64) bool {
		seen++
		return id < 5100
	})
	if seen != 96 {
		t.Errorf("from item 5005 up to 5100, %d are seen, want 96", seen)
	}
}

// TestSoonestOfManyRuns tests that who reads items back does not look at all runs for the next one, or for their size.
func TestSoonestOfManyRuns(t *testing.T) {
	const n = 1000
	s := manyRuns(n)
	all := s.runs
	s.runs = make([]*Run, n) // who looks at one of them fails
	for i, r := range all {
		r.Frames = []Frame{{First: item.Time(n - i)}, {First: 3 * n}}
		s.schedule(r)
	}
	for i := n; i > 0; i-- {
		r, due := s.Soonest()
		if r != all[i-1] || due != item.Time(n-i+1) || s.Size() != 10*n {
			t.Fatalf("the soonest run is due at %d, want %d; all have %d bytes", due, n-i+1, s.Size())
		}
		switch i % 3 {
		case 0:
			s.Pass(r, 0)
		case 1:
			s.Postpone(r, 0, 2*n)
		default:
			s.Fail(r, io.EOF)
		}
	}
	if s.Used() {
		t.Error("runs are used up, although something lives in each")
	}
}

// TestDropBesideDrop drops runs in pieces, and others between two pieces. The walk has passed more then than there are.
func TestDropBesideDrop(t *testing.T) {
	s := manyRuns(10)
	at := s.DropSome(0, 8, (*Run).IsUsed)
	s.DropIf(func(r *Run) bool { return !r.Contains(10) })
	if at = s.DropSome(at, 8, (*Run).IsUsed); at != 1 || len(s.Runs()) != 1 {
		t.Errorf("the walk goes on at %d of %d runs, want 1 of 1", at, len(s.Runs()))
	}
}
