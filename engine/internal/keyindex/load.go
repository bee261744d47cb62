package keyindex

import (
	"cmp"
	"math/bits"
	"slices"
)

// loadLeaf is how many entries a leaf of an index that is loaded has on average. loadSlack is the part of it, one in so
// many, for which leaves have room beside.
const (
	loadLeaf  = 112
	loadSlack = 10
)

// A Loader fills an index with many entries, a good deal faster than Set: leaves are sorted once.
type Loader struct{ x *Index }

// Load returns a Loader for about n entries of x, which must be empty; if many more come, it takes longer. Until its
// End the index is not to be used.
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
	var sorter leafSorter
	for i, leaf := range x.leaves {
		sorter.sort(leaf)
		leaf = slices.CompactFunc(leaf, func(a, b Entry) bool { return a.Hash == b.Hash })
		if len(leaf) < cap(leaf)/2 {
			leaf = x.move(leaf, 0)
		}
		x.leaves[i] = leaf
		x.count += len(leaf)
	}
	for x.count > fullLeaf*len(x.leaves) {
		x.split()
	}
	for len(x.leaves) > 1 && x.count < emptyLeaf*len(x.leaves) {
		x.merge()
	}
	x.account()
}

// leafSorter sorts leaves, one after the other, by hash, and the higher id first. Hashes are spread evenly, so it puts
// each entry near its place by its hash alone, and a comparison or two do the rest.
type leafSorter struct {
	ends    []int32 // how many entries have one of the first so many shares of all hashes
	entries []Entry
}

// mostEven is how many entries a leaf has at most that is sorted so: of more, many may have the same hash.
const mostEven = 4096

func (s *leafSorter) sort(leaf []Entry) {
	n := len(leaf)
	if n > mostEven {
		slices.SortFunc(leaf, Entry.compare)
		return
	}
	s.ends = append(s.ends[:0], make([]int32, n)...)
	for _, e := range leaf {
		share, _ := bits.Mul64(e.Hash, uint64(n))
		s.ends[share]++
	}
	sum := int32(0)
	for i := range s.ends {
		sum += s.ends[i]
		s.ends[i] = sum
	}
	s.entries = append(s.entries[:0], leaf...)
	for _, e := range s.entries {
		share, _ := bits.Mul64(e.Hash, uint64(n))
		s.ends[share]--
		leaf[s.ends[share]] = e
	}
	for i := 1; i < n; i++ {
		e, at := leaf[i], i
		for ; at > 0 && e.compare(leaf[at-1]) < 0; at-- {
			leaf[at] = leaf[at-1]
		}
		leaf[at] = e
	}
}

// compare is the order in which a leaf that is loaded has its entries, before those of the same hash are left out.
func (e Entry) compare(other Entry) int {
	if e.Hash != other.Hash {
		return cmp.Compare(e.Hash, other.Hash)
	}
	return cmp.Compare(other.ID, e.ID)
}
