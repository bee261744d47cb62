package aside

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// Verify returns an error that names the first of the invariants A1 to A4 that does not hold.
func (s *Set) Verify() error {
	var tallies [states]item.Tally
	tokens := 0
	for i := range uint32(s.slots.count) {
		sl := s.slots.at(i)
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
		if got := s.images.slot(sl.at); got != i {
			return fmt.Errorf("A3: the image of item %d in slot %d names slot %d", sl.id, i, got)
		}
		it, _ := s.load(sl)
		tallies[sl.stateOf()].Account(&it, 1)
	}
	switch {
	case tokens != len(s.tokens):
		return fmt.Errorf("A1: %d items have tokens, %d are known", tokens, len(s.tokens))
	case s.due.count+s.ready.count != s.slots.count || s.buckets.count != s.slots.count:
		return fmt.Errorf("A2: %d items, %d due, %d ready, %d buckets",
			s.slots.count, s.due.count, s.ready.count, s.buckets.count)
	case tallies != s.tallies:
		return fmt.Errorf("A4: tallies are %+v, counted %+v", s.tallies, tallies)
	}
	if err := verifyHeap(&s.due); err != nil {
		return err
	}
	return verifyHeap(&s.ready)
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
