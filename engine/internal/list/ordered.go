package list

import (
	"cmp"
	"slices"
)

// Ordered finds values by their ids, and goes through them in the order of these. Its leaves have some values each, in
// their order, and lie one behind the other. So no operation moves more than a leaf, and the list of leaves. The zero
// Ordered is empty.
type Ordered[T any] struct {
	leaves [][]entry[T] // none is empty, and no two that are neighbours have little together
	count  int
}

type entry[T any] struct {
	id    uint64
	value *T
}

const (
	// fullLeaf is how many values a leaf has at most. Neighbours that have half of that together become one.
	fullLeaf = 128
	leafSize = fullLeaf*16 + 24 // bytes, with its place in the list
)

// Len returns how many values there are.
func (o *Ordered[T]) Len() int { return o.count }

// leafOf returns the place of the leaf that has an id, or where it belongs; there is one at least.
func (o *Ordered[T]) leafOf(id uint64) int {
	if last := len(o.leaves) - 1; o.leaves[last][0].id <= id { // the newest come last, mostly
		return last
	}
	at, ok := slices.BinarySearchFunc(o.leaves, id, func(leaf []entry[T], id uint64) int { return cmp.Compare(leaf[0].id, id) })
	if ok {
		return at
	}
	return max(at-1, 0)
}

func search[T any](leaf []entry[T], id uint64) (at int, ok bool) {
	return slices.BinarySearchFunc(leaf, id, func(e entry[T], id uint64) int { return cmp.Compare(e.id, id) })
}

// Find returns the value with an id, or nil.
func (o *Ordered[T]) Find(id uint64) *T {
	if o.count == 0 {
		return nil
	}
	leaf := o.leaves[o.leafOf(id)]
	if at, ok := search(leaf, id); ok {
		return leaf[at].value
	}
	return nil
}

// Add adds a value with an id that no other has. It returns how many bytes more the structure takes.
func (o *Ordered[T]) Add(id uint64, value *T) (more int64) {
	before := len(o.leaves)
	if o.count++; o.count == 1 {
		o.leaves = append(o.leaves, make([]entry[T], 0, fullLeaf))
		o.leaves[0] = append(o.leaves[0], entry[T]{id, value})
		return leafSize
	}
	i := o.leafOf(id)
	at, _ := search(o.leaves[i], id)
	if len(o.leaves[i]) == fullLeaf {
		half := fullLeaf / 2
		if at == fullLeaf && i == len(o.leaves)-1 { // nothing comes into a leaf that newer ones are behind
			half = fullLeaf
		}
		behind := append(make([]entry[T], 0, fullLeaf), o.leaves[i][half:]...)
		clear(o.leaves[i][half:])
		o.leaves[i] = o.leaves[i][:half]
		o.leaves = slices.Insert(o.leaves, i+1, behind)
		if at >= half {
			i, at = i+1, at-half
		}
	}
	o.leaves[i] = slices.Insert(o.leaves[i], at, entry[T]{id, value})
	return int64(len(o.leaves)-before) * leafSize
}

// Remove is Add for the value with an id, which goes, and must be there.
func (o *Ordered[T]) Remove(id uint64) (more int64) {
	before := len(o.leaves)
	i := o.leafOf(id)
	at, ok := search(o.leaves[i], id)
	if !ok {
		panic("broken invariant: an id is to go that is not there")
	}
	o.leaves[i] = slices.Delete(o.leaves[i], at, at+1)
	o.count--
	switch left := len(o.leaves[i]); {
	case o.count == 0:
		*o = Ordered[T]{}
	case left == 0:
		o.leaves = slices.Delete(o.leaves, i, i+1)
	case i+1 < len(o.leaves) && left+len(o.leaves[i+1]) <= fullLeaf/2:
		o.merge(i)
	case i > 0 && len(o.leaves[i-1])+left <= fullLeaf/2:
		o.merge(i - 1)
	}
	return int64(len(o.leaves)-before) * leafSize
}

// merge makes one leaf of that at i and the next.
func (o *Ordered[T]) merge(i int) {
	o.leaves[i] = append(o.leaves[i], o.leaves[i+1]...)
	o.leaves = slices.Delete(o.leaves, i+1, i+2)
}

// EachFrom calls f for the values with ids from one on, ascending, until f returns false. f may not change what there is.
func (o *Ordered[T]) EachFrom(id uint64, f func(*T) bool) {
	if o.count == 0 {
		return
	}
	i := o.leafOf(id)
	at, _ := search(o.leaves[i], id)
	for ; i < len(o.leaves); i, at = i+1, 0 {
		for _, e := range o.leaves[i][at:] {
			if !f(e.value) {
				return
			}
		}
	}
}

// Memory is how many bytes the structure takes.
func (o *Ordered[T]) Memory() int64 { return int64(len(o.leaves)) * leafSize }
