package keyindex

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/segment"
)

// A run of items with keys has frames with the entries of these items, so that a start need not read the items.
// The tag of such a frame, with little-endian integers:
//
//	offset  size  field
//	0       8     lowest id
//	8       8     highest id
//	16      4     number of entries, and 2^29: no other frame of a run has this bit and neither of the higher ones
//	20      4     zero
//
// The body is the seed of the hashes, and then the entries in the order of ids. Each is a LEB128 number, how far its id
// is behind the one before (0 for the first), and a hash of 8 bytes.
const (
	frameMark = 1 << 29
	markMask  = 7 << 29
	hashSize  = 8
)

// IsFrame reports whether the tag is that of a frame of entries.
func IsFrame(tag segment.Tag) bool {
	return binary.LittleEndian.Uint32(tag[16:])&markMask == frameMark
}

// FrameCount is how many entries a frame has, by its tag.
func FrameCount(tag segment.Tag) int {
	return int(binary.LittleEndian.Uint32(tag[16:]) &^ markMask)
}

// Gatherer gathers entries for a frame. One with a nil Seed gathers nothing.
type Gatherer struct {
	Seed    *Seed
	entries []Entry
	body    []byte
}

// Note adds the entry of the item of an id, which has a key. An id may come once.
func (g *Gatherer) Note(key []byte, id uint64) {
	if g.Seed != nil {
		g.entries = append(g.entries, Entry{g.Seed.Hash(key), id})
	}
}

// AddTo adds a frame with what has been gathered to w, if there is something, and forgets it.
func (g *Gatherer) AddTo(w *segment.RunWriter, c *segment.Coder) {
	if len(g.entries) == 0 {
		return
	}
	slices.SortFunc(g.entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	var tag segment.Tag
	tag, g.body = appendFrame(g.body[:0], g.Seed, g.entries)
	w.Add(c, tag, g.body)
	g.entries = g.entries[:0]
}

// appendFrame appends the body of a frame of entries, of which there is one at least, and returns the tag.
func appendFrame(dst []byte, seed *Seed, entries []Entry) (tag segment.Tag, body []byte) {
	first, last := entries[0].ID, entries[len(entries)-1].ID
	binary.LittleEndian.PutUint64(tag[0:], first)
	binary.LittleEndian.PutUint64(tag[8:], last)
	binary.LittleEndian.PutUint32(tag[16:], uint32(len(entries))|frameMark)
	body = append(dst, seed[:]...)
	before := first
	for _, e := range entries {
		body = binary.AppendUvarint(body, e.ID-before)
		body = binary.LittleEndian.AppendUint64(body, e.Hash)
		before = e.ID
	}
	return tag, body
}

// ParseFrame decodes a frame of entries: the seed of the hashes, and the entries appended to dst.
func ParseFrame(tag segment.Tag, body []byte, dst []Entry) (seed Seed, entries []Entry, err error) {
	first, last := binary.LittleEndian.Uint64(tag[0:]), binary.LittleEndian.Uint64(tag[8:])
	n := FrameCount(tag)
	if !IsFrame(tag) || binary.LittleEndian.Uint32(tag[20:]) != 0 || n == 0 || first == 0 || last == math.MaxUint64 ||
		len(body) < len(seed) {
		return seed, dst, fmt.Errorf("these are not keys")
	}
	copy(seed[:], body)
	id := first
	rest := body[len(seed):]
	for i := range n {
		behind, size := binary.Uvarint(rest)
		if size <= 0 || len(rest) < size+hashSize || (behind == 0) != (i == 0) || behind > last-id {
			return seed, dst, fmt.Errorf("the keys behind item %d are damaged", id)
		}
		id += behind
		dst = append(dst, Entry{binary.LittleEndian.Uint64(rest[size:]), id})
		rest = rest[size+hashSize:]
	}
	if id != last || len(rest) > 0 {
		return seed, dst, fmt.Errorf("the last of %d entries is that of item %d, and %d bytes follow; the header says item %d",
			n, id, len(rest), last)
	}
	return seed, dst, nil
}
