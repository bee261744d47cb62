package list

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrdered does what a map does, in several orders, and compares. Ordered takes memory for a few times what it has.
func TestOrdered(t *testing.T) {
	orders := map[string]func(rng *rand.Rand, round, i int) uint64{
		"ascending":  func(_ *rand.Rand, round, i int) uint64 { return uint64(5000*round + i) },
		"descending": func(_ *rand.Rand, round, i int) uint64 { return uint64(1<<20 - 5000*round - i) },
		"any":        func(rng *rand.Rand, _, _ int) uint64 { return rng.Uint64N(1 << 16) },
		"evens":      func(_ *rand.Rand, round, i int) uint64 { return uint64(2 * i * (1 + round%2)) },
	}
	for name, next := range orders {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			var o Ordered[value]
			all := make(map[uint64]*value)
			var memory int64
			check := func() {
				t.Helper()
				sorted := slices.Sorted(maps.Keys(all))
				from, got := rng.Uint64N(1<<16), []*value(nil)
				o.EachFrom(from, func(v *value) bool { got = append(got, v); return true })
				at, _ := slices.BinarySearch(sorted, from)
				var want []*value
				for _, id := range sorted[at:] {
					want = append(want, all[id])
				}
				if !slices.Equal(got, want) || o.Len() != len(all) || o.Find(1<<30) != nil {
					t.Fatalf("%d values come of %d from %d on, want %d of %d", len(got), o.Len(), from, len(want), len(all))
				}
				if most := int64(len(all))*65 + 2<<11; o.Memory() > most || o.Memory() != memory {
					t.Fatalf("%d values take %d bytes, counted %d, want %d at most", len(all), o.Memory(), memory, most)
				}
			}
			for round := range 4 {
				for i := range 1000 {
					if id := next(rng, round, i); all[id] == nil {
						all[id] = &value{n: i}
						memory += o.Add(id, all[id])
					}
				}
				check()
				ids := slices.Sorted(maps.Keys(all))
				if round%2 == 0 {
					rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				}
				for i, id := range ids {
					if i%7 < 6 || round == 3 {
						if o.Find(id) != all[id] {
							t.Fatalf("id %d finds another value", id)
						}
						memory += o.Remove(id)
						if delete(all, id); o.Find(id) != nil {
							t.Fatalf("id %d is found, and gone", id)
						}
					}
					if i%100 == 0 {
						check()
					}
				}
				check()
			}
		})
	}
}
