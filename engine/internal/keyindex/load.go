package keyindex

import (
	"cmp"
	"math/bits"
	"slices"
)

// loadLeaf is how many entries a leaf of an index that is loaded has on average; loadSlack is the part of it, one
// in so many, for which leaves have room beside.
const (
	loadLeaf  = 112
	loadSlack = 10
)

// A Loader fills an index with many entries, a good deal faster than Set: leaves are sorted once.
type Loader struct{ x *Index }

// Load returns a Loader for about n entries of x, which must be empty. Until its End the index is not to be used.
func (x *Index) Load(n int) *Loader {
	x.leaves = make([][]Entry, n/loadLeaf+1)
	round := 1 << bits.Len(uint(len(x.leaves)-1))
	for i := range x.leaves {
		room := n / round
		if i < round/2 && i+round/2 >= len(x.leaves) { // it has what the leaf would get that is not there yet
			room *= 2
		}
		x.leaves[i] = x.move(nil, room+room/loadSlack+1)
	}
	return &Loader{x}
}

// Add has a hash stand for an id, unless it stands for a higher one.
func (l *Loader) Add(e Entry) {
	x := l.x
	i := x.leafOf(e.Hash)
	leaf := x.leaves[i]
	if len(leaf) == cap(leaf) {
		leaf = x.move(leaf, len(leaf)+len(leaf)/leafGrowth+2)
	}
	x.leaves[i] = append(leaf, e)
}

// End has the index be ready for use.
func (l *Loader) End() {
	x := l.x
	for i, leaf := range x.leaves {
		slices.SortFunc(leaf, func(a, b Entry) int {
			if a.Hash != b.Hash {
				return cmp.Compare(a.Hash, b.Hash)
			}
			return cmp.Compare(b.ID, a.ID)
		})
		leaf = slices.CompactFunc(leaf, func(a, b Entry) bool { return a.Hash == b.Hash })
		if len(leaf) < cap(leaf)/2 {
			leaf = x.move(leaf, 0)
		}
		x.leaves[i] = leaf
		x.count += len(leaf)
	}
	for len(x.leaves) > 1 && x.count < emptyLeaf*len(x.leaves) {
		x.merge()
	}
	x.account()
}
