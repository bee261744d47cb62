package aside

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// Verify returns an error that names the first of the invariants A1 to A5 that does not hold.
func (s *Set) Verify() error {
	var tallies [states]item.Tally
	tokens, dropped, inHeaps := 0, 0, 0
	for i := range uint32(s.slots.count) {
		sl := s.slots.at(i)
		if got := s.images.slot(sl.at); got != i {
			return fmt.Errorf("A3: the image of item %d in slot %d names slot %d", sl.id, i, got)
		}
		if s.isDropped(sl) {
			dropped++
			if sl.token != 0 {
				tokens++
			}
			continue
		}
		if r, ok := s.Find(sl.id); !ok || r != Ref(i) {
			return fmt.Errorf("A1: item %d is in slot %d, found is %d, %v", sl.id, i, r, ok)
		}
		if sl.token != 0 {
			tokens++
			if r, ok := s.FindToken(sl.token); !ok || r != Ref(i) {
				return fmt.Errorf("A1: item %d with its token is in slot %d, found is %d, %v", sl.id, i, r, ok)
			}
		}
		h := s.heap(sl.stateOf())
		if int(sl.place()) >= h.count || h.at(sl.place()).slot != i {
			return fmt.Errorf("A2: item %d is not at place %d of its heap", sl.id, sl.place())
		}
		if s.ordered && !s.ids[min(sl.stateOf(), Ready)].Has(sl.id) {
			return fmt.Errorf("A5: item %d is not among the ids of its heap", sl.id)
		}
		it, _ := s.load(sl)
		tallies[sl.stateOf()].Account(&it, 1)
	}
	for i := range s.heaps {
		if err := verifyHeap(&s.heaps[i]); err != nil {
			return err
		}
		inHeaps += s.heaps[i].count
		if s.ordered && s.ids[i].Len() != uint64(s.heaps[i].count) {
			return fmt.Errorf("A5: there are %d ids of %d items", s.ids[i].Len(), s.heaps[i].count)
		}
	}
	switch {
	case s.ordered && s.slots.count < fewItems/2 || !s.ordered && s.slots.count > fewItems:
		return fmt.Errorf("A5: of %d items there are ids: %t", s.slots.count, s.ordered)
	case tokens != len(s.tokens):
		return fmt.Errorf("A1: %d items have tokens, %d are known", tokens, len(s.tokens))
	case inHeaps+dropped != s.slots.count || s.buckets.count != s.slots.count || dropped != s.dropped:
		return fmt.Errorf("A2: %d items and %d of %d that were dropped, %d in heaps, %d buckets",
			s.slots.count-dropped, dropped, s.dropped, inHeaps, s.buckets.count)
	case tallies != s.tallies:
		return fmt.Errorf("A4: tallies are %+v, counted %+v", s.tallies, tallies)
	}
	return nil
}

// verifyHeap checks that no key is lower than the one above it.
func verifyHeap(h *heap) error {
	for i := uint32(1); int(i) < h.count; i++ {
		if key, above := h.at(i).key(), h.at((i-1)/heapWidth).key(); key < above {
			return fmt.Errorf("A2: key %d stands below key %d", key, above)
		}
	}
	return nil
}
