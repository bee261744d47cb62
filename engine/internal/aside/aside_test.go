package aside

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// plain is what a Set should do, as a slice.
type plain []plainItem

type plainItem struct {
	item    item.Item
	segment uint64
	e       Entry
}

// first returns the lowest key of the items that are ready, or of those that are not.
func (p plain) first(ready bool, key func(plainItem) uint64) (lowest uint64, ok bool) {
	for _, i := range p {
		if ready == (i.e.State >= Ready) && (!ok || key(i) < lowest) {
			lowest, ok = key(i), true
		}
	}
	return lowest, ok
}

// drawEntry draws an entry whose token, if it has one, no other item has.
func drawEntry(t *rapid.T, id uint64) Entry {
	e := Entry{
		State: State(rapid.IntRange(0, states-1).Draw(t, "state")),
		Count: uint16(rapid.SampledFrom([]int{0, 1, 7, MaxCount}).Draw(t, "count")),
	}
	if e.State < Ready {
		e.Due = item.Time(rapid.Int64Range(0, 20).Draw(t, "due"))
	}
	if e.State != Delayed && rapid.Bool().Draw(t, "has a token") {
		e.Token = id<<8 | uint64(rapid.IntRange(1, 255).Draw(t, "token"))
	}
	return e
}

// TestSetModel does the same to a Set and to a slice, and compares everything that can be asked.
func TestSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var memory atomic.Int64
		s, p := Set{Memory: &memory}, plain(nil)
		next := uint64(0)
		add := func(t *rapid.T) {
			next += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
			size := rapid.SampledFrom([]int{0, 1, 30, 300, 5000, 20000}).Draw(t, "size")
			it := item.Item{ID: next, Flags: uint32(next % 3), Added: item.Time(next), Data: bytes.Repeat([]byte{byte(next)}, size)}
			segment, e := rapid.Uint64Range(0, 1<<48-1).Draw(t, "segment"), drawEntry(t, next)
			s.Add(&it, segment, e)
			p = append(p, plainItem{it, segment, e})
		}
		one := func(t *rapid.T) (int, Ref) {
			if len(p) == 0 {
				t.Skip("nothing there")
			}
			i := rapid.IntRange(0, len(p)-1).Draw(t, "item")
			r, ok := s.Find(p[i].item.ID)
			if !ok {
				t.Fatalf("item %d is not found", p[i].item.ID)
			}
			return i, r
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":      add,
			"add more": func(t *rapid.T) { add(t); add(t); add(t) },
			"change": func(t *rapid.T) {
				i, r := one(t)
				p[i].e = drawEntry(t, p[i].item.ID)
				s.Change(r, p[i].e)
			},
			"lie in": func(t *rapid.T) {
				i, r := one(t)
				p[i].segment = rapid.Uint64Range(0, 1<<48-1).Draw(t, "segment")
				s.LieIn(r, p[i].segment)
			},
			"remove": func(t *rapid.T) {
				i, r := one(t)
				s.Remove(r)
				p = slices.Delete(p, i, i+1)
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					s.Clear()
					p = nil
				}
			},
			"flush": func(*rapid.T) {
				for s.Tidy(2, func(Ref) {}) {
				}
				s.Flush(false)
				p = slices.DeleteFunc(p, func(i plainItem) bool { return i.e.State != Leased })
			},
			"delete": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					return
				}
				s.Flush(true)
				p = nil
				compare(t, &s, p)
				for s.Tidy(2, func(Ref) {}) {
				}
			},
			"tidy": func(t *rapid.T) {
				left, gone := s.Dropped(), 0
				more := s.Tidy(rapid.IntRange(1, 3).Draw(t, "looks"), func(r Ref) {
					if gone++; !s.IsDropped(r) {
						t.Fatalf("item %d goes, and was not dropped", s.ID(r))
					}
				})
				if s.Dropped() != left-gone || more != (s.Dropped() > 0) {
					t.Fatalf("%d of %d were dropped, %d went, more = %t", s.Dropped(), left, gone, more)
				}
			},
			"": func(t *rapid.T) { compare(t, &s, p) },
		})
		for s.Len() > 0 {
			s.Remove(Ref(s.Len() / 2))
		}
		if n := memory.Load(); n > 2048 {
			t.Fatalf("an empty set takes %d bytes", n)
		}
		if s.Clear(); memory.Load() != 0 {
			t.Fatalf("a cleared set takes %d bytes", memory.Load())
		}
	})
}

