package item

import (
	"cmp"
	"math"
	"slices"
)

const (
	// indexEvery is how many bytes of a chunk a find walks through at most, beside one image.
	indexEvery = 1 << 10
	// indexFrom is the size above which a chunk has an index. The walk through a smaller one is short enough.
	indexFrom = 4 * indexEvery
	// indexPast is how many ids behind the first one an item must be for the index to help.
	indexPast = 32
	placeSize = 8 // bytes of memory
)

// index says where some items of a chunk lie, so that a find need not walk through the chunk from its start.
//
// A chunk has no index until somebody looks for an item in its middle, so a put does no work for it. The walk of that
// find enters places as far as it comes, and later finds go on from there. An image, a hole or a gap stays where it is
// for as long as the chunk is in use. A place stays true when its item is cut out, because the hole stands for the id.
type index struct {
	base   uint64  // id of the first place
	places []place // in the order of ids, which is that of offsets
	// What follows is how far the walk has come: what stands at off is for id, or is a gap in front of that.
	off int
	id  uint64
}

// place says that what stands at off in the chunk is for the id base+id, or is a gap in front of that.
type place struct{ id, off uint32 }

// newIndex returns an index of a chunk of size bytes, whose first item is at off.
func newIndex(size, off int, first uint64) *index {
	places := make([]place, 1, size/indexEvery+1)
	places[0] = place{0, uint32(off)}
	return &index{base: first, places: places, off: off, id: first}
}

// enter enters where the walk is, if that is far enough from the last place. It reports false for an id that is too
// far from the first one to be entered. Behind such a gap, finds walk from the last place.
func (x *index) enter() bool {
	if x.off-int(x.places[len(x.places)-1].off) < indexEvery {
		return true
	}
	if x.id-x.base > math.MaxUint32 {
		return false
	}
	x.places = append(x.places, place{uint32(x.id - x.base), uint32(x.off)})
	return true
}

// before returns the last place that is not behind an id, which is not below the base.
func (x *index) before(id uint64) (off int, at uint64) {
	i, found := slices.BinarySearchFunc(x.places, id-x.base, func(p place, id uint64) int {
		return cmp.Compare(uint64(p.id), id)
	})
	if !found {
		i--
	}
	return int(x.places[i].off), x.base + uint64(x.places[i].id)
}

// size is how many bytes of memory the index takes.
func (x *index) size() int64 { return int64(cap(x.places)) * placeSize }
