package idset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAdd(t *testing.T) {
	for _, tt := range []struct {
		have Set
		add  Range
		want Set
	}{
		{nil, One(5), Set{{5, 5}}},
		{Set{{5, 5}}, Range{6, 7}, Set{{5, 7}}},
		{Set{{5, 5}}, Range{3, 4}, Set{{3, 5}}},
		{Set{{5, 5}}, One(7), Set{{5, 5}, {7, 7}}},
		{Set{{5, 5}}, Range{1, 3}, Set{{1, 3}, {5, 5}}},
		{Set{{1, 1}, {3, 3}, {5, 5}}, Range{2, 4}, Set{{1, 5}}},
		{Set{{1, 1}, {3, 3}, {5, 5}}, One(3), Set{{1, 1}, {3, 3}, {5, 5}}},
		{Set{{1, 9}}, Range{3, 4}, Set{{1, 9}}},
		{Set{{3, 4}, {8, 8}}, Range{1, 9}, Set{{1, 9}}},
		{Set{{1, 1}, {9, 9}}, Range{4, 5}, Set{{1, 1}, {4, 5}, {9, 9}}},
		{Set{{4, 1<<64 - 2}}, Range{7, 9}, Set{{4, 1<<64 - 2}}},
		{Set{{4, 5}}, Range{0, 1<<64 - 2}, Set{{0, 1<<64 - 2}}},
	} {
		if got := slices.Clone(tt.have).Add(tt.add); !slices.Equal(got, tt.want) {
			t.Errorf("%v.add(%v) = %v, want %v", tt.have, tt.add, got, tt.want)
		}
	}
}

// TestAlgebra compares sets with a map of their ids, over small ids so that ranges touch and overlap.
func TestAlgebra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) Range {
			r := Range{rapid.Uint64Range(0, 40).Draw(t, label+" first"), 0}
			r.Last = r.First + rapid.Uint64Range(0, 10).Draw(t, label+" more")
			if rapid.IntRange(0, 5).Draw(t, label+" empty") == 0 {
				r = Range{r.First + 1, r.First}
			}
			return r
		}
		var s Set
		model := make(map[uint64]bool)
		for range rapid.IntRange(0, 12).Draw(t, "adds") {
			r := draw("added")
			s = s.Add(r)
			for id := r.First; id <= r.Last; id++ {
				model[id] = true
			}
		}
		for i, r := range s {
			if r.isEmpty() || i > 0 && s[i-1].Last+1 >= r.First {
				t.Fatalf("%v has a range that is empty, or touches the one before", s)
			}
		}
		r := draw("asked for")
		var left []uint64
		for id := range model {
			if id < r.First || id > r.Last {
				left = append(left, id)
			}
		}
		if got, want := s.Remove(r), Of(left); !slices.Equal(got, want) {
			t.Fatalf("%v without %v is %v, want %v", s, r, got, want)
		}
		n := uint64(0)
		within, minus := s.Within(r), r.Minus(s)
		for id := range uint64(60) {
			in := !r.isEmpty() && r.First <= id && id <= r.Last
			if in && model[id] {
				n++
			}
			if s.Has(id) != model[id] || within.Has(id) != (in && model[id]) || minus.Has(id) != (in && !model[id]) {
				t.Fatalf("%v, %v: id %d is in the set %t, within %t, minus %t", s, r, id, s.Has(id), within.Has(id), minus.Has(id))
			}
		}
		if !r.isEmpty() && s.Count(r) != n {
			t.Fatalf("%v.count(%v) = %d, want %d", s, r, s.Count(r), n)
		}
	})
}