func compare(t *rapid.T, s *Set, p plain) {
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	if s.Len()-s.Dropped() != len(p) {
		t.Fatalf("%d items and %d dropped, want %d", s.Len(), s.Dropped(), len(p))
	}
	var tallies [states]item.Tally
	for _, want := range p {
		tallies[want.e.State].Account(&want.item, 1)
		r, ok := s.Find(want.item.ID)
		if !ok {
			t.Fatalf("item %d is not found", want.item.ID)
		}
		if got := s.Get(r); got != want.e || s.ID(r) != want.item.ID || s.Segment(r) != want.segment {
			t.Fatalf("item %d is %+v in segment %d, want %+v in %d",
				want.item.ID, got, s.Segment(r), want.e, want.segment)
		}
		got := s.Item(r)
		if !bytes.Equal(got.Data, want.item.Data) || got.ID != want.item.ID || got.Added != want.item.Added ||
			got.Flags != want.item.Flags || got.Expiry != want.item.Expiry {
			t.Fatalf("item is %.99v, want %.99v", got, want.item)
		}
		if token := want.e.Token; token != 0 {
			if got, ok := s.FindToken(token); !ok || got != r {
				t.Fatalf("the token of item %d finds %d, %v, want %d", want.item.ID, got, ok, r)
			}
		}
	}
	for state, want := range tallies {
		if got := s.Tally(State(state)); got != want {
			t.Fatalf("tally of state %d is %+v, want %+v", state, got, want)
		}
	}
	if _, ok := s.Find(1 << 60); ok {
		t.Fatal("found an item that was never added")
	}
	if _, ok := s.FindToken(1 << 60); ok {
		t.Fatal("found a token that was never given")
	}
	r, due, ok := s.FirstDue()
	key, want := p.first(false, func(i plainItem) uint64 { return uint64(i.e.Due) })
	if ok != want || ok && (uint64(due) != key || s.Get(r).Due != due) {
		t.Fatalf("due next is slot %d at %d, %v, want %d, %v", r, due, ok, key, want)
	}
	r, ok = s.FirstReady()
	key, want = p.first(true, func(i plainItem) uint64 { return i.item.ID })
	if ok != want || ok && s.ID(r) != key {
		t.Fatalf("ready next is slot %d, %v, want item %d, %v", r, ok, key, want)
	}
}

func TestSlotSize(t *testing.T) {
	if got := unsafe.Sizeof(slot{}); got != 32 {
		t.Errorf("a slot takes %d bytes, want 32", got)
	}
}

// TestMemory holds a large set to 64 bytes for each item beside its image. It then removes most items in a random
// order, and holds the set to what the others take.
func TestMemory(t *testing.T) {
	const items, body = 200_000, 100
	var memory atomic.Int64
	s := Set{Memory: &memory}
	data := make([]byte, body)
	image := item.ImageSize(&item.Item{Data: data})
	random := rand.New(rand.NewPCG(1, 2))
	for id := range uint64(items) {
		s.Add(&item.Item{ID: id, Data: data}, 1, Entry{Due: item.Time(random.IntN(1 << 40))})
	}
	if each := float64(memory.Load())/items - float64(image); each > 64 {
		t.Errorf("an item takes %.1f bytes beside its image, want 64 at most", each)
	} else {
		t.Logf("an item takes %.1f bytes beside its image", each)
	}
	for s.Len() > items/100 {
		s.Remove(Ref(random.IntN(s.Len())))
	}
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	if each := float64(memory.Load()) / float64(s.Len()); each > 3*float64(image)+64 {
		t.Errorf("an item of those left takes %.1f bytes", each)
	}
}

