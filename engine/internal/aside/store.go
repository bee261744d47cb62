package aside

import (
	"encoding/binary"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// Images lie one behind the other in blocks, each behind a header. Integers are little-endian.
//
//	4  the slot of its item, or noSlot if the item is gone
//	6  segment of the journal before which the item does not lie
//	2  how often it was delivered, as far as that counts
//	n  the item's image
//
// A large item has a block of its own with the header alone: its memory stays where it is, and nobody changes that.
//
// A block of which nothing lives is given back. One of which less than half lives is: what lives moves
// to the block that is being filled. So blocks take at most twice what lives in them, and one block.
const (
	imageHeader = 12
	segmentSize = 6
	noSlot      = 1<<32 - 1
	minBlock    = 1 << 10 // bytes; blocks grow fourfold
	maxBlock    = 64 << 10
)

// block is one piece of memory for images.
type block struct {
	buf  []byte // written part
	live int    // bytes of images, with their headers, whose items are there
	// large is the item, if it is large; nil: there are images.
	large *item.Item
}

// store keeps the images of a Set.
type store struct {
	blocks []block // a reference names one by its place here; the buf of one that is free is nil
	free   []uint32
	open   uint32      // the block that is being filled, plus one; zero if there is none
	bytes  int64       // of all blocks, the spare one included
	spare  []byte      // a block of maxBlock bytes that nothing lives in; nil if there is none
	slots  *rows[slot] // of the set, which name the places of the images
}

// place is where an image stands: behind its header.
type place struct{ block, offset uint32 }

// put copies the image of it, the item of a slot, and returns its place. A large item is not copied.
func (s *store) put(slot uint32, segment uint64, it *item.Item) place {
	need := imageHeader + item.ImageSize(it)
	b := uint32(0)
	if it.HasOwnMemory() {
		b = s.add(imageHeader)
		large := *it
		s.blocks[b].large = &large
		s.bytes += int64(need - imageHeader)
	} else {
		b = s.room(need)
	}
	at := place{b, uint32(len(s.blocks[b].buf) + imageHeader)}
	var h [imageHeader]byte
	binary.LittleEndian.PutUint32(h[:], slot)
	binary.LittleEndian.PutUint64(h[4:], segment)
	buf := append(s.blocks[b].buf, h[:]...)
	if s.blocks[b].large == nil {
		buf = item.AppendImage(buf, it)
	}
	s.blocks[b].buf = buf
	s.blocks[b].live += need
	return at
}

// room returns a block that takes need bytes. What is too large to share one gets a block of its own:
// it never moves.
func (s *store) room(need int) uint32 {
	if need > maxBlock/4 {
		return s.add(need)
	}
	size, full := minBlock, s.open
	if full > 0 {
		buf := s.blocks[full-1].buf
		if cap(buf)-len(buf) >= need {
			return full - 1
		}
		size = min(4*cap(buf), maxBlock)
	}
	at := s.add(max(size, 4*need))
	if s.open = at + 1; full > 0 {
		s.tidy(full - 1)
	}
	return at
}

// add adds a block of size bytes.
func (s *store) add(size int) (at uint32) {
	b := block{buf: s.spare}
	if size == maxBlock && s.spare != nil {
		s.spare = nil
	} else {
		b.buf = make([]byte, 0, size)
		s.bytes += int64(size)
	}
	if n := len(s.free); n > 0 {
		at, s.free = s.free[n-1], s.free[:n-1]
		s.blocks[at] = b
		return at
	}
	s.blocks = append(s.blocks, b)
	return uint32(len(s.blocks) - 1)
}

// load returns the item whose image is at a place, and the size of that; 0 if there is none.
func (s *store) load(at place) (it item.Item, size int) {
	b := &s.blocks[at.block]
	if b.large != nil {
		return *b.large, item.ImageSize(b.large)
	}
	return item.ParseImage(b.buf[at.offset:])
}

func (s *store) header(at place) []byte {
	return s.blocks[at.block].buf[at.offset-imageHeader : at.offset]
}

func (s *store) slot(at place) uint32 { return binary.LittleEndian.Uint32(s.header(at)) }

func (s *store) setSlot(at place, slot uint32) {
	binary.LittleEndian.PutUint32(s.header(at), slot)
}

func (s *store) segment(at place) uint64 {
	return binary.LittleEndian.Uint64(s.header(at)[4:]) & (1<<(8*segmentSize) - 1)
}

func (s *store) setSegment(at place, segment uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], segment)
	copy(s.header(at)[4:], b[:segmentSize])
}

func (s *store) count(at place) uint16 { return binary.LittleEndian.Uint16(s.header(at)[10:]) }

func (s *store) setCount(at place, count uint16) {
	binary.LittleEndian.PutUint16(s.header(at)[10:], count)
}

// drop forgets the image at a place, which takes size bytes, and may move others.
func (s *store) drop(at place, size int) {
	s.setSlot(at, noSlot)
	b := &s.blocks[at.block]
	if b.live -= imageHeader + size; b.large != nil {
		s.bytes -= int64(size)
	}
	s.tidy(at.block)
}

// tidy gives a block back if nothing of it lives, after moving what lives of it if that is less than
// half. The block that is being filled is given back only if nothing lives in any.
func (s *store) tidy(at uint32) {
	b := &s.blocks[at]
	if b.buf == nil || b.live*2 >= cap(b.buf) {
		return
	}
	if at+1 == s.open {
		if b.live == 0 {
			b.buf = b.buf[:0]
		}
		return
	}
	old := b.buf
	for off := uint32(imageHeader); b.live > 0; {
		from := place{at, off}
		it, n := item.ParseImage(old[off:])
		if slot := s.slot(from); slot != noSlot {
			b.live -= imageHeader + n
			to := s.put(slot, s.segment(from), &it)
			s.setCount(to, s.count(from))
			s.slots.at(slot).at = to
			b = &s.blocks[at] // put may have moved the list
		}
		off += uint32(n) + imageHeader
	}
	if s.spare == nil && cap(old) == maxBlock {
		s.spare = old[:0]
	} else {
		s.bytes -= int64(cap(old))
	}
	*b = block{}
	s.free = append(s.free, at)
}

// memory is how many bytes the store takes.
func (s *store) memory() int64 {
	const blockSize, freeSize = 32, 4
	return s.bytes + int64(cap(s.blocks))*blockSize + int64(cap(s.free))*freeSize
}
