package list

// Heap has values by their keys, one with the lowest first. Its user keeps the place of each value, which is zero as long
// as the value is not there. The zero Heap is empty.
type Heap[T any] struct{ entries []heapEntry[T] }

type heapEntry[T any] struct {
	key   int64
	value *T
	place *int // its place in the heap, plus one
}

// Len returns how many values there are.
func (h *Heap[T]) Len() int { return len(h.entries) }

// First returns a value with the lowest key, and that; nil if there is none.
func (h *Heap[T]) First() (value *T, key int64) {
	if len(h.entries) == 0 {
		return nil, 0
	}
	return h.entries[0].value, h.entries[0].key
}

// Set has a value there with a key, and with no other.
func (h *Heap[T]) Set(value *T, key int64, place *int) {
	if *place == 0 {
		h.entries = append(h.entries, heapEntry[T]{})
		*place = len(h.entries)
	}
	h.settle(*place-1, heapEntry[T]{key, value, place})
}

// Remove takes out the value that has a place, if it is there.
func (h *Heap[T]) Remove(place *int) {
	at := *place - 1
	if at < 0 {
		return
	}
	*place = 0
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = heapEntry[T]{}
	if h.entries = h.entries[:last]; at < last {
		h.settle(at, e)
	}
}

// settle puts e at a place that is free, or further up or down.
func (h *Heap[T]) settle(at int, e heapEntry[T]) {
	for at > 0 && e.key < h.entries[(at-1)/2].key {
		at = h.put(at, (at-1)/2)
	}
	for {
		below := 2*at + 1
		if below+1 < len(h.entries) && h.entries[below+1].key < h.entries[below].key {
			below++
		}
		if below >= len(h.entries) || e.key <= h.entries[below].key {
			break
		}
		at = h.put(at, below)
	}
	h.entries[at], *e.place = e, at+1
}

// put moves what is at from to a place, and returns from, which is free then.
func (h *Heap[T]) put(at, from int) int {
	h.entries[at] = h.entries[from]
	*h.entries[at].place = at + 1
	return from
}

// RemoveFirst takes out the value that First returns, of which there must be one.
func (h *Heap[T]) RemoveFirst() { h.Remove(h.entries[0].place) }
