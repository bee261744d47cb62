package list

import (
	"math/rand/v2"
	"testing"
)

// TestHeap adds, changes and takes out values in a random order. One with the lowest key is always the first.
func TestHeap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var h Heap[value]
	var places [100]int
	values, keys := make([]value, len(places)), make(map[int]int64)
	for range 10_000 {
		i := rng.IntN(len(places))
		if rng.IntN(3) == 0 {
			h.Remove(&places[i])
			delete(keys, i)
		} else {
			values[i].n, keys[i] = i, rng.Int64N(50)
			h.Set(&values[i], keys[i], &places[i])
		}
		lowest := int64(50)
		for at := range places {
			if key, there := keys[at]; there {
				lowest = min(lowest, key)
				if e := h.entries[places[at]-1]; e.key != key || e.value != &values[at] {
					t.Fatalf("value %d with key %d is not at its place %d", at, key, places[at])
				}
			} else if places[at] != 0 {
				t.Fatalf("value %d is at place %d, and was taken out", at, places[at])
			}
		}
		first, key := h.First()
		if h.Len() != len(keys) || (first == nil) != (len(keys) == 0) || first != nil && (key != lowest || keys[first.n] != key) {
			t.Fatalf("of %d values the first of %d has key %d, want %d", len(keys), h.Len(), key, lowest)
		}
	}
	for h.Len() > 0 {
		first, _ := h.First()
		h.Remove(&places[first.n])
	}
}
