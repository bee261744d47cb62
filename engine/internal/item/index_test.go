package item

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFindEqualsScan puts, cuts, pops, splits and joins, and finds items in between. What a find returns must be what a
// walk through all chunks finds. Chunks are so large, and items so small, that most finds go by an index.
//
// Its control is an index that stays when the memory of its chunk is used again: a Give that keeps it.
func TestFindEqualsScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPool()
		var w Window
		next := uint64(1)
		scan := func() (all []Item) {
			w.Each(func(it Item) bool { all = append(all, it); return true })
			return all
		}
		look := func() {
			all := scan()
			for range rapid.IntRange(1, 20).Draw(rt, "finds") {
				id := rapid.Uint64Range(0, next+2).Draw(rt, "id")
				i, there := slices.BinarySearchFunc(all, id, func(it Item, id uint64) int { return int(it.ID) - int(id) })
				if it, ok := w.Find(p, id); ok != there || ok && (it.ID != id || string(it.Data) != string(all[i].Data)) {
					rt.Fatalf("find of %d: %+v, %v; want that it is there = %v", id, it, ok, there)
				}
				var from []uint64
				w.From(p, id, func(it Item) bool { from = append(from, it.ID); return len(from) < 3 })
				for k, got := range from {
					if got != all[i+k].ID {
						rt.Fatalf("from %d: items %d, want %d at place %d", id, from, all[i+k].ID, k)
					}
				}
				if len(from) < min(3, len(all)-i) {
					rt.Fatalf("from %d: %d items, and %d are there", id, len(from), len(all)-i)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1:
				size := rapid.SampledFrom([]int{1, 1, 9, 70, 300}).Draw(rt, "size")
				for range rapid.IntRange(1, 3000).Draw(rt, "puts") {
					data := make([]byte, size)
					data[0] = byte(next)
					w.Push(p, &Item{ID: next, Added: 1, Data: data}, 8<<20)
					next++
				}
				next += rapid.SampledFrom([]uint64{0, 0, 1, 40, 5000, 1 << 33}).Draw(rt, "left out")
			case 2:
				all := scan()
				for range rapid.IntRange(1, 200).Draw(rt, "cuts") {
					if len(all) == 0 {
						break
					}
					i := rapid.IntRange(0, len(all)-1).Draw(rt, "cut")
					if it, ok := w.Cut(p, all[i].ID); !ok || it.ID != all[i].ID {
						rt.Fatalf("cut of %d: %+v, %v", all[i].ID, it, ok)
					}
					all = slices.Delete(all, i, i+1)
				}
			case 3:
				for n := rapid.IntRange(1, 4000).Draw(rt, "pops"); n > 0 && w.Count > 0; n-- {
					var it Item
					w.First(&it)
					w.Pop(p, &it)
				}
			case 4:
				if w.Count == 0 {
					break
				}
				v := w.Split(rapid.Uint64Range(w.FirstID, next).Draw(rt, "split"))
				if v.Count > 0 {
					c := v.Detach()
					id := rapid.Uint64Range(c.FirstID, c.LastID).Draw(rt, "in the chunk")
					want := false
					EachImage(c.Buf[c.Off:], c.FirstID, func(it Item) bool { want = want || it.ID == id; return true })
					if it, ok := c.Find(p, id); ok != want || ok && it.ID != id {
						rt.Fatalf("find of %d in a chunk: %+v, %v, want that it is there = %v", id, it, ok, want)
					}
					if c.Count == 0 {
						p.Give(c)
					} else {
						w.Attach(c)
					}
				}
				w.Join(&v)
			default:
				look()
			}
		}
		look()
		if err := w.Verify(); err != nil {
			rt.Fatal(err)
		}
		w.Clear(p)
		if n := p.Memory.Load(); n != 0 {
			rt.Fatalf("%d bytes are in use", n)
		}
	})
}

// TestFindWalk counts how far a find walks in a chunk that has an index.
func TestFindWalk(t *testing.T) {
	p := newPool()
	var w Window
	const n = 20_000
	for id := range uint64(n) {
		w.Push(p, &Item{ID: 1 + id, Added: 1, Data: make([]byte, 64)}, 64<<20)
	}
	for id := uint64(1); id <= n; id++ {
		if _, ok := w.Find(p, id); !ok {
			t.Fatalf("item %d is not there", id)
		}
		for c := w.head; c != nil; c = c.next {
			off, first := w.startOf(c)
			if id < first || id > w.endOf(c) || cap(c.Buf) <= indexFrom {
				continue
			}
			at, next := c.seek(p, off, first, id)
			if next > id || (id-next)*(PlainImageSize+64) > indexEvery+PlainImageSize+64 && id-first >= indexPast {
				t.Fatalf("the walk to item %d begins with item %d at %d", id, next, at)
			}
		}
	}
}

// BenchmarkFind finds items of 64 bytes in a window, by their ids, here and there.
func BenchmarkFind(b *testing.B) {
	p := newPool()
	var w Window
	const n = 100_000
	for id := range uint64(n) {
		w.Push(p, &Item{ID: 1 + id, Added: 1, Data: make([]byte, 64)}, 64<<20)
	}
	b.ReportAllocs()
	for id := uint64(0); b.Loop(); id = (id + 61_803) % n {
		if _, ok := w.Find(p, 1+id); !ok {
			b.Fatal("it is not there")
		}
	}
}
