package item

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCut removes items of a window in any order, puts others, splits and joins it, and compares with a list.
func TestCut(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPool()
		var w Window
		var want []Item
		next := uint64(1)
		check := func(op string) {
			t.Helper()
			if err := w.Verify(); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, op, err)
			}
			from := next
			if len(want) > 0 {
				from = want[r.IntN(len(want))].ID
			}
			var got []Item
			w.From(p, from, func(it Item) bool { got = append(got, it); return true })
			i := slices.IndexFunc(want, func(it Item) bool { return it.ID >= from })
			rest := want[max(i, 0):]
			if len(got) != len(rest) || w.Count != int64(len(want)) {
				t.Fatalf("seed %d, %s: %d items from %d on, %d in all, want %d, %d", seed, op, len(got), from, w.Count, len(rest), len(want))
			}
			for i, it := range got {
				if it.ID != rest[i].ID || string(it.Stored()) != string(rest[i].Stored()) || it.Expiry != rest[i].Expiry {
					t.Fatalf("seed %d, %s: item %d is %+v, want %+v", seed, op, i, it, rest[i])
				}
				if found, ok := w.Find(p, it.ID); !ok || string(found.Key()) != string(it.Key()) {
					t.Fatalf("seed %d, %s: found %+v, %v", seed, op, found, ok)
				}
			}
			if len(want) > 0 {
				var first Item
				if w.First(&first); first.ID != want[0].ID {
					t.Fatalf("seed %d, %s: first is %d, want %d", seed, op, first.ID, want[0].ID)
				}
			}
		}
		for range 200 {
			switch n := r.IntN(10); {
			case n < 4:
				it := Item{ID: next, Added: 1}
				stored := fmt.Appendf(nil, "%d%*s", next, r.IntN(200), "")
				if r.IntN(2) == 0 {
					key := "123456789"[:1+r.IntN(9)]
					it.behind = behindOf(len(key), 0, 0)
					stored = append(stored, key...)
				}
				if r.IntN(3) == 0 {
					it.Expiry = Time(r.IntN(100))
				}
				it = it.WithStored(stored)
				w.Push(p, &it, 1<<20)
				want = append(want, it)
				if next++; r.IntN(5) == 0 {
					next += 1 + r.Uint64N(1000)
				}
				check("push")
			case n < 8 && len(want) > 0:
				i := r.IntN(len(want))
				if it, ok := w.Cut(p, want[i].ID); !ok || it.ID != want[i].ID {
					t.Fatalf("seed %d: cut %+v, %v", seed, it, ok)
				}
				if _, ok := w.Cut(p, want[i].ID); ok {
					t.Fatalf("seed %d: cut twice", seed)
				}
				want = slices.Delete(want, i, i+1)
				check("cut")
			case n == 8 && len(want) > 0:
				var first Item
				w.First(&first)
				w.Pop(p, &first)
				want = want[1:]
				check("pop")
			case n == 9 && len(want) > 0:
				v := w.Split(want[r.IntN(len(want))].ID)
				if v.Count > 0 && w.Count > 0 {
					for range r.IntN(2) {
						if c := v.Detach(); c.Count > 0 {
							w.Attach(c)
						}
						if v.Count == 0 {
							break
						}
					}
				}
				w.Seal()
				w.Join(&v)
				check("split and join")
			}
		}
		w.Clear(p)
		if n := p.Memory.Load(); n != 0 {
			t.Fatalf("seed %d: %d bytes are in use", seed, n)
		}
	}
}

// TestCompact writes a chunk with holes as a run would have it.
func TestCompact(t *testing.T) {
	p := newPool()
	var w Window
	for id := range uint64(9) {
		w.Push(p, &Item{ID: 1 + id, Data: []byte{'a' + byte(id)}}, 1<<20)
	}
	for _, id := range []uint64{9, 1, 4, 5, 2} {
		w.Cut(p, id)
	}
	c := w.Detach()
	if it, ok := c.Find(p, 6); !ok || string(it.Data) != "f" {
		t.Errorf("found %+v, %v", it, ok)
	}
	if _, ok := c.Find(p, 5); ok {
		t.Error("found what was cut")
	}
	c.Trim()
	images := c.Compact(nil)
	var ids []uint64
	EachImage(images, c.FirstID, func(it Item) bool { ids = append(ids, it.ID); return true })
	if !slices.Equal(ids, []uint64{3, 6, 7, 8}) || c.LastID != 8 || c.Count != 4 || images[0] >= GapFormat {
		t.Errorf("items %v up to %d, counted %d", ids, c.LastID, c.Count)
	}
}
