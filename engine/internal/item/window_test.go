package item

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
)

func newPool() *Pool {
	limit := int64(1 << 30)
	return &Pool{Memory: new(atomic.Int64), Arena: NewArena(limit), Free: NewFreeLists(1, limit)[0]}
}

// walk returns the ids and sizes of a window's items: as each tells them, and as they are popped.
func walk(w *Window, p *Pool) (each, popped string) {
	var a, b strings.Builder
	w.Each(func(it Item) bool {
		fmt.Fprintf(&a, "%d:%d ", it.ID, len(it.Data))
		return true
	})
	for w.Count > 0 {
		var it Item
		w.First(&it)
		fmt.Fprintf(&b, "%d:%d ", it.ID, len(it.Data))
		w.Pop(p, &it)
	}
	return a.String(), b.String()
}

// TestWindowGaps pushes items whose ids have gaps of all sizes, inside chunks and where a chunk
// ends.
func TestWindowGaps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, maxSize := range []int{0, 20, 300, 5000} {
		var w Window
		var want strings.Builder
		p := newPool()
		id := uint64(1)
		for range 2000 {
			it := Item{ID: id, Data: make([]byte, rnd.IntN(maxSize+1)), Added: 1}
			w.Push(p, &it, 128<<20)
			fmt.Fprintf(&want, "%d:%d ", id, len(it.Data))
			if id++; rnd.IntN(3) == 0 {
				id += rnd.Uint64N(1 << rnd.IntN(50))
			}
		}
		if w.Count != 2000 || w.FirstID != 1 {
			t.Fatalf("window counts %d items from id %d on", w.Count, w.FirstID)
		}
		each, popped := walk(&w, p)
		if each != want.String() || popped != want.String() {
			t.Errorf("items of up to %d bytes:\neach   %.300s\npopped %.300s\nwant   %.300s",
				maxSize, each, popped, want.String())
		}
		if got := p.Memory.Load(); got != 0 || w.head != nil {
			t.Errorf("%d bytes are in use without any item", got)
		}
	}
}

// TestWindowBytesPerItem holds a plain item in memory to 8 bytes and its body.
func TestWindowBytesPerItem(t *testing.T) {
	var w Window
	p := newPool()
	for id := range uint64(1000) {
		w.Push(p, &Item{ID: id + 1, Data: make([]byte, 64), Added: Now()}, 128<<20)
	}
	used := 0
	for c := w.head; c != nil; c = c.next {
		used += len(c.Buf)
	}
	if want := 1000 * (64 + 8); used != want {
		t.Errorf("1,000 items of 64 bytes take %d, want %d", used, want)
	}
}