// TestWarm has several sets share a Warm. Of the sets that are empty, only the last to become so keeps its memory,
// unless it is large. It then fills up again without allocation, and nobody counts its memory meanwhile.
func TestWarm(t *testing.T) {
	var memory atomic.Int64
	var warm Warm
	first, second := Set{Memory: &memory, Warm: &warm}, Set{Memory: &memory, Warm: &warm}
	data := make([]byte, 100)
	fill := func(s *Set, n int) {
		for id := range uint64(n) {
			s.Add(&item.Item{ID: id + 1, Data: data}, 1, Entry{State: Leased, Due: item.Time(id), Token: id + 1})
		}
	}
	use := func(s *Set, n int) {
		fill(s, n)
		for s.Len() > 0 {
			s.Remove(Ref(s.Len() / 2))
		}
	}
	check := func(want *Set, what string) {
		t.Helper()
		for _, s := range []*Set{&first, &second} {
			if held := s.memory(); (held > fewBytes) != (s == want) || held > maxWarm {
				t.Errorf("%s: the first: %t, it holds %d bytes", what, s == &first, held)
			}
		}
		if n := memory.Load(); n > fewBytes {
			t.Errorf("%s: %d bytes count", what, n)
		}
	}
	use(&first, 32)
	check(&first, "the first was used")
	for _, n := range []int{1, 32} {
		if each := testing.AllocsPerRun(100, func() { use(&first, n) }); each > 0 {
			t.Errorf("%.1f allocations for %d items of a warm set", each, n)
		}
	}
	use(&second, 32)
	check(&second, "the second was used")
	use(&first, 10_000)
	check(&second, "the first was used for many items")
	fill(&second, 32)
	use(&first, 32)
	if err := second.Verify(); err != nil || second.Len() != 32 {
		t.Errorf("a set in use while another becomes warm has %d items: %v", second.Len(), err)
	}
	second.Clear()
	check(&first, "the second was cleared")
}

func BenchmarkAddPop(b *testing.B) {
	for _, waiting := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			var memory atomic.Int64
			s := Set{Memory: &memory}
			data := make([]byte, 100)
			random := rand.New(rand.NewPCG(1, 2))
			id, now := uint64(0), item.Time(0)
			add := func() {
				id++
				s.Add(&item.Item{ID: id, Data: data}, 1, Entry{Due: now + item.Time(random.IntN(1<<30))})
			}
			for range waiting {
				add()
			}
			b.ReportMetric(float64(memory.Load())/float64(waiting), "bytes/item")
			b.ReportAllocs()
			for b.Loop() {
				r, due, _ := s.FirstDue()
				now = due
				s.Remove(r)
				add()
			}
		})
	}
}

func BenchmarkLease(b *testing.B) {
	var memory atomic.Int64
	s := Set{Memory: &memory, Warm: new(Warm)}
	data := make([]byte, 100)
	b.ReportAllocs()
	for id := uint64(1); b.Loop(); id++ {
		s.Add(&item.Item{ID: id, Data: data}, 1, Entry{State: Leased, Due: item.Time(id), Token: id})
		if id > 1000 {
			r, _ := s.FindToken(id - 1000)
			s.Remove(r)
		}
	}
}

