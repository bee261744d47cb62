package aside

// heapWidth is how many children a place in a heap has. They lie side by side, and there are half as many levels as
// with two.
const heapWidth = 4

// heap has the slot with the lowest key on top. The keys are in it, so that looking for the lowest does
// not look at the slots. They are in two parts, so that 12 bytes need no padding.
type heap = rows[keyed]

type keyed struct{ low, high, slot uint32 }

func (k *keyed) key() uint64 { return uint64(k.high)<<32 | uint64(k.low) }

// push adds slot i to a heap.
func (s *Set) push(h *heap, key uint64, i uint32) {
	k := keyed{uint32(key), uint32(key >> 32), i}
	h.push(k)
	s.up(h, uint32(h.count-1), k)
}

// cut takes what is at a place out of a heap.
func (s *Set) cut(h *heap, place uint32) {
	last := h.pop()
	if int(place) == h.count {
		return
	}
	if place > 0 && last.key() < h.at((place-1)/heapWidth).key() {
		s.up(h, place, last)
		return
	}
	s.down(h, place, last)
}

// up puts k where it belongs on the way from a place to the top.
func (s *Set) up(h *heap, place uint32, k keyed) {
	key := k.key()
	for place > 0 {
		above := h.at((place - 1) / heapWidth)
		if key >= above.key() {
			break
		}
		s.set(h, place, *above)
		place = (place - 1) / heapWidth
	}
	s.set(h, place, k)
}

// down puts k where it belongs below a place.
func (s *Set) down(h *heap, place uint32, k keyed) {
	key, count := k.key(), uint32(h.count)
	for first := place*heapWidth + 1; first < count; first = place*heapWidth + 1 {
		at := first
		least := h.at(first).key()
		for c := first + 1; c < min(first+heapWidth, count); c++ {
			if other := h.at(c).key(); other < least {
				at, least = c, other
			}
		}
		if least >= key {
			break
		}
		s.set(h, place, *h.at(at))
		place = at
	}
	s.set(h, place, k)
}

// set puts k at a place, which its slot is to name.
func (s *Set) set(h *heap, place uint32, k keyed) {
	*h.at(place) = k
	s.slots.at(k.slot).setPlace(place)
}
