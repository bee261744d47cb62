package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestManyReads does to a queue of which many items are open, returned and leased what names single items, and lists it
// in pieces. Each item is found wherever it is, and lists have all, in the order of ids. Reads are found by their ids
// without going through the others, which Verify checks. What all that takes is given back.
func TestManyReads(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	e, _ := newQuiet(t)
	const items = 8 * fewReads
	now, name := Now(), []byte("q")
	key := func(id uint64) []byte { return fmt.Append(nil, "key", id) }
	for id := uint64(1); id <= items; id++ {
		var x PutExtra
		if x.Key = key(id); id%8 == 0 {
			x.Delay = time.Hour
		}
		if _, err := e.Put(now, name, PutRequest{Data: []byte("x"), Extra: &x}); err != nil {
			t.Fatal(err)
		}
	}
	hidden, visible := make(map[uint64]bool), make(map[uint64]bool)
	var refs []ReadRef
	for id := uint64(1); id <= items; id++ {
		switch {
		case id%8 == 0:
			hidden[id] = true
		case id%8 == 1:
			f := FetchRequest{Access: Lease, Lease: time.Hour}
			if _, err := e.Fetch(now, name, f, &copied{}); err != nil {
				t.Fatal(err)
			}
			hidden[id] = true
		default:
			ref, _ := mustOpen(t, e, "q")
			refs = append(refs, ref)
			hidden[id] = true
		}
	}
	rng.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	giveBack := func(n int) {
		for _, ref := range refs[:n] {
			id := ref.r.item.ID
			delete(hidden, id)
			visible[id] = true
			e.Return(now, []ReadRef{ref}, Return{How: Abort})
		}
		refs = refs[n:]
	}
	list := func(m Match) (got listing, pieces int) {
		for w := e.List(name, m); w.Do(now, &got, 1000); pieces++ {
			if n := len(w.extras); n > scanExtras {
				t.Fatalf("a piece sorts %d items", n)
			}
		}
		return got, pieces
	}
	check := func() {
		t.Helper()
		verify(t, e)
		want := make(listing, 0, len(hidden)+len(visible))
		for id := range visible {
			want = append(want, id)
		}
		slices.Sort(want)
		if got, _ := list(Match{}); !slices.Equal(got, want) {
			t.Fatalf("%d visible items are listed, want %d", len(got), len(want))
		}
		for id := range hidden {
			want = append(want, id)
		}
		slices.Sort(want)
		if got, pieces := list(Match{Hidden: true}); !slices.Equal(got, want) || len(got) > 100 && pieces < 2 {
			t.Fatalf("%d items are listed in %d pieces, want %d", len(got), pieces, len(want))
		}
		for id := uint64(1); id <= items; id++ {
			which := Which{ID: id}
			if id%2 == 0 {
				which = Which{Key: key(id)}
			}
			var got copied
			_, err := e.Look(now, name, &LookRequest{Which: which}, &got)
			if there := hidden[id] || visible[id]; (err == nil) != there || there && got.item.ID != id {
				t.Fatalf("item %d, there %t, is found as %d: %v", id, there, got.item.ID, err)
			}
		}
	}
	check()
	giveBack(2 * fewReads)
	check()
	for id := range visible {
		if rng.IntN(2) == 0 {
			if _, err := e.Remove(now, name, "", Which{ID: id}); err != nil {
				t.Fatal(err)
			}
			delete(visible, id)
		}
	}
	check()
	giveBack(fewReads)
	check()
	if _, err := e.Flush(now, name, ""); err != nil {
		t.Fatal(err)
	}
	clear(visible)
	for id := range hidden {
		if id%8 == 0 {
			delete(hidden, id)
		}
	}
	check()
	giveBack(len(refs))
	check()
	e.Delete(now, name)
	if got := e.Stats().MemoryBytes; got != 0 {
		t.Errorf("%d bytes are in use without any queue", got)
	}
}
