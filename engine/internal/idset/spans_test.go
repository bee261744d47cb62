package idset

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBitmapSet compares a Bitmap with a Set, with ranges of many blocks.
func TestBitmapSet(t *testing.T) {
	for seed := range uint64(18) {
		r := rand.New(rand.NewPCG(seed, 0))
		var b Bitmap
		var want Set
		span := []uint64{3000, 60_000, 1 << 40}[seed%3]
		draw := func() Range {
			first := 1 + r.Uint64N(span)
			n := r.Uint64N(3)
			if r.IntN(40) == 0 {
				n = r.Uint64N(span / 10)
			}
			return Between(first, first+n)
		}
		for step := range 3000 {
			ids := draw()
			switch n := r.IntN(10); {
			case n < 8:
				b.AddRange(ids)
				want = want.Add(ids)
			case n == 8:
				b.RemoveRange(ids)
				want = want.Remove(ids)
			case r.IntN(50) == 0:
				b.RemoveBelow(ids.First)
				want = want.Remove(Between(0, ids.First-1))
			}
			if got := b.Count(ids); got != want.Count(ids) {
				t.Fatalf("seed %d, step %d: %d of %v, want %d", seed, step, got, ids, want.Count(ids))
			}
			if got := b.Has(ids.Last); got != want.Has(ids.Last) {
				t.Fatalf("seed %d, step %d: has %d = %v", seed, step, ids.Last, got)
			}
			if b.IsEmpty() != (len(want) == 0) {
				t.Fatalf("seed %d, step %d: empty = %v", seed, step, b.IsEmpty())
			}
			if step%100 != 0 {
				continue
			}
			c := b.Clone()
			if n := c.RangeCount(); n < int64(len(want)) || n > 3*int64(len(want)) {
				t.Fatalf("seed %d, step %d: %d ranges are counted, there are %d", seed, step, n, len(want))
			}
			missing := ids.Minus(want)
			if got := c.Missing(ids); !slices.Equal(got, missing) {
				t.Fatalf("seed %d, step %d: of %v %v are missing, want %v", seed, step, ids, got, missing)
			}
			within := Between(ids.First, ids.First+r.Uint64N(span))
			if got := Set(slices.Collect(c.Within(within))); !slices.Equal(got, want.Within(within)) {
				t.Fatalf("seed %d, step %d: within %v\n%v, want\n%v", seed, step, within, got, want.Within(within))
			}
			if got := Set(slices.Collect(c.Within(Between(0, 1<<62)))); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: all are\n%v, want\n%v", seed, step, got, want)
			}
		}
	}
}

// TestBitmapSpans removes every other one of ten million ids, and then all below another one.
func TestBitmapSpans(t *testing.T) {
	var b Bitmap
	for id := uint64(0); id < 10_000_000; id += 2 {
		b.Add(id)
	}
	if n := b.Memory(); n > 2<<20 {
		t.Errorf("5,000,000 ids take %d bytes", n)
	}
	b.AddRange(Between(0, 1<<50))
	if n := b.Memory(); n > 1<<16 || !b.Has(1<<49) {
		t.Errorf("one range takes %d bytes", n)
	}
	odd := BitmapOf(Set{One(1 << 40), Between(1<<41, 1<<41+blockIDs)})
	if n := b.RemoveAll(&odd); n != blockIDs+2 || b.Has(1<<40) || !b.Has(1<<40+1) || b.RangeCount() > 6 {
		t.Errorf("%d ids are taken out of a span, %d ranges are left", n, b.RangeCount())
	}
	if b.RemoveBelow(1<<50 + 1); !b.IsEmpty() || len(b.blocks) > 0 {
		t.Errorf("%d ids are left", b.Len())
	}
}
