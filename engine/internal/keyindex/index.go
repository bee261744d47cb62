package keyindex

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/dchest/siphash"
)

// Seed makes hashes that nobody can foresee. The zero Seed is none.
type Seed [16]byte

// NewSeed draws a seed.
func NewSeed() (s Seed) {
	crand.Read(s[:]) // never fails
	return s
}

// Hash is the hash of a key.
func (s *Seed) Hash(key []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:]), key)
}

// Entry is the hash of a key, and the id of its item.
type Entry struct{ Hash, ID uint64 }

const (
	entrySize  = 16
	leafSize   = 24 // bytes of a leaf in the list, beside its entries
	fullLeaf   = 128
	emptyLeaf  = 40
	leafGrowth = 8 // a leaf grows by one part in so many
)

// Index has the entries of one queue. It is linear hashing over small sorted leaves. It grows and shrinks by one leaf
// at a time, and nearly all of its memory holds entries. The zero Index is empty and ready for use, once Memory is
// set. It is not safe for concurrent use.
type Index struct {
	// Memory counts the bytes that the index takes.
	Memory *atomic.Int64

	leaves  [][]Entry // each in the order of hashes
	count   int
	entries int // that the leaves have memory for
	counted int64
}

// Len is the number of entries.
func (x *Index) Len() int { return x.count }

// leafOf is the number of the leaf for a hash; there is one at least.
func (x *Index) leafOf(hash uint64) int {
	n := uint64(len(x.leaves))
	round := uint64(1) << bits.Len64(n-1)
	if i := hash & (round - 1); i < n {
		return int(i)
	}
	return int(hash & (round/2 - 1))
}

// search returns where a hash is in a leaf, or where it belongs. Hashes are spread evenly. So it looks where the hash
// would be at equal distances, and goes on from there: some four entries with a full leaf.
func search(leaf []Entry, hash uint64) (at int, ok bool) {
	guess, _ := bits.Mul64(hash, uint64(len(leaf)))
	at = int(guess)
	for at < len(leaf) && leaf[at].Hash < hash {
		at++
	}
	for at > 0 && leaf[at-1].Hash >= hash {
		at--
	}
	return at, at < len(leaf) && leaf[at].Hash == hash
}

// Find returns the id that a hash stands for.
func (x *Index) Find(hash uint64) (id uint64, ok bool) {
	if x.count == 0 {
		return 0, false
	}
	leaf := x.leaves[x.leafOf(hash)]
	at, ok := search(leaf, hash)
	if !ok {
		return 0, false
	}
	return leaf[at].ID, true
}

// Set has a hash stand for an id, and no more for another one.
func (x *Index) Set(hash, id uint64) {
	if len(x.leaves) == 0 {
		x.leaves = append(x.leaves, nil)
	}
	i := x.leafOf(hash)
	at, ok := search(x.leaves[i], hash)
	if ok {
		x.leaves[i][at].ID = id
		return
	}
	leaf := x.leaves[i]
	if len(leaf) == cap(leaf) {
		leaf = x.move(leaf, len(leaf)+len(leaf)/leafGrowth+2)
	}
	x.leaves[i] = slices.Insert(leaf, at, Entry{hash, id})
	if x.count++; x.count > fullLeaf*len(x.leaves) {
		x.split()
	}
	x.account()
}

// move copies a leaf to memory for n entries.
func (x *Index) move(leaf []Entry, n int) []Entry {
	moved := append(slices.Grow([]Entry(nil), n), leaf...)
	x.entries += cap(moved) - cap(leaf)
	return moved
}

// split adds a leaf, for half of what is in another one.
func (x *Index) split() {
	n := uint64(len(x.leaves))
	round := uint64(1) << bits.Len64(n) // of n+1 leaves
	from := n &^ (round / 2)
	var stay, leave []Entry
	for _, e := range x.leaves[from] {
		if e.Hash&(round-1) == n {
			leave = append(leave, e)
		} else {
			stay = append(stay, e)
		}
	}
	x.entries -= cap(x.leaves[from])
	x.leaves[from] = x.move(nil, len(stay)+len(stay)/leafGrowth)
	x.leaves[from] = append(x.leaves[from], stay...)
	x.leaves = append(x.leaves, append(x.move(nil, len(leave)+len(leave)/leafGrowth), leave...))
}

// Delete forgets that a hash stands for an id, and reports whether it did.
func (x *Index) Delete(hash, id uint64) bool {
	if x.count == 0 {
		return false
	}
	i := x.leafOf(hash)
	leaf := x.leaves[i]
	at, ok := search(leaf, hash)
	if !ok || leaf[at].ID != id {
		return false
	}
	x.shrink(i, slices.Delete(leaf, at, at+1))
	return true
}

// Sweep forgets the entries of ids that are gone: of n leaves before that one, from the last of them down. It returns
// before which to go on; behind 0 none is left. What is split off a leaf meanwhile may stay.
func (x *Index) Sweep(before, n int, gone func(id uint64) bool) int {
	for before = min(before, len(x.leaves)); before > 0 && n > 0; n-- {
		before--
		x.shrink(before, slices.DeleteFunc(x.leaves[before], func(e Entry) bool { return gone(e.ID) }))
		before = min(before, len(x.leaves))
	}
	return before
}

// shrink has leaf i be what is left of it.
func (x *Index) shrink(i int, leaf []Entry) {
	fewer := len(x.leaves[i]) - len(leaf)
	x.count -= fewer
	if len(leaf) < cap(leaf)/2 {
		leaf = x.move(leaf, 0)
	}
	x.leaves[i] = leaf
	for ; fewer > 0 && x.count < emptyLeaf*len(x.leaves); fewer-- {
		x.merge()
	}
	x.account()
}

// merge takes the last leaf back into the one that it was split from, if there is one.
func (x *Index) merge() {
	last := len(x.leaves) - 1
	if last == 0 {
		if x.count == 0 {
			x.entries, x.leaves = 0, nil
		}
		return
	}
	round := uint64(1) << bits.Len64(uint64(last))
	into := int(uint64(last) &^ (round / 2))
	a, b := x.leaves[into], x.leaves[last]
	both := x.move(nil, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Hash < b[0].Hash {
			both, a = append(both, a[0]), a[1:]
		} else {
			both, b = append(both, b[0]), b[1:]
		}
	}
	x.entries -= cap(x.leaves[into]) + cap(x.leaves[last])
	x.leaves[into] = append(append(both, a...), b...)
	x.leaves[last] = nil
	x.leaves = x.leaves[:last]
}

// Clear removes all entries, and lets go of all memory.
func (x *Index) Clear() {
	*x = Index{Memory: x.Memory, counted: x.counted}
	x.account()
}

// account updates Memory to what the index takes now.
func (x *Index) account() {
	if now := int64(x.entries)*entrySize + int64(cap(x.leaves))*leafSize; now != x.counted {
		x.Memory.Add(now - x.counted)
		x.counted = now
	}
}
