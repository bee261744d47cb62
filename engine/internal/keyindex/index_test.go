package keyindex

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestIndex compares an index with a map.
func TestIndex(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		x := Index{Memory: new(atomic.Int64)}
		want := make(map[uint64]uint64)
		var hashes []uint64
		most := []int{3, 300, 20_000}[seed%3]
		for step := range 30_000 {
			grow := step/5000%2 == 0
			switch {
			case len(hashes) == 0 || len(hashes) < most && r.IntN(10) < 7 == grow:
				h := r.Uint64()
				x.Set(h, uint64(step))
				want[h] = uint64(step)
				hashes = append(hashes, h)
			case r.IntN(3) == 0:
				h := hashes[r.IntN(len(hashes))]
				x.Set(h, uint64(step))
				want[h] = uint64(step)
			default:
				i := r.IntN(len(hashes))
				h := hashes[i]
				if x.Delete(h, want[h]+1) {
					t.Fatalf("seed %d, step %d: deleted the entry of another item", seed, step)
				}
				if !x.Delete(h, want[h]) || x.Delete(h, want[h]) {
					t.Fatalf("seed %d, step %d: %x is not there, or is twice", seed, step, h)
				}
				delete(want, h)
				hashes[i] = hashes[len(hashes)-1]
				hashes = hashes[:len(hashes)-1]
			}
			if x.Len() != len(want) {
				t.Fatalf("seed %d, step %d: %d entries, want %d", seed, step, x.Len(), len(want))
			}
			if len(hashes) > 0 {
				h := hashes[r.IntN(len(hashes))]
				if id, ok := x.Find(h); !ok || id != want[h] {
					t.Fatalf("seed %d, step %d: found %d, %v, want %d", seed, step, id, ok, want[h])
				}
			}
			if _, ok := x.Find(r.Uint64()); ok {
				t.Fatalf("seed %d, step %d: found what is not there", seed, step)
			}
		}
		held := 0
		for _, leaf := range x.leaves {
			held += cap(leaf)
		}
		if held != x.entries {
			t.Errorf("seed %d: memory for %d entries, counted %d", seed, held, x.entries)
		}
		if x.Clear(); x.Memory.Load() != 0 {
			t.Errorf("seed %d: %d bytes are in use", seed, x.Memory.Load())
		}
	}
}

// TestSweep sweeps an index in pieces, while entries are set and deleted. What is gone is not there any more, unless it
// was set meanwhile, and all others are.
func TestSweep(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := Index{Memory: new(atomic.Int64)}
		want := make(map[uint64]uint64)
		n := []int{0, 1, 100, 5000}[seed%4]
		for id := range uint64(n) {
			h := r.Uint64()
			x.Set(h, id)
			want[h] = id
		}
		every := 1 + r.Uint64N(5)
		gone := func(id uint64) bool { return id < uint64(n) && id%every == 0 }
		pieces, leaves := 0, len(x.leaves)
		for before := math.MaxInt; before > 0; pieces++ {
			if before = x.Sweep(before, 3, gone); r.IntN(4) == 0 {
				for h, id := range want {
					if !gone(id) && x.Delete(h, id) {
						delete(want, h)
					}
					break
				}
			}
		}
		for h, id := range want {
			if got, ok := x.Find(h); ok == gone(id) || ok && got != id {
				t.Fatalf("seed %d: entry %d is there = %t, as %d", seed, id, ok, got)
			}
			if gone(id) {
				delete(want, h)
			}
		}
		held := 0
		for _, leaf := range x.leaves {
			held += cap(leaf)
		}
		if x.Len() != len(want) || held != x.entries || pieces < leaves/6 {
			t.Errorf("seed %d: %d entries, want %d; memory for %d, counted %d; %d pieces of %d leaves",
				seed, x.Len(), len(want), held, x.entries, pieces, leaves)
		}
	}
}

// TestMemory holds the index to 22 bytes for a key, as counted and as measured.
func TestMemory(t *testing.T) {
	const keys, most = 1_000_000, 22
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := Index{Memory: new(atomic.Int64)}
	seed := NewSeed()
	var key [8]byte
	for i := range uint64(keys) {
		for b := range key {
			key[b] = byte(i >> (8 * b))
		}
		x.Set(seed.Hash(key[:]), i)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	counted, measured := float64(x.Memory.Load())/keys, float64(after.HeapAlloc-before.HeapAlloc)/keys
	t.Logf("%.1f bytes a key counted, %.1f measured", counted, measured)
	if counted > most || measured > most || measured > counted*1.05+0.5 {
		t.Errorf("%.1f bytes a key counted, %.1f measured, want %d at most", counted, measured, most)
	}
	runtime.KeepAlive(&x)
}

func BenchmarkSet(b *testing.B) {
	x := Index{Memory: new(atomic.Int64)}
	r := rand.New(rand.NewPCG(1, 0))
	for i := 0; b.Loop(); i++ {
		x.Set(r.Uint64(), uint64(i))
	}
}
