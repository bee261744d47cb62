package repair

import (
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
)

// Traces are what gaps have left in the ids of a queue. The replay keeps them with the queue; the zero Traces
// are those of a queue that is new to it.
type Traces struct {
	gaps    int                  // before the last put
	missing idset.Set            // ids that were put in gaps
	unsure  uint64               // ids up to here were put in a gap, or before the journal was cut
	saved   map[uint64]item.Item // items that are lost in runs
}

// Reach notes that a queue, whose next id was known to be nextID, has given out all ids below next. What it
// has given out on the way past a gap was put in the gap.
func (v *Salvage) Reach(t *Traces, nextID, next uint64) {
	switch {
	case v == nil || t.gaps == v.gaps || next <= nextID:
	case nextID > 1 || v.whole:
		t.missing = t.missing.Add(idset.Between(nextID, next-1))
	default:
		t.unsure = next - 1
	}
}

// Follow is Reach where next is what the queue gives out next: the gap is over.
func (v *Salvage) Follow(t *Traces, nextID, next uint64) {
	if v.Reach(t, nextID, next); v != nil {
		t.gaps = v.gaps
	}
}

// Rescue returns what is to be called with the items in the journal that a run is said to hold. It saves
// copies of those that the run has lost. It is nil if the run has lost none.
func (v *Salvage) Rescue(t *Traces, id segment.RunID) func(item.Item) {
	if v == nil || len(v.runs[id].lost) == 0 {
		return nil
	}
	lost := v.runs[id].lost
	return func(it item.Item) {
		if !lost.Has(it.ID) {
			return
		}
		if t.saved == nil {
			t.saved = make(map[uint64]item.Item)
		}
		it = it.Clone()
		t.saved[it.ID] = it
	}
}
