package idset

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSpans compares Spans with a list that is gone through.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Spans[int]
		var all []Range
		out := make(map[int]bool)
		for range rapid.IntRange(1, 4*groupSize).Draw(t, "steps") {
			first := rapid.Uint64Range(0, 500).Draw(t, "first")
			ids := Between(first, first+rapid.Uint64Range(0, 20).Draw(t, "more"))
			s.Add(ids, len(all))
			all = append(all, ids)
			if rapid.IntRange(0, 30).Draw(t, "drop") == 0 {
				every := rapid.IntRange(2, 5).Draw(t, "every")
				s.DropIf(func(i int) bool {
					out[i] = out[i] || i%every == 0
					return out[i]
				})
			}
		}
		first := rapid.Uint64Range(0, 500).Draw(t, "from")
		within := Between(first, first+rapid.Uint64Range(0, 100).Draw(t, "width"))
		var want []int
		for i, ids := range all {
			if !out[i] && ids.First <= within.Last && within.First <= ids.Last {
				want = append(want, i)
			}
		}
		if got := slices.Collect(s.Of(&within)); !slices.Equal(got, want) {
			t.Fatalf("in %v are %v, want %v of %v", within, got, want, all)
		}
	})
}

// TestSpansNarrowed tests that the caller may need fewer ids while it looks.
func TestSpansNarrowed(t *testing.T) {
	var s Spans[uint64]
	for i := range uint64(10 * groupSize) {
		s.Add(Between(10*i, 10*i+9), i)
	}
	seen, within := 0, Between(1005, math.MaxUint64)
	for i := range s.Of(&within) {
		if seen++; i == 150 {
			within.Last = 1510
		}
	}
	if seen != 52 {
		t.Errorf("%d values are seen, want those of 1005 to 1510, which are 52", seen)
	}
}

// TestRangesUpTo tests that who needs to know whether there are many ranges does not count all.
func TestRangesUpTo(t *testing.T) {
	var b Bitmap
	for id := uint64(1); id < 20*blockIDs; id += 2 {
		b.Add(id)
	}
	all := b.RangeCount()
	if n := b.RangesUpTo(100); n <= 100 || n > blockIDs {
		t.Errorf("of %d ranges, %d are counted, want those of a block", all, n)
	}
	if n := b.RangesUpTo(all); n != all {
		t.Errorf("%d ranges are counted, want %d", n, all)
	}
}