// TestEachFrom goes through the ids of a set of a few items and of many, in each state. Meanwhile the items come,
// change, go and are flushed.
func TestEachFrom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var memory atomic.Int64
	s := Set{Memory: &memory}
	all := make(map[uint64]State)
	entry := func() Entry { return Entry{State: State(rng.IntN(states)), Due: item.Time(rng.Int64N(100))} }
	check := func() {
		t.Helper()
		if err := s.Verify(); err != nil {
			t.Fatal(err)
		}
		from, most := rng.Uint64N(1<<17), rng.IntN(100)
		for _, state := range [...]State{Delayed, Leased, Ready} {
			var want, got []uint64
			for id, is := range all {
				if id >= from && min(is, Ready) == state {
					want = append(want, id)
				}
			}
			slices.Sort(want)
			s.EachFrom(state, from, func(id uint64) bool { got = append(got, id); return len(got) < most })
			if !s.ordered {
				slices.Sort(got)
			} else {
				want = want[:min(len(want), max(most, 1))]
			}
			if !slices.Equal(got, want) {
				t.Fatalf("in state %d there are %v from %d on, want %v", state, got, from, want)
			}
		}
	}
	for round, most := range []int{fewItems, 3000, fewItems / 2, 500, 0} {
		for len(all) < most {
			if id := 1 + rng.Uint64N(1<<17); all[id] == 0 {
				e := entry()
				if _, twice := s.Find(id); twice {
					continue
				}
				s.Add(&item.Item{ID: id, Data: []byte("x")}, 0, e)
				all[id] = e.State
			}
		}
		check()
		for id := range all {
			switch r, _ := s.Find(id); rng.IntN(3) {
			case 0:
				e := entry()
				s.Change(r, e)
				all[id] = e.State
			case 1:
				if len(all) > most/2 {
					s.Remove(r)
					delete(all, id)
				}
			}
		}
		check()
		if round%2 == 1 {
			s.Flush(false)
			maps.DeleteFunc(all, func(_ uint64, state State) bool { return state != Leased })
			check()
			for s.Tidy(100, func(Ref) {}) {
				check()
			}
		}
		for id := range all {
			if len(all) > most/4 {
				r, _ := s.Find(id)
				s.Remove(r)
				delete(all, id)
			}
		}
		check()
	}
	if memory.Load() > fewBytes {
		t.Errorf("an empty set takes %d bytes", memory.Load())
	}
}

// TestLargeStays tests that a set keeps the memory of a large item without copying it, whatever becomes of that item
// and of others. It counts that memory for as long.
func TestLargeStays(t *testing.T) {
	var memory atomic.Int64
	s := Set{Memory: &memory}
	small := func(id uint64) { s.Add(&item.Item{ID: id, Data: []byte("small")}, 1, Entry{State: Ready}) }
	large := item.Item{ID: 3, Data: bytes.Repeat([]byte("large"), item.MaxChunkSize/4), Flags: 7, Added: 8, Expiry: 9}
	small(1)
	small(2)
	before := memory.Load()
	ref := s.Add(&large, 5, Entry{State: Leased, Due: 10, Token: 11, Count: 12})
	small(4)
	check := func(when string) {
		t.Helper()
		got := s.Item(ref)
		if &got.Data[0] != &large.Data[0] || got.ID != 3 || got.Flags != 7 || got.Added != 8 || got.Expiry != 9 || s.Segment(ref) != 5 {
			t.Errorf("%s: the item is another one, or a copy: %d, flags %d, segment %d", when, got.ID, got.Flags, s.Segment(ref))
		}
		if n := memory.Load() - before; n < int64(len(large.Data)) || n > int64(len(large.Data))+4096 {
			t.Errorf("%s: %d bytes are counted for an item of %d", when, n, len(large.Data))
		}
		if err := s.Verify(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	check("added")
	s.Change(ref, Entry{State: Delayed, Due: 20, Count: 13})
	check("changed")
	first, _ := s.Find(1)
	s.Remove(first) // another item comes to its place
	ref, _ = s.Find(3)
	check("others removed")
	if n := s.Remove(ref); n != len(large.Data) || memory.Load() > before+4096 {
		t.Errorf("%d bytes are removed, and %d counted", n, memory.Load()-before)
	}
	for _, id := range []uint64{2, 4} {
		r, _ := s.Find(id)
		s.Remove(r)
	}
	if s.Clear(); memory.Load() != 0 {
		t.Errorf("%d bytes are counted for nothing", memory.Load())
	}
}
