package idset

import "slices"

// Range is a range of item ids, both ends included; it is empty if the first is above the last.
type Range struct{ First, Last uint64 }

// Between is the range from first to last; it is empty if first is above last.
func Between(first, last uint64) Range { return Range{first, last} }

// One is the range of one id.
func One(id uint64) Range { return Range{id, id} }

// isEmpty reports whether there is no id in r.
func (r Range) isEmpty() bool { return r.First > r.Last }

// meets reports whether an id is in both.
func (r Range) meets(o Range) bool { return r.First <= o.Last && o.First <= r.Last }

// Minus returns what of r is not in s.
func (r Range) Minus(s Set) (left Set) {
	for _, o := range s {
		if o.First > r.Last {
			break
		}
		if o.Last < r.First {
			continue
		}
		if o.First > r.First {
			left = append(left, Range{r.First, o.First - 1})
		}
		r.First = o.Last + 1
	}
	if !r.isEmpty() {
		left = append(left, r)
	}
	return left
}

// Set is a set of item ids: ranges that ascend, are apart from each other, and are not empty.
type Set []Range

// Of returns the set of ids, which it sorts.
func Of(ids []uint64) (s Set) {
	slices.Sort(ids)
	for _, id := range ids {
		s = s.Add(One(id))
	}
	return s
}

// Remove returns s without the ids of r, which may be empty. It uses other memory than s.
func (s Set) Remove(r Range) (left Set) {
	if r.isEmpty() {
		return slices.Clone(s)
	}
	for _, o := range s {
		left = append(left, o.Minus(Set{r})...)
	}
	return left
}

// Add returns s with the ids of r, which may be empty. It may use the memory of s.
func (s Set) Add(r Range) Set {
	if r.isEmpty() {
		return s
	}
	i := len(s)
	for i > 0 && s[i-1].Last+1 >= r.First {
		i--
	}
	j := i
	for j < len(s) && s[j].First <= r.Last+1 {
		r.First, r.Last = min(r.First, s[j].First), max(r.Last, s[j].Last)
		j++
	}
	return slices.Replace(s, i, j, r)
}

// Has reports whether id is in s.
func (s Set) Has(id uint64) bool {
	_, found := slices.BinarySearchFunc(s, id, func(r Range, id uint64) int {
		switch {
		case r.Last < id:
			return -1
		case r.First > id:
			return 1
		}
		return 0
	})
	return found
}

// Count is how many ids of r are in s.
func (s Set) Count(r Range) (n uint64) {
	for _, o := range s {
		if o.First > r.Last {
			break
		}
		if o.Last >= r.First {
			n += min(o.Last, r.Last) - max(o.First, r.First) + 1
		}
	}
	return n
}

// Within returns what of s is in r.
func (s Set) Within(r Range) (part Set) {
	for _, o := range s {
		if o.Last >= r.First && o.First <= r.Last {
			part = append(part, Range{max(o.First, r.First), min(o.Last, r.Last)})
		}
	}
	return part
}
