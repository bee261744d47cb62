package hidden

import (
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
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
	s.runs = all
	if r, _ := s.Soonest(); r == nil {
		t.Error("nothing is due")
	}
	s.DropIf(func(*Run) bool { return false })
	if s.stale {
		t.Error("the soonest run is looked for again, although none has gone")
	}
}
